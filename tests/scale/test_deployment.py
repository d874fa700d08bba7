"""The examples in deploy/: they are what compose and systemd take, and name options that there are."""

import json
import re
import shlex
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from hames.cli.node_flags import check_node
from hames.cli.parsing import parser_for

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PROGRAM = "/opt/hames/bin/hames"


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def commands() -> list[list[str]]:
    """Every command of ours that an example starts, without the name of the program."""
    composed = [one["command"][1:] for one in compose()["services"].values() if "command" in one]
    started = [line for unit in UNITS for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    return [*composed, *(shlex.split(line.removeprefix(f"ExecStart={PROGRAM} ")) for line in started)]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_an_example_starts_hames_with_options_that_there_are(words: list[str]) -> None:
    module = import_module(f"hames.cli.{words[0]}")
    parser = parser_for("hames", module.__doc__)
    module.add_arguments(parser)
    args = parser.parse_args(words[1:])
    if words[0] == "serve":
        check_node(args, "postgresql://db/hames")


def test_the_compose_file_matches_the_schema_of_the_specification() -> None:
    given = compose()
    assert given.pop("name") == "hames"  # newer than this edition of the schema, which is Docker's own of 2021
    schema = json.loads((Path(__file__).parent / "compose-schema.json").read_text())
    problems = [f"{list(one.path)}: {one.message}" for one in jsonschema.Draft7Validator(schema).iter_errors(given)]
    assert problems == []


def test_the_compose_file_names_only_volumes_and_services_that_there_are() -> None:
    given = compose()
    for name, service in given["services"].items():
        named = {word.partition(":")[0] for word in service.get("volumes", ())}
        assert named <= set(given["volumes"]), name
        assert set(service.get("depends_on", ())) <= set(given["services"]), name
    text = (DEPLOY / "compose.yaml").read_text()
    needed = set(re.findall(r"\$\{(\w+):\?", text))
    assert {"HAMES_IMAGE", "POSTGRES_PASSWORD", "HAMES_TOKEN"} <= needed


@pytest.mark.slow
@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    """Whether the program is where an administrator puts it is not ours to say."""
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(PROGRAM, "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    copy.write_text(copy.read_text().replace("Restart=always", "Restart=sometimes"))
    broken = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    assert "restart" in broken.stderr
