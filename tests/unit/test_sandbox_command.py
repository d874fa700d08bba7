"""`hames sandbox`: a command the way a tool would run it."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("bwrap", "bash")

PROGRAM = """
import argparse, sys
from hames.cli import sandbox
from hames.domain.errors import HarnessError
parser = argparse.ArgumentParser()
sandbox.add_arguments(parser)
try:
    sys.exit(sandbox.run(parser.parse_args()))
except HarnessError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""


def hames_sandbox(here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", PROGRAM, "--cwd", str(here), *words]
    return subprocess.run(program, capture_output=True, text=True, timeout=30, check=False)


def test_output_and_exit_code_are_the_commands_own(tmp_path: Path) -> None:
    done = hames_sandbox(tmp_path, "--", "sh", "-c", "pwd; echo oops >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, f"{tmp_path}\noops\n")


def test_a_signal_is_told_the_way_shells_tell_it(tmp_path: Path) -> None:
    policy = ("--sandbox", "dangerFullAccess")
    assert hames_sandbox(tmp_path, *policy, "--", "sh", "-c", "kill -9 $$").returncode == 137
    assert hames_sandbox(tmp_path, "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_the_policy_is_a_name_or_json(tmp_path: Path) -> None:
    assert hames_sandbox(tmp_path, "--", "touch", "x").returncode == 0
    assert (tmp_path / "x").exists()
    assert hames_sandbox(tmp_path, "--sandbox", "readOnly", "--", "touch", "y").returncode != 0
    more = tmp_path / "more"
    more.mkdir()
    (tmp_path / "ws").mkdir()
    policy = f'{{"type": "workspaceWrite", "writableRoots": ["{more}"]}}'
    hames_sandbox(tmp_path / "ws", "--sandbox", policy, "--", "touch", f"{more}/z", f"{tmp_path}/w")
    assert (more / "z").exists()
    assert not (tmp_path / "w").exists()


def test_more_can_be_shown(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        data = Path(name, "data")
        data.mkdir()
        (data / "set").write_text("shown\n")
        command = ("--", "sh", "-c", f"cat {data}/set; touch {data}/x")
        assert "shown" not in hames_sandbox(tmp_path, *command).stdout
        assert "Read-only" in hames_sandbox(tmp_path, "--read", str(data), *command).stdout
        assert hames_sandbox(tmp_path, "--cache", str(data), *command).stdout.startswith("shown\n")
        assert [path.name for path in data.iterdir()] == ["set"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--sandbox", "nothing", "--", "ls"], "not a sandbox policy"),
        (["--sandbox", '{"type": "readOnly"', "--", "ls"], "not a sandbox policy"),
        (["--"], "the command is missing"),
        ([], "the command is missing"),
    ],
)
def test_a_bad_option_is_a_sentence(tmp_path: Path, words: list[str], complaint: str) -> None:
    done = hames_sandbox(tmp_path, *words)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.needs("git")
def test_a_hook_that_was_left_in_a_subdirectory_is_noted(tmp_path: Path) -> None:
    hook = (
        "git init -q sub && printf '#!/bin/sh\\n' > sub/.git/hooks/post-commit && chmod +x sub/.git/hooks/post-commit"
    )
    done = hames_sandbox(tmp_path, "--", "sh", "-c", hook)
    assert done.returncode == 0
    assert "note: Disabled the git hooks 'post-commit' in 'sub/.git/hooks'" in done.stderr
