"""`hames run` where somebody sits at a terminal, and what it says when nobody does."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_process import Shell, typed

from hames.domain.items import NOT_RUN

ASKS = [{"say": "I will look."}, {"call": "shell", "with": {"command": "rm -rf build"}}]
CTRL_C = "\x03"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path)
    (found.workspace / "build").mkdir()
    return found


def result_of(text: str) -> dict[str, Any]:
    return json.loads(text.splitlines()[-1])


def test_ctrl_c_at_a_question_ends_the_run_at_once(shell: Shell) -> None:
    words = ["run", "go", "--model", shell.script(ASKS, "Done.")]
    code, seen = typed(shell, words, [("[n]o:", CTRL_C)])
    assert code == 130, seen
    assert "interrupted" in seen
    assert NOT_RUN in seen
    assert (shell.workspace / "build").is_dir()


def test_an_answer_is_broken_between_words_on_a_terminal_and_nowhere_else(shell: Shell) -> None:
    said = " ".join(f"sentence{number}" for number in range(40))
    words = ["run", "go", "--model", shell.script(said)]
    _, seen = typed(shell, words, [], columns=60)
    lines = [line.rpartition("\x1b[2K")[2].strip() for line in seen.splitlines() if "sentence" in line]
    assert max(map(len, lines)) <= 60
    assert " ".join(lines).endswith(said), seen
    assert shell.hames(*words).stdout == f"{said}\n"


def test_ctrl_c_at_the_question_whether_to_remove_a_thread_keeps_it(shell: Shell) -> None:
    shell.hames("run", "hello", "--model", "scripted/hello")
    code, seen = typed(shell, ["threads", "rm", "last"], [("[y/N]", CTRL_C)])
    assert code == 130, seen
    assert len(json.loads(shell.hames("threads", "--json").stdout)) == 1


@pytest.mark.needs("bwrap")
def test_ctrl_c_at_a_question_of_the_demo_ends_it(shell: Shell) -> None:
    code, seen = typed(shell, ["demo", "--ask"], [("[n]o:", CTRL_C)])
    assert code == 130, seen


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(("answer", "there"), [("y", False), ("n", True), ("", True)])
def test_an_answer_is_read_from_the_terminal(shell: Shell, answer: str, there: bool) -> None:
    words = ["run", "go", "--model", shell.script(ASKS, "Done.")]
    code, seen = typed(shell, words, [("[n]o:", answer)])
    assert (code, (shell.workspace / "build").is_dir()) == (0, there), seen


def test_the_end_of_the_input_declines(shell: Shell) -> None:
    words = ["run", "go", "--model", shell.script(ASKS, "Done.")]
    code, seen = typed(shell, words, [("[n]o:", "\x04")])
    assert (code, (shell.workspace / "build").is_dir()) == (0, True), seen


def test_a_command_that_nobody_approved_was_not_run_and_the_hint_names_the_terminal(shell: Shell) -> None:
    done = shell.hames("run", "go", "--model", shell.script(ASKS, "Done."))
    thread = json.loads(shell.hames("threads", "--json").stdout)[0]["id"]
    assert done.returncode == 3
    assert f"– {NOT_RUN}" in done.stderr
    assert "✗" not in done.stderr
    assert "stopped: this needs an approval, and nobody can answer" in done.stderr
    assert f"hames --thread {thread};" in done.stderr
    assert f"hames run --thread {thread} --approval-policy never PROMPT" in done.stderr


def test_the_result_of_an_approval_that_is_needed_has_an_error_and_a_hint(shell: Shell) -> None:
    done = shell.hames("run", "go", "--json", "--model", shell.script(ASKS, "Done."))
    told = result_of(done.stdout)
    assert (done.returncode, told["exitCode"], told["outcome"]) == (3, 3, "needsApproval")
    assert told["error"] == "this needs an approval, and nobody can answer"
    assert f"hames --thread {told['threadId']}" in told["hint"]
    (item,) = [
        event["item"]
        for event in map(json.loads, done.stdout.splitlines())
        if event["type"] == "item.completed" and event["item"]["type"] == "commandExecution"
    ]
    assert item["reason"] == NOT_RUN


def test_tokens_are_in_the_result_and_in_the_last_line_of_a_terminal(shell: Shell) -> None:
    model = shell.script([{"say": "Done."}, {"usage": {"input_tokens": 1200, "output_tokens": 30}}])
    told = result_of(shell.hames("run", "go", "--json", "--model", model).stdout)
    assert (told["usage"]["inputTokens"], told["usage"]["outputTokens"]) == (1200, 30)
    code, seen = typed(shell, ["run", "go", "--model", model], [])
    last = seen.splitlines()[-1].rpartition("\x1b[2K")[2]  # behind a line of progress, if there was one
    assert (code, last) == (0, "1.2k tokens in, 30 out"), seen
    quiet = shell.hames("run", "go", "--model", model)
    assert "tokens in," not in quiet.stderr
