"""`--log-level debug`: what somebody who looks for a fault wants to read, and nothing that must stay secret."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_process import Shell

SERVER = Path(__file__).with_name("mcp_server.py")
SECRET = "the word that nobody may read"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def lines(text: str) -> dict[str, list[dict[str, Any]]]:
    """The lines of a log by the name of their event."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in text.splitlines():
        entry = json.loads(line)
        found.setdefault(entry["event"], []).append(entry)
    return found


@pytest.mark.needs("bwrap")
def test_a_good_run_leaves_the_requests_the_tools_the_approvals_and_the_mcp_servers(shell: Shell) -> None:
    (shell.folder / "config.toml").write_text(
        f'[mcp_servers.files]\ncommand = "{sys.executable}"\nargs = ["{SERVER}"]\nenv = {{ API_KEY = "sk-{SECRET}" }}\n'
    )
    log = shell.folder / "log.jsonl"
    shows = {"call": "shell", "with": {"command": f"echo '{SECRET}'"}}
    missing = {"call": "no_such_tool", "with": {"word": SECRET}}
    model = shell.script([{"say": SECRET}, shows], [missing], "Done.")
    words = ("run", SECRET, "--approval-policy", "never", "--model", model)
    done = shell.hames(*words, "--log-level", "debug", "--log-file", str(log))
    assert done.returncode == 0, done.stderr
    text = log.read_text()
    found = lines(text)
    assert [entry["status"] for entry in found["turn.ended"]] == ["completed"]
    assert len(found["model.asked"]) == len(found["model.replied"]) == 3
    assert all(entry["ms"] >= 0 and entry["model"] == model for entry in found["model.replied"])
    assert [(entry["tool"], entry["status"]) for entry in found["tool.ended"]] == [("shell", "completed")]
    assert [entry["tool"] for entry in found["tool.refused"]] == ["no_such_tool"]
    states = dict.fromkeys(entry["state"] for entry in found["mcp.server"])  # a slow start is mentioned twice
    assert list(states) == ["starting", "ready"]
    assert SECRET not in text


def test_an_approval_is_in_the_log_with_its_answer(shell: Shell) -> None:
    log = shell.folder / "log.jsonl"
    model = shell.script([{"call": "shell", "with": {"command": "touch made"}}], "Done.")
    done = shell.hames("run", "go", "--model", model, "--log-level", "info", "--log-file", str(log))
    assert done.returncode == 3, done.stderr  # nobody is here to answer
    found = lines(log.read_text())
    assert [entry["intent"] for entry in found["approval.asked"]] == ["RunCommand"]
    assert [entry["status"] for entry in found["turn.ended"]] == ["interrupted"]
    assert "model.asked" not in found  # a matter of `debug`


def test_a_level_without_a_file_is_a_log_on_stderr(shell: Shell) -> None:
    done = shell.hames("run", "go", "--quiet", "--model", shell.script("Done."), "--log-level", "info")
    assert done.stdout == "Done.\n"
    assert "turn.ended" in lines(done.stderr)
    assert shell.hames("run", "go", "--quiet", "--model", shell.script("Done.")).stderr == ""
