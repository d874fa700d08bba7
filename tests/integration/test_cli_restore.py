"""`hames threads restore`: what `git clean -fdx` took away comes back."""

import json
import subprocess
from pathlib import Path

import pytest
from cli_process import Shell


@pytest.mark.needs("git")
def test_threads_that_git_clean_deleted_are_told_of_and_come_back(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for prompt in ("first", "second"):
        assert shell.hames("run", prompt, "--model", "scripted/hello").returncode == 0
    before = {one["id"] for one in json.loads(shell.hames("threads", "--json").stdout)}
    subprocess.run(["git", "init", "-q"], cwd=shell.workspace, check=True, timeout=60)
    subprocess.run(["git", "clean", "-fdxq"], cwd=shell.workspace, check=True, timeout=60)
    assert not (shell.workspace / ".harness").exists()
    listed = shell.hames("threads")
    assert "2 threads were deleted with their directory and can be brought back: hames threads restore" in listed.stdout
    shown = json.loads(shell.hames("threads", "restore", "--list", "--json").stdout)
    assert {one["title"] for one in shown} == {"first", "second"}
    assert not (shell.workspace / ".harness").exists(), "listing restores nothing"
    assert f"restored {shown[0]['id']}" in shell.hames("threads", "restore", shown[0]["id"]).stdout
    assert json.loads(shell.hames("threads", "restore", "--all", "--json").stdout)["notRestored"] == {}
    after = json.loads(shell.hames("threads", "--json").stdout)
    assert {one["id"] for one in after} == before
    assert not any(one["foreign"] for one in after)


def test_what_cannot_be_restored_is_said(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    refused = shell.hames("threads", "restore", "nobody")
    assert (refused.returncode, "no thread 'nobody' is missing here" in refused.stderr) == (1, True)
    assert "belong to restore" in shell.hames("threads", "list", "--all").stderr
