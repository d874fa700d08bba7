"""The exit code of `hames run` tells apart how a turn did not finish."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_process import Shell

ENTRIES = [{"step": "Look", "status": "completed"}, {"step": "Leap", "status": "pending"}]
PLAN = {"call": "plan", "with": {"entries": ENTRIES}}
WRITE = {"call": "write", "with": {"path": "cart.py", "content": "total = 1\n"}}
FAILING = [{"call": "read", "with": {"path": "missing.py"}}]


@pytest.mark.parametrize(
    ("replies", "code", "outcome", "words"),
    [
        ([[{"say": "Half"}, {"stop": "max_tokens"}]] * 4, 5, "failed", "cut off"),
        ([[{"say": "Half"}, {"stop": "max_tokens"}], [{"say": "and half."}]], 0, "completed", ""),
        ([[]] * 3, 6, "failed", "empty"),
        ([[], [{"say": "Here I am."}]], 0, "completed", ""),
        ([FAILING] * 10, 7, "failed", "failed 8 times"),
        ([[PLAN], [{"say": "Done."}], [{"say": "Done."}]], 8, "unfinished", "unfinished plan"),
        ([[WRITE], [{"say": "Done."}], [{"say": "Done."}]], 9, "unfinished", "cart.py"),
        ([[WRITE], [{"say": "Done."}]], 9, "unfinished", "cart.py"),
    ],
    ids=["cut off", "cut off once", "empty", "empty once", "repeated", "plan", "unchecked", "unchecked, one reply"],
)
def test_the_exit_code_says_how_the_turn_ended(
    tmp_path: Path, replies: list[list[dict[str, Any]]], code: int, outcome: str, words: str
) -> None:
    shell = Shell(tmp_path)
    ran = shell.hames("run", "go", "--json", "--approval-policy", "never", "--model", shell.script(*replies))
    result = json.loads(ran.stdout.splitlines()[-1])
    assert (ran.returncode, result["exitCode"], result["outcome"]) == (code, code, outcome), ran.stdout
    assert words in result.get("error", "")


def test_too_many_model_calls_have_an_exit_code_of_their_own(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "config.toml").write_text("max_steps = 2\n")
    ran = shell.hames("run", "go", "--model", shell.script(*[[{"call": "list"}]] * 3))
    assert ran.returncode == 4
    assert "max_steps" in ran.stderr
