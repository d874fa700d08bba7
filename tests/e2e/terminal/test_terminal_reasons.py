"""What the terminal says about things that did not work, and the sentences of its screens. In a real terminal."""

import json
import os
import shlex
import sys

import pytest
from tmux_terminal import Terminal, script

from hames.sandbox.walls.probe import candidates

pytestmark = pytest.mark.needs("tmux")

READY = "Say what you want done."


def ready(terminal: Terminal, *words: str, columns: int = 120, rows: int = 40, **environment: str) -> None:
    terminal.start(*words, columns=columns, rows=rows, **environment)
    terminal.shows(READY, "F1 keys", "ask for risky actions")
    terminal.hides("starting …")


def sends(terminal: Terminal, text: str) -> None:
    terminal.types(text)
    terminal.presses("Enter")


# -- reasons


@pytest.mark.needs("bwrap")
def test_on_a_machine_without_a_sandbox_a_command_says_why_it_did_not_run_and_what_to_do(terminal: Terminal) -> None:
    model = script(terminal, [{"call": "shell", "with": {"command": "ls"}}], "I see.")
    # As in a container that may not make namespaces: inside, no sandbox can be set up.
    closed = [candidates()[0], "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"]
    command = shlex.join([*closed, sys.executable, "-m", "hames", "--model", model])
    terminal.tmux("new-session", "-d", "-x", "100", "-y", "40", "-c", str(terminal.workspace), f"{command}; cat")
    terminal.shows(READY, "ask for risky actions")
    sends(terminal, "go")
    terminal.shows("I see.", "$ ls", "│ not started: no sandbox:")
    terminal.presses("C-o")
    screen = terminal.shows("dangerFullAccess")
    assert "start it with" in " ".join(screen.replace("│", " ").split())


def test_a_failed_edit_and_a_failed_search_say_why_right_under_the_call(terminal: Terminal) -> None:
    edit = {"call": "edit", "with": {"path": "missing.txt", "old_string": "a", "new_string": "b"}}
    grep = {"call": "grep", "with": {"pattern": "("}}
    ready(terminal, "--model", script(terminal, [edit, {"call": "glob", "with": {"pattern": "*"}}], [grep], "I see."))
    sends(terminal, "go")
    rows = terminal.shows("I see.", "│ no file", "│ skipped: an earlier call", "│ rg: regex").split("\n")
    for call, why in (("edit", "missing.txt"), ("glob", "skipped: an earlier call"), ("grep", "regex")):
        at = next(number for number, row in enumerate(rows) if row.strip().startswith(f"· {call}"))
        assert rows[at + 1].strip().startswith("│ "), rows
        assert why in rows[at + 1], rows


def test_in_plan_mode_a_tool_that_is_missing_names_the_mode(terminal: Terminal) -> None:
    edit = {"call": "edit", "with": {"path": "a.txt", "old_string": "a", "new_string": "b"}}
    ready(terminal, "--model", script(terminal, [edit], "I see."))
    terminal.presses("C-p")
    terminal.shows("Mode: plan (changes nothing)")
    sends(terminal, "go")
    terminal.shows("I see.", "│ there is no tool 'edit' in plan mode")


@pytest.mark.parametrize("slow", [True, False], ids=["slow", "broken"])
def test_an_mcp_server_is_waited_for_in_words_and_its_failure_is_shown(terminal: Terminal, slow: bool) -> None:
    config, go = terminal.workspace.parent / "config.toml", terminal.workspace.parent / "go"
    os.mkfifo(go)
    program = f"read line < {go}; echo no licence >&2; exit 4" if slow else "echo no licence >&2; exit 4"
    args = json.dumps(["-c", program])
    config.write_text(f'[mcp_servers.files]\ncommand = "/bin/sh"\nargs = {args}\nstartup_timeout_sec = 120\n')
    ready(terminal, "--model", script(terminal, "Done."), HAMES_CONFIG=str(config))
    sends(terminal, "/mcp")
    terminal.shows("MCP servers:", "files  /bin/sh -c", "hames mcp test NAME")
    sends(terminal, "go")
    if slow:
        terminal.shows("starting MCP server 'files'", "starting MCP server files ", without="working")
        go.write_text("go\n")
    terminal.shows("Done.", "! MCP server 'files' is not available:", "exited with code 4: no licence")


def test_status_names_the_notes_from_the_user_s_own_down_to_the_directory(terminal: Terminal) -> None:
    root, below = terminal.workspace, terminal.workspace / "below"
    (root / ".git").mkdir()
    below.mkdir()
    (root / "NOTES.md").write_text("Use tabs.\n")
    (root / "AGENTS.md").symlink_to("NOTES.md")
    (below / "CLAUDE.md").write_text("Use spaces.\n")
    config = terminal.workspace.parent / "config" / "config.toml"
    config.parent.mkdir()
    (config.parent / "AGENTS.md").write_text("Be brief.\n")
    ready(terminal, "--cwd", str(below), "--model", script(terminal, "Done."), columns=400, HAMES_CONFIG=str(config))
    sends(terminal, "go")
    terminal.shows("Done.")
    sends(terminal, "/status")
    row = next(row for row in terminal.shows("notes  ").split("\n") if "notes  " in row)
    places = [config.parent / "AGENTS.md", root / "AGENTS.md", below / "CLAUDE.md"]
    assert [row.find(str(place)) for place in places] == sorted(row.find(str(place)) for place in places)
    assert all(str(place) in row for place in places), row


# -- text


def test_numbers_of_a_table_are_aligned_to_the_right(terminal: Terminal) -> None:
    table = "| name | count |\n|:--|--:|\n| a | 1 |\n| b | 1000 |\n"
    ready(terminal, "--model", script(terminal, table))
    sends(terminal, "go")
    rows = terminal.shows("1000", "name").split("\n")
    ends = [len(row.rstrip(" │|")) for row in rows if row.strip().rstrip(" │|").endswith(("count", " 1", "1000"))]
    assert len(ends) == 3, rows
    assert len(set(ends)) == 1, rows


# -- sentences


def test_the_first_screen_the_help_and_a_list_say_what_to_press(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello", rows=70)
    screen = terminal.shows("Mode: ask (ask for risky actions) · Sandbox: workspace only")
    assert "shift+tab mode" in " ".join(screen.split())
    terminal.presses("F1")
    said = " ".join(terminal.shows("╭─ Help").replace("│", " ").split())
    assert "shift+tab change the mode: plan, ask, auto" in said
    assert "esc stop the turn; with no turn running, jump to the latest message" in said
    terminal.presses("Escape")
    terminal.shows("Type a message.", without="╭─ Help")
    terminal.presses("C-l")
    terminal.shows("╭─ Model", "enter select · esc close")


@pytest.mark.needs("bwrap")
def test_an_approval_says_in_plain_words_what_is_asked_and_why(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, [{"call": "shell", "with": {"command": "python3 x.py"}}], "I see."))
    sends(terminal, "go")
    terminal.shows(
        "Allow this command?",
        "$ python3 x.py",
        "`python3` runs code, which may change files",
        "y allow once",
        "r reject and tell the agent why",
    )


def test_a_reply_that_broke_off_and_a_compacted_thread_are_explained(terminal: Terminal) -> None:
    broken = [{"say": "Half of it"}, {"fail": "the line is gone", "retryable": True}]
    ready(terminal, "--model", script(terminal, broken, "All of it.", "A summary."))
    sends(terminal, "go")
    terminal.shows("Connection lost. The partial answer above was discarded", "All of it.")
    sends(terminal, "/compact")
    terminal.shows("Conversation compacted: the model now sees a summary instead of the messages above")


def test_a_queue_that_was_stopped_says_how_to_go_on(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, [{"say": "Working."}, {"hang": True}], "Never."))
    sends(terminal, "go")
    terminal.shows("Working.", "esc stop")
    terminal.types("later")
    terminal.presses("Tab")
    terminal.shows("1. queued: later")
    terminal.presses("Escape")
    terminal.shows("Queue paused after stop. Send a message to continue, or /drop to clear it")
