"""Every command and snippet of the README and the docs works.

`console` blocks are run as they stand. Commands in `sh` blocks install something, need a key or wait for a person: only
their words are checked. `toml` blocks are loaded as the user's configuration.
"""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from hames.cli.main import COMMANDS
from hames.cli.parsing import Parser
from hames.config.load import load

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
UNFINISHED = ("expected one argument", "arguments are required")
"""A sentence may name a command or a flag without all that follows it."""
TUTORIAL = "## Step by step"
"""A section in which each command needs the ones before it. Walked through by a test of its own."""


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text().partition(TUTORIAL)[0] if language == "console" else page.read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def console() -> list[tuple[str, str]]:
    lines = [(page.name, line) for page in PAGES for block in blocks(page, "console") for line in block.splitlines()]
    return [(name, line[2:].partition("  #")[0].strip()) for name, line in lines if line.startswith("$ ")]


def scripted() -> list[tuple[str, str]]:
    """Calls of `hames` in blocks that are not run, and in the text itself."""
    found: list[tuple[str, str]] = []
    for page in PAGES:
        lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        lines += re.findall(r"`(hames [^`\n]+)`", prose)
        for line in lines:
            for call in re.findall(r"(?:^|\| )(hames(?: [^|#<>&]+)?)", line.partition("  #")[0].strip()):
                found.append((page.name, call.strip()))
    return list(dict.fromkeys(found))


@pytest.mark.needs("bwrap", "bash")
@pytest.mark.parametrize(("page", "command"), console())
def test_a_command_runs_as_it_is_shown(page: str, command: str, tmp_path: Path) -> None:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "HAMES_MODEL": "scripted/hello",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{page}: {command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(("page", "call"), scripted())
def test_the_words_of_a_command_are_known(page: str, call: str) -> None:
    words = shlex.split(call.replace("…", "x"))[1:]
    if words[:1] in (["-V"], ["--version"], ["--help"], ["help"]):
        return
    if not words or words[0] not in COMMANDS:
        words = ["tui", *words]
    module = import_module(f"hames.cli.{words[0].replace('-', '_')}")
    parser = Parser(prog=words[0], exit_on_error=False)
    module.add_arguments(parser)
    try:
        parse = parser.parse_intermixed_args if parser.mixes_words_and_options else parser.parse_args
        parse(words[1:])
    except (Exception, SystemExit) as problem:
        if any(words in str(problem) for words in UNFINISHED):
            return
        pytest.fail(f"{page} shows {call!r}: {problem}")


CODEX = "[model_providers."
"""In a piece of Codex's own configuration."""


@pytest.mark.parametrize(
    ("page", "text"), [(page.name, block) for page in PAGES for block in blocks(page, "toml") if CODEX not in block]
)  # fmt: skip
def test_a_piece_of_configuration_is_valid(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    environment = {"HAMES_CONFIG": str(file), "HAMES_STATE": str(tmp_path / "state"), "HOME": str(tmp_path)}
    load({"cwd": str(tmp_path)}, environment)
