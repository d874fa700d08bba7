"""`hames run` with a budget: it ends with an exit code of its own where nobody can raise the budget."""

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest
from cli_process import Shell

from hames.cli import flags

LOOK = [{"call": "list"}]
DONE = [{"say": "Done."}]


@pytest.mark.parametrize("given", [("--approval-policy", "never"), ()], ids=["never asked", "nobody to ask"])
def test_a_budget_that_is_used_up_has_an_exit_code_of_its_own(tmp_path: Path, given: tuple[str, ...]) -> None:
    shell = Shell(tmp_path)
    ran = shell.hames("run", "go", "--json", "--max-steps", "1", "--model", shell.script(LOOK, DONE), *given)
    result = json.loads(ran.stdout.splitlines()[-1])
    assert (ran.returncode, result["exitCode"], result["outcome"]) == (10, 10, "failed"), ran.stdout
    assert "the budget of this turn (1 model reply) is used up" in result["error"]
    assert "--max-cost" in result["hint"]


def test_the_budget_of_a_day_holds_from_one_process_to_the_next(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "config.toml").write_text("[budgets]\nday = { steps = 2 }\n")
    codes = [shell.hames("run", "go", "--model", shell.script(DONE)).returncode for _ in range(3)]
    assert codes == [0, 0, 10]


@pytest.mark.parametrize("flag", ["--max-steps", "--max-cost", "--max-tokens", "--max-minutes"])
def test_a_budget_that_is_no_number_is_refused(flag: str) -> None:
    parser = ArgumentParser()
    flags.add_budgets(parser)
    for value in ("0", "-1", "many", "nan", "inf", ""):
        with pytest.raises(SystemExit) as ended:
            parser.parse_args([f"{flag}={value}"])
        assert ended.value.code == 2


def test_a_budget_in_an_unknown_unit_starts_nothing(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "config.toml").write_text("[budgets]\nturn = { eur = 2 }\n")
    ran = shell.hames("run", "go")
    assert ran.returncode == 2
    assert "'eur'" in ran.stderr
