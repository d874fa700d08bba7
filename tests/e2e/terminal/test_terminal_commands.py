"""Pasted text, shell commands, slash commands and lists in a real terminal."""

import shlex
import subprocess
import time
from pathlib import Path

import pytest
from tmux_terminal import SECONDS, Terminal, ready, script

pytestmark = pytest.mark.needs("tmux")


# -- pasted text


def test_a_long_paste_is_a_label_until_it_is_sent_and_folded_afterwards(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, "Read it.", "Read it again."))
    text = "\n".join(f"pasted line {number:03d}" for number in range(1, 501))
    terminal.types("look: ")
    terminal.pastes(text)
    terminal.shows("│ look: [Pasted 500 lines]")
    terminal.presses("BSpace")
    terminal.hides("[Pasted")
    terminal.shows("│ look:")
    terminal.presses("C-_")
    terminal.shows("│ look: [Pasted 500 lines]")
    terminal.presses("Left")
    terminal.types("this ")
    terminal.shows("│ look: this [Pasted 500 lines]")
    terminal.presses("End")
    terminal.types(" and say")
    terminal.presses("Enter")
    screen = terminal.shows("› look: this pasted line 001", "more lines", "pasted line 500 and say", "Read it.")
    assert "pasted line 250" not in screen
    assert "pasted line 250" in terminal.threads()
    terminal.presses("Up")
    terminal.shows("│ look: this [Pasted 500 lines] and say")


def test_what_is_pasted_is_no_command_and_names_no_file(terminal: Terminal) -> None:
    (terminal.workspace / "secret.txt").write_text("the secret")
    ready(terminal, "--model", script(terminal, "Read it."))
    terminal.pastes("!touch made\n/exit\nsee @secret.txt\n" + "x\n" * 20)
    terminal.shows("│ [Pasted 23 lines]")
    terminal.presses("Enter")
    terminal.shows("Read it.")
    assert not (terminal.workspace / "made").exists()
    assert "the secret" not in terminal.threads()
    assert "[file" not in terminal.screen()


def test_a_joined_emoji_stays_joined_and_is_one_character(terminal: Terminal) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    ready(terminal, "--model", script(terminal, "Seen."))
    terminal.types(f"a {family} b")
    terminal.shows(" b ")
    terminal.presses("Left", "Left", "BSpace")
    terminal.types("x")
    terminal.shows("│ a x b")
    terminal.presses("C-_", "C-_")
    terminal.presses("C-c")
    terminal.types(f"see {family}!")
    terminal.presses("Enter")
    terminal.shows("Seen.")
    assert family in terminal.threads() or family.encode("unicode_escape").decode() in terminal.threads()


# -- commands of one's own


def test_a_command_of_one_s_own_runs_outside_the_sandbox_and_its_output_goes_with_the_next_message(
    terminal: Terminal,
) -> None:
    outside = terminal.workspace.parent / "outside"
    ready(terminal, "--model", script(terminal, "I see it."))
    terminal.types("!")
    terminal.shows("Shell command: runs as you, outside the sandbox")
    terminal.types(f"pwd; echo $((6 * 7)) > {outside}; echo shown; false")
    terminal.presses("Enter")
    terminal.shows("! pwd; echo", "│ shown", "✗ exit 1", "the output goes with your next message")
    assert outside.read_text() == "42\n"
    assert not (terminal.workspace / ".harness" / "threads").exists(), "nothing has been sent yet"
    terminal.types("what was that")
    terminal.presses("Enter")
    terminal.shows("› what was that", "[output of !pwd; echo", "I see it.")
    log = terminal.threads()
    assert "Output of a command that I ran myself (exit code 1)" in log
    assert str(terminal.workspace) in log
    assert "shown" in log


def test_escape_stops_a_command_of_one_s_own_and_everything_it_started(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello")
    terminal.types("!sleep 100 & echo $! $$ > pids; sleep 100; echo never")
    terminal.presses("Enter")
    terminal.shows("esc stops it")
    terminal.presses("Escape")
    terminal.shows("stopped", "its output is not sent")
    pids = (terminal.workspace / "pids").read_text().split()
    until = time.monotonic() + SECONDS
    while [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < until, "it still runs"
        time.sleep(0.05)


def test_a_space_before_the_exclamation_mark_sends_it_to_the_model(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, "I see it."))
    terminal.types(" !touch made")
    terminal.presses("Enter")
    terminal.shows("› !touch made", "I see it.")
    assert not (terminal.workspace / "made").exists()


# -- slash commands


def test_the_list_of_commands_says_how_many_more_there_are_and_scrolls(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello")
    terminal.types("/")
    terminal.shows("/help", "↓ ", " more")
    terminal.presses("Up")  # from the first to the last
    terminal.shows("/quit", "↑ ")
    terminal.hides("↓ ")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/undo", ["This thread is empty: send a message first"]),
        ("/mcp", ["No MCP servers are configured", "hames mcp add"]),
        ("/diff", ["not in a git repository"]),
        ("/statsu", ["Unknown command /statsu. Did you mean /status?"]),
        ("/approvals never", ["never ask"]),
        ("/policy always", ["ask every time"]),
        ("/init", ["write an AGENTS.md", "One."]),
        ("/queue", ["What should be queued?"]),
        ("/drop", ["No messages are queued"]),
    ],
)
@pytest.mark.needs("bwrap")
def test_a_slash_command_does_what_its_name_says(terminal: Terminal, command: str, words: list[str]) -> None:
    ready(terminal, "--model", script(terminal, "One."))
    terminal.types(command)
    terminal.presses("Enter")
    terminal.shows(*words)


def test_clear_starts_a_new_thread_and_keeps_the_old_one(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, "One.", "Two."))
    terminal.types("first")
    terminal.presses("Enter")
    terminal.shows("› first", "One.")
    terminal.types("/clear")
    terminal.presses("Enter")
    terminal.hides("One.")
    terminal.types("second")
    terminal.presses("Enter")
    terminal.shows("› second", "One.")
    terminal.presses("C-t")
    terminal.shows("╭─ Threads", "  first", "● second")


@pytest.mark.parametrize(("name", "colour"), [("light", "48;2;251;251;249"), ("dark", "48;2;18;20;26")])
def test_themes_have_short_names(terminal: Terminal, name: str, colour: str) -> None:
    other = "dark" if name == "light" else "light"
    ready(terminal, "--model", "scripted/hello", "--theme", other)
    assert colour not in terminal.screen(escapes=True)
    terminal.types(f"/theme {name}")
    terminal.presses("Enter")
    until = time.monotonic() + SECONDS
    while colour not in terminal.screen(escapes=True):
        assert time.monotonic() < until, terminal.screen()


@pytest.mark.needs("bwrap", "git")
def test_diff_shows_uncommitted_changes_and_runs_nothing_that_the_repository_names(terminal: Terminal) -> None:
    workspace, outside = terminal.workspace, terminal.workspace.parent / "escaped"

    def git(*words: str) -> None:
        name = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *name, *words], cwd=workspace, check=True, capture_output=True)

    git("init", "-q")
    (workspace / "cart.py").write_text("a = 1\n")
    (workspace / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
    git("add", ".")
    git("commit", "-qm", "first")
    for name in ("filter.evil.clean", "diff.evil.textconv", "core.fsmonitor", "diff.external"):
        git("config", name, f"touch {outside}; cat")
    (workspace / "cart.py").write_text("a = 2\n")
    (workspace / "new.py").write_text("b = 3\n")
    ready(terminal, "--model", "scripted/hello")
    terminal.types("/diff")
    terminal.presses("Enter")
    terminal.shows("± cart.py", "a = 2", "± new.py", "b = 3")
    assert not outside.exists()


# -- lists


def test_a_notice_does_not_cover_the_message_box(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello")
    terminal.presses("C-c")
    _, row = terminal.place("Press Ctrl+C again to close Hames")
    _, box = terminal.place("Type a message.")
    assert row < box - 3


def test_the_models_are_grouped_and_nothing_of_them_is_cut_at_eighty_columns(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello", rows=60)
    terminal.presses("C-l")
    screen = terminal.shows("╭─ Model", "Current", "anthropic/claude-sonnet-5-5", "1M context · $2 in, $10 out · Fast")
    assert "…" not in screen.partition("╭─ Model")[2].partition("enter select")[0].replace("starting …", "")
    terminal.types("claude-sonnet-4-5")
    terminal.shows("Not set up", "use claude-sonnet-5-5")


def test_the_list_of_threads_has_whole_ids(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, "One."))
    terminal.types("a long message about a great many things, which is longer than the list is wide, by far")
    terminal.presses("Enter")
    terminal.shows("One.")
    thread = next((terminal.workspace / ".harness" / "threads").iterdir()).name.partition(".")[0]
    terminal.presses("C-t")
    terminal.shows("╭─ Threads", thread)


@pytest.mark.parametrize("keys", [["C-x", "C-e"], ["/editor"]])
def test_a_message_is_written_in_the_user_s_own_editor(terminal: Terminal, keys: list[str]) -> None:
    editor = terminal.workspace.parent / "my editor"
    editor.write_text('#!/bin/sh\necho "two" >> "$1"\n')
    editor.chmod(0o755)
    ready(terminal, "--model", script(terminal, "One."), EDITOR=shlex.quote(str(editor)))
    if keys == ["C-x", "C-e"]:
        terminal.types("one")
        terminal.presses("C-j")
        terminal.presses(*keys)
        terminal.shows("│ one", "│ two")
    else:
        terminal.types(keys[0])
        terminal.presses("Enter")
        terminal.shows("│ two")
    assert terminal.flags().startswith("1 ")
    terminal.presses("Enter")
    terminal.shows("One.")
