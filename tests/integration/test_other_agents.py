"""A project that was set up for another agent: what of it is read and what is not is said where people look for it."""

import json
from pathlib import Path

import pytest
from cli_process import Shell

from hames.config.project import other_agents_files


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_doctor_names_the_directory_and_what_is_read_and_a_start_does_not(shell: Shell) -> None:
    (shell.workspace / ".claude" / "commands").mkdir(parents=True)
    rows = json.loads(shell.hames("doctor", "--json").stdout)
    (unread,) = [row for row in rows if row["name"] == "unread"]
    assert unread["says"].startswith(".claude/ is not read")
    assert "CLAUDE.md" in unread["says"]
    assert not unread["needed"]
    done = shell.hames("run", "go", "--model", shell.script("Done."))
    assert ".claude" not in done.stderr


def test_it_is_found_from_a_directory_below_and_not_above_the_repository(tmp_path: Path) -> None:
    root, below = tmp_path / "project", tmp_path / "project" / "src" / "deep"
    below.mkdir(parents=True)
    (tmp_path / ".claude").mkdir()  # as in a home directory
    assert other_agents_files(below) == ""
    (root / ".git").mkdir()
    (root / ".claude").mkdir()
    (root / ".cursor").mkdir()
    assert other_agents_files(below).startswith(".claude/ and .cursor/ are not read")
    (root / ".gemini").write_text("no directory")
    assert ".gemini" not in other_agents_files(below)
