"""Whatever was refused, failed, skipped or ignored says why: on the screen, in `hames run` and in `--json`."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_process import Shell

LEAVES = {
    "call": "shell",
    "with": {"command": "touch /tmp/out", "unsandboxed": True, "justification": "it must be outside"},
}
MISSING = {"call": "read", "with": {"path": "missing.txt"}}
SKIPPED = "skipped: an earlier call of the same reply failed"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def items(text: str, kind: str = "item.completed") -> list[dict[str, Any]]:
    return [event["item"] for event in events(text) if event["type"] == kind]


def test_a_refused_command_says_why_in_run_and_json(shell: Shell) -> None:
    words = ("run", "go", "--approval-policy", "never", "--model", shell.script([LEAVES], "I see."))
    shown = shell.hames(*words)
    assert shown.returncode == 0, shown.stderr
    (line,) = [line for line in shown.stderr.splitlines() if "✗" in line]
    assert "failed: " in line
    assert "approvals are off (`never`)" in line
    told = items(shell.hames(*words, "--json").stdout)
    (command,) = [item for item in told if item["type"] == "commandExecution"]
    assert command["status"] == "failed"
    assert "approvals are off (`never`)" in command["reason"]
    assert command["aggregatedOutput"] == ""


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (MISSING, "missing.txt"),
        ({"call": "edit", "with": {"path": "missing.txt", "old_string": "a", "new_string": "b"}}, "missing.txt"),
        ({"call": "grep", "with": {"pattern": "("}}, "regex"),
        ({"call": "no_such_tool", "with": {}}, "there is no tool 'no_such_tool'"),
        ({"call": "read", "with": {"path": 3}}, "the arguments do not fit"),
    ],
)
def test_a_failed_tool_says_why_in_one_line_of_run(shell: Shell, call: dict[str, Any], why: str) -> None:
    words = ("run", "go", "--approval-policy", "never", "--model", shell.script([call], "I see."))
    shown = shell.hames(*words)
    (line,) = [line for line in shown.stderr.splitlines() if "✗" in line]
    assert line.strip().startswith("✗ failed: ")
    assert why in line
    (item,) = [item for item in items(shell.hames(*words, "--json").stdout) if item["type"] == "toolCall"]
    assert why in item["reason"]


def test_a_reason_of_many_lines_is_one_line_and_cannot_paint_the_terminal(shell: Shell) -> None:
    name = "a\nb\x1b[31mred"
    done = shell.hames("run", "go", "--model", shell.script([{"call": "read", "with": {"path": name}}], "I see."))
    (line,) = [line for line in done.stderr.splitlines() if "✗" in line]
    assert "red" in line
    assert "\x1b" not in done.stderr


def test_calls_after_a_failed_one_are_shown_as_skipped(shell: Shell) -> None:
    calls = [MISSING, {"call": "shell", "with": {"command": "echo never"}}, {"call": "glob", "with": {"pattern": "*"}}]
    words = ("run", "go", "--approval-policy", "never", "--model", shell.script(calls, "I see."))
    shown = shell.hames(*words)
    assert [line.strip() for line in shown.stderr.splitlines() if "skipped" in line] == [f"– {SKIPPED}"] * 2
    assert "· shell command=echo never" in shown.stderr
    out = shell.hames(*words, "--json").stdout
    skipped = [item for item in items(out) if item.get("outcome") == "skipped"]
    assert [(item["type"], item["name"], item["status"], item["reason"]) for item in skipped] == [
        ("toolCall", "shell", "failed", SKIPPED),
        ("toolCall", "glob", "failed", SKIPPED),
    ]
    started = [item["id"] for item in items(out, "item.started")]
    assert [started.count(item["id"]) for item in skipped] == [1, 1]
    assert [[item["id"] for item in items(out)].count(item["id"]) for item in skipped] == [1, 1]


def test_the_skipped_calls_are_in_the_thread_when_it_is_read_again(shell: Shell) -> None:
    calls = [MISSING, {"call": "shell", "with": {"command": "echo never"}}]
    shell.hames("run", "go", "--approval-policy", "never", "--model", shell.script(calls, "I see."))
    thread = json.loads(shell.hames("threads", "show", "last", "--json").stdout)
    kinds = [(item["type"], item.get("outcome"), item.get("reason")) for item in thread["turns"][0]["items"]]
    assert ("toolCall", "skipped", SKIPPED) in kinds
    page = shell.hames("threads", "export", "last").stdout
    assert SKIPPED in page
    assert "missing.txt" in page
