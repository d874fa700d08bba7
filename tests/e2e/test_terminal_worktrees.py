"""Worktrees of threads in a real terminal: begun with a flag or out of a thread, merged, kept and dropped."""

import subprocess
from pathlib import Path

import pytest
from tmux_terminal import Terminal, script

pytestmark = pytest.mark.needs("tmux", "bwrap", "git")
READY = "Say what you want done."


def git(where: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=where, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def shop(terminal: Terminal) -> Path:
    """The terminal's workspace, as a repository with a commit and something that is not committed."""
    (terminal.workspace.parent / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    work = terminal.workspace
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    (work / "cart.txt").write_text("one\n")
    (work / ".gitignore").write_text(".harness/\n")
    git(work, "init", "-q", "-b", "main")
    git(work, "add", "-A")
    git(work, *who, "commit", "-qm", "Begin")
    (work / "draft.txt").write_text("not committed\n")
    return work


def trees(terminal: Terminal) -> list[Path]:
    return sorted((terminal.workspace.parent / ".local/share/hames/worktrees").glob("*/*"))


def sends(terminal: Terminal, text: str) -> None:
    terminal.types(text)
    terminal.presses("Enter")


def works(terminal: Terminal, *words: str, command: str) -> None:
    model = script(terminal, [{"call": "shell", "with": {"command": command}}], "I am done.", "Once more.")
    terminal.start("--model", model, "--mode", "auto", *words, columns=110, rows=40)
    terminal.shows(READY)


def test_a_thread_that_begins_in_a_worktree_is_merged(terminal: Terminal, shop: Path) -> None:
    works(terminal, "--worktree", "try", command="echo two >> cart.txt")
    sends(terminal, "go")
    terminal.shows("I am done.", "hames/try")
    assert (shop / "cart.txt").read_text() == "one\n"
    [tree] = trees(terminal)
    assert (tree / "cart.txt").read_text() == "one\ntwo\n"
    assert not (tree / "draft.txt").exists()
    sends(terminal, "/worktree")
    terminal.shows("Worktree try", "Merge into main", "1 uncommitted file", "Keep it", "Drop it")
    terminal.presses("Enter")
    terminal.shows("merged", without="Keep it")
    assert (shop / "cart.txt").read_text() == "one\ntwo\n"
    assert (shop / "draft.txt").read_text() == "not committed\n"
    assert trees(terminal) == []


def test_a_copy_of_a_thread_takes_the_files_along_and_is_kept_or_dropped_by_its_name(
    terminal: Terminal, shop: Path
) -> None:
    works(terminal, command="echo agent > only-here.txt")
    sends(terminal, "go")
    terminal.shows("I am done.")
    sends(terminal, "/worktree copy")
    terminal.shows("Go on in a worktree", "uncommitted ones too")
    terminal.presses("Enter")
    terminal.shows("This is a copy of the thread, in a worktree of its own")
    [tree] = trees(terminal)
    assert (tree / "draft.txt").read_text() == "not committed\n"
    assert (tree / "only-here.txt").read_text() == "agent\n"
    (tree / "lost.txt").write_text("nowhere else\n")
    sends(terminal, "/worktree")
    terminal.shows("Worktree copy", "Keep it")
    terminal.presses("Down", "Enter")
    assert terminal.shows("The worktree 'copy' stays in", without="Drop it").count("stays in") == 1
    assert (tree / "lost.txt").exists()
    for typed, gone in (("yes", False), ("copy", True)):
        sends(terminal, "/worktree")
        terminal.shows("Worktree copy", "Drop it")
        terminal.presses("Down", "Down", "Enter")
        terminal.shows("Type copy to delete it")
        sends(terminal, typed)
        terminal.shows("Nothing was deleted" if not gone else "were deleted", without="Type copy")
        assert tree.exists() != gone
    assert (shop / "draft.txt").read_text() == "not committed\n"
    assert "hames/copy" not in git(shop, "branch")


def test_a_conflict_names_the_file_and_changes_nothing(terminal: Terminal, shop: Path) -> None:
    works(terminal, "--worktree", "try", command="echo theirs > cart.txt")
    sends(terminal, "go")
    terminal.shows("I am done.")
    (shop / "cart.txt").write_text("mine\n")
    git(shop, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qam", "Mine")
    sends(terminal, "/worktree")
    terminal.shows("Worktree try")
    terminal.presses("Enter")
    terminal.shows("conflict  cart.txt")
    assert (shop / "cart.txt").read_text() == "mine\n"
    assert len(trees(terminal)) == 1
