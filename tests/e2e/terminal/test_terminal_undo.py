"""Undo in a real terminal: what is shown, now and when the thread is opened again."""

import json
import subprocess
import sys

import pytest
from tmux_terminal import SECONDS, Terminal, ready, script

pytestmark = pytest.mark.needs("tmux")


@pytest.mark.needs("bwrap")
def test_what_a_turn_did_to_files_is_undone_redone_and_gone_back_from(terminal: Terminal) -> None:
    made = {"call": "shell", "with": {"command": "touch made; mkdir d; touch d/e"}}
    ready(terminal, "--model", script(terminal, [made], "It is made."), "--approval-policy", "onRequest")
    terminal.types("make it")
    terminal.presses("Enter")
    terminal.shows("It is made.")
    terminal.types("/undo")
    terminal.presses("Enter")
    terminal.shows("Undo changes to files", "Undo 3 files", "remove made", "Cancel")
    assert (terminal.workspace / "made").exists()
    terminal.presses("Enter")
    terminal.shows("3 changes undone", "removed       made")
    assert not (terminal.workspace / "made").exists()
    terminal.types("/redo")
    terminal.presses("Enter")
    terminal.shows("Redo 3 files")
    terminal.presses("Enter")
    # The server's own notice of the undo has come by now: it is not shown a second time.
    assert terminal.shows("3 changes redone").count("3 changes undone") == 1
    assert (terminal.workspace / "d" / "e").exists()
    terminal.types("/rewind")
    terminal.presses("Enter")
    terminal.shows("Go back to before this message", "make it")
    terminal.presses("Enter")
    terminal.shows("Files and conversation")
    terminal.presses("Enter")
    terminal.shows("Undo 3 files")
    terminal.presses("Enter")
    terminal.shows("│ make it")  # for a change of words
    assert not (terminal.workspace / "made").exists()


@pytest.mark.needs("bwrap")
def test_a_turn_whose_changes_were_undone_says_so_at_once_and_when_the_thread_is_opened_again(
    terminal: Terminal,
) -> None:
    write = {"call": "write", "with": {"path": "new.txt", "content": "new\n"}}
    model = script(terminal, [write], [{"call": "shell", "with": {"command": "touch made"}}], "It is done.", "Nothing.")
    ready(terminal, "--model", model, "--approval-policy", "onRequest")
    terminal.types("make it")
    terminal.presses("Enter")
    terminal.shows("It is done.")
    terminal.types("say something")
    terminal.presses("Enter")
    screen = terminal.shows("Nothing.")
    assert "undone" not in screen
    in_one_line = "± new.txt new  +1 −0 ↶ undone"
    last_line = "↶ Changes undone: made, new.txt"

    terminal.types("/undo")
    terminal.presses("Enter")
    terminal.shows("Undo 2 files")
    terminal.presses("Enter")
    screen = terminal.shows(in_one_line, last_line, "2 changes undone")
    assert screen.index(last_line) < screen.index("say something"), "it stands at the turn, not at the end"
    again(terminal, model)
    terminal.shows(in_one_line, last_line)
    shown = hames(terminal, "threads", "show", "last")
    assert "*undone*" in shown
    assert f"*changes undone: {terminal.workspace}/made, {terminal.workspace}/new.txt*" in shown
    first, second = json.loads(hames(terminal, "threads", "export", "last", "--format", "json"))["turns"]
    assert first["undone"] == [f"{terminal.workspace}/made", f"{terminal.workspace}/new.txt"]
    assert "undone" not in second

    terminal.types("/redo")
    terminal.presses("Enter")
    terminal.shows("Redo 2 files")
    terminal.presses("Enter")
    terminal.shows("2 changes redone", "± new.txt new  +1 −0 ✓", without="↶")
    again(terminal, model)
    terminal.shows("± new.txt new  +1 −0 ✓", "Nothing.", without="undone")
    assert "undone" not in hames(terminal, "threads", "show", "last")


@pytest.mark.needs("bwrap")
def test_an_undo_from_another_program_is_seen_in_an_open_thread(terminal: Terminal) -> None:
    write = {"call": "write", "with": {"path": "new.txt", "content": "new\n"}}
    ready(terminal, "--model", script(terminal, [write], "It is done."), "--approval-policy", "onRequest")
    terminal.types("make it")
    terminal.presses("Enter")
    terminal.shows("It is done.")
    assert "1 change undone" in hames(terminal, "undo", "--yes")
    terminal.shows("+1 −0 ↶ undone", "↶ Changes undone: new.txt", "1 change undone")
    assert "1 change redone" in hames(terminal, "undo", "--redo", "--yes")
    terminal.shows("+1 −0 ✓", "1 change redone", without="↶")


def again(terminal: Terminal, model: str) -> None:
    """Leaves, and opens the thread again."""
    terminal.presses("C-d")
    terminal.shows("ended with 0")
    terminal.close()
    terminal.start("tui", "--continue", "--model", model)
    terminal.shows("› make it", "It is done.", "Type a message")


def hames(terminal: Terminal, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hames", *words],
        cwd=terminal.workspace,
        env=terminal.environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.needs("bwrap")
def test_undo_on_the_command_line_says_what_it_would_do_and_then_what_it_did(terminal: Terminal) -> None:
    write = {"call": "write", "with": {"path": "new.txt", "content": "new\n"}}
    model = script(terminal, [write], "It is done.")
    hames(terminal, "run", "make it", "--model", model, "--approval-policy", "never")
    terminal.start("undo")
    screen = terminal.shows("remove        new.txt", "1 change would be undone", "Go ahead? [y/N]")
    assert "removed" not in screen
    terminal.types("y")
    terminal.presses("Enter")
    terminal.shows("removed       new.txt", "1 change undone", "ended with 0")
    assert not (terminal.workspace / "new.txt").exists()
