"""`hames threads restore`: what `git clean -fdx` took away comes back."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_process import Shell


@pytest.mark.needs("git")
def test_threads_that_git_clean_deleted_are_told_of_and_come_back(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert shell.hames("threads", "restore").stdout == "no thread is missing here\n"
    for prompt in ("first", "second"):
        assert shell.hames("run", prompt, "--model", "scripted/hello").returncode == 0
    before = {one["id"] for one in json.loads(shell.hames("threads", "--json").stdout)}
    subprocess.run(["git", "init", "-q"], cwd=shell.workspace, check=True, timeout=60)
    subprocess.run(["git", "clean", "-fdxq"], cwd=shell.workspace, check=True, timeout=60)
    assert not (shell.workspace / ".harness").exists()
    listed = shell.hames("threads")
    assert "2 threads were deleted with their directory and can be brought back: hames threads restore" in listed.stdout
    shown = shell.hames("threads", "restore", "--list")
    assert "first" in shown.stdout
    assert not (shell.workspace / ".harness").exists(), "listing restores nothing"
    one = json.loads(shell.hames("threads", "restore", "--list", "--json").stdout)[0]["id"]
    assert f"restored {one}" in shell.hames("threads", "restore", one).stdout
    assert json.loads(shell.hames("threads", "restore", "--all", "--json").stdout)["notRestored"] == {}
    after = json.loads(shell.hames("threads", "--json").stdout)
    assert {one["id"] for one in after} == before
    assert not any(one["foreign"] for one in after)
    assert shell.hames("threads", "restore", "nobody").returncode == 1
    assert "belong to restore" in shell.hames("threads", "list", "--all").stderr
    shutil.rmtree(shell.workspace / ".harness")
