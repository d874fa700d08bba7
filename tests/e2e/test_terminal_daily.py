"""A day with `hames` in a real terminal: clicks, sizes, signals, pasted text, commands of one's own."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tmux_terminal import SECONDS, Terminal, script

from hames.providers.anthropic.models import claude
from model_server import model_server

pytestmark = pytest.mark.needs("tmux")

READY = "Say what you want done."
TOUCH = {"call": "shell", "with": {"command": "touch made"}}


def ready(terminal: Terminal, *words: str, columns: int = 80, rows: int = 24, **environment: str) -> None:
    """Started, with an agent behind it."""
    terminal.start(*words, columns=columns, rows=rows, **environment)
    connected(terminal)


def connected(terminal: Terminal) -> None:
    terminal.shows(READY, "F1 keys", "ask for risky actions")
    terminal.hides("starting …")


def armed(terminal: Terminal) -> None:
    """Keys answer a question only after it has been on the screen for a moment."""
    terminal.shows("y allow once")
    time.sleep(0.6)


# -- the keyboard


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("words", ["yes, and then some", "also look at it", "no way"])
def test_words_typed_at_once_answer_no_question_and_one_letter_does(terminal: Terminal, words: str) -> None:
    ready(terminal, "--model", script(terminal, [TOUCH], "It is made."))
    terminal.types("make it")
    terminal.presses("Enter")
    armed(terminal)
    terminal.types(words)  # one write, as from somebody who types fast or a terminal without paste brackets
    terminal.shows(f"│ {words} ", "Allow this command?")
    assert not (terminal.workspace / "made").exists()
    terminal.hides(f"│ {words} ")  # the question has the keys again
    armed(terminal)
    terminal.types("y")
    terminal.shows("It is made.", f"│ {words} ")
    assert (terminal.workspace / "made").exists()


@pytest.mark.parametrize("where", ["transcript", "header", "status line", "scroll bar", "drag", "tab", "shift"])
def test_letters_paste_and_enter_reach_the_message_box_whatever_was_clicked(terminal: Terminal, where: str) -> None:
    ready(terminal, "--model", script(terminal, "One.", "Two."))
    terminal.types("first")
    terminal.presses("Enter")
    terminal.shows("One.")
    match where:
        case "transcript":
            terminal.click(*terminal.place("One."))
        case "header":
            terminal.click(3, 0)
        case "status line":
            terminal.click(10, 23)
        case "scroll bar":
            terminal.click(79, 3)
        case "drag":
            column, row = terminal.place("One.")
            terminal.drag(column, row, column + 3, row)
        case "tab":
            terminal.presses("Tab")
        case _:
            terminal.presses("BTab", "BTab", "BTab")
    terminal.types("typed ")
    terminal.pastes("pasted")
    terminal.shows("│ typed pasted")
    terminal.presses("Enter")
    terminal.shows("› typed pasted", "Two.")


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("where", ["transcript", "panel", "tab", "header"])
def test_an_approval_is_answered_with_its_keys_wherever_somebody_clicked(terminal: Terminal, where: str) -> None:
    ready(terminal, "--model", script(terminal, [{"say": "I make it."}, TOUCH], "It is made."))
    terminal.types("make it")
    terminal.presses("Enter")
    terminal.shows("Allow this command?", "$ touch made", "waiting for approval", "Always allow covers")
    assert "running" not in terminal.screen()
    armed(terminal)
    match where:
        case "transcript":
            terminal.click(*terminal.place("I make it."))
        case "panel":
            terminal.click(*terminal.place("$ touch made"))
        case "tab":
            terminal.presses("Tab", "Tab")
        case _:
            terminal.click(2, 0)
    terminal.types("y")
    terminal.shows("It is made.")
    assert (terminal.workspace / "made").exists()
    terminal.types("and so on")
    terminal.shows("│ and so on")


@pytest.mark.needs("bwrap")
def test_a_reason_that_is_being_typed_is_never_taken_for_an_answer(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, [TOUCH], "Understood."))
    terminal.types("make it")
    terminal.presses("Enter")
    armed(terminal)
    terminal.types("r")
    terminal.shows("why not, or what to do instead")
    terminal.types("no, ")
    terminal.presses("Tab")
    terminal.click(*terminal.place("$ touch made"))
    terminal.types("say y")
    terminal.shows("no, say y")
    terminal.presses("Enter")
    terminal.shows("Understood.", "› no, say y")
    assert not (terminal.workspace / "made").exists()


@pytest.mark.needs("bwrap")
def test_a_question_that_came_behind_a_list_has_the_keys_when_the_list_is_closed(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, [{"wait_ms": 1500}, TOUCH], "It is made."), columns=200)
    terminal.types("make it")
    terminal.presses("Enter")
    terminal.shows("working")
    terminal.presses("C-l")
    terminal.shows("╭─ Model", "╭─ Allow this command?")
    terminal.presses("Escape")
    terminal.hides("Type a message.")
    armed(terminal)
    terminal.types("y")
    terminal.shows("It is made.")


def test_keys_typed_before_the_screen_is_loaded_are_not_lost(terminal: Terminal) -> None:
    terminal.start("--model", script(terminal, "One."))
    terminal.shows(READY)
    terminal.types("typed early")
    terminal.presses("Enter")
    terminal.shows("› typed early", "One.")


def test_errors_may_go_to_a_file_and_letters_to_a_narrow_encoding(terminal: Terminal) -> None:
    terminal.start_shell()
    terminal.types("PYTHONIOENCODING=latin-1 hames --model scripted/hello 2> errors")
    terminal.presses("Enter")
    terminal.shows(READY, "F1 keys")
    terminal.types("hello")
    terminal.presses("Enter")
    terminal.shows("no network")
    terminal.presses("C-d")
    terminal.shows("To continue: hames")
    assert (terminal.workspace / "errors").read_text() == ""


# -- modes


def test_plan_mode_is_seen_entered_and_left(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, "One."), columns=160)
    terminal.shows("Sandbox: workspace only")
    terminal.types("/plan")
    terminal.presses("Enter")
    terminal.shows("Mode: plan (changes nothing)", "Sandbox: read-only", "Plan mode is on")
    terminal.types("hello")
    terminal.presses("Enter")
    terminal.shows("One.")
    terminal.types("/status")
    terminal.presses("Enter")
    terminal.shows("mode       plan", "sandbox    read-only (plan mode; otherwise workspace only)")
    terminal.presses("C-p")
    terminal.shows("Plan mode is off", "Sandbox: workspace only")
    terminal.hides("Mode: plan (changes nothing)")
    terminal.presses("C-p")
    terminal.shows("Mode: plan (changes nothing)")
    terminal.presses("C-d")
    terminal.shows("ended with 0")
    terminal.close()
    terminal.start("--continue", columns=160)
    terminal.shows("One.", "Mode: plan (changes nothing)", "Sandbox: read-only")


def test_a_mode_chosen_from_the_options_is_seen_as_well(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, "One."), columns=120)
    terminal.presses("C-g")
    terminal.shows("╭─ Options", "Agent")
    terminal.types("Agent")
    terminal.presses("Enter")
    terminal.shows("╭─ Agent", "Review")
    terminal.types("Review")
    terminal.presses("Enter")
    terminal.shows("╭─ Options", without="╭─ Agent")  # it is open again: only now is there something to close
    terminal.presses("Escape")
    terminal.shows("Mode: review (changes nothing)", "Sandbox: read-only")


# -- sizes


def test_after_a_resize_everything_is_laid_out_for_the_new_size(terminal: Terminal) -> None:
    usage = {"usage": {"input_tokens": 60_000, "output_tokens": 500}}
    ready(terminal, "--model", script(terminal, [{"say": "One."}, usage]), columns=120, rows=40)
    terminal.types("hello")
    terminal.presses("Enter")
    terminal.shows("One.", "tokens")
    for columns, rows in ((80, 24), (200, 50), (100, 30)):
        terminal.resize(columns, rows)
        until = time.monotonic() + SECONDS
        while True:
            lines = terminal.screen().split("\n")
            header, status = lines[0], lines[rows - 1]
            if header.rstrip().endswith("~/ws") and len(header.rstrip()) == columns - 1 and "60.5k" in status:
                break
            assert time.monotonic() < until, terminal.screen()
        assert len(status.rstrip()) == columns - 1, status
        assert "hello" in header


def test_an_open_list_and_the_help_follow_a_resize(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello", columns=120, rows=40)
    for key, word in (("F1", "╭─ Help"), ("C-l", "╭─ Model")):
        terminal.resize(120, 40)
        terminal.presses(key)
        terminal.shows(word)
        terminal.resize(70, 30)
        until = time.monotonic() + SECONDS
        while max(len(row.rstrip()) for row in terminal.screen().split("\n")) > 70 or word not in terminal.screen():
            assert time.monotonic() < until, terminal.screen()
        terminal.presses("Escape")
        # A screen that is being drawn anew lacks the word for a moment; once it is closed the box below is whole, too.
        terminal.shows("Type a message.", without=word)


# -- leaving


@pytest.mark.parametrize("keys", [["C-d"], ["C-c", "C-c"], ["/exit"], ["/quit"], ["C-q"]])
def test_leaving_prints_the_thread_what_it_used_and_a_command_that_opens_it_again(
    terminal: Terminal, keys: list[str]
) -> None:
    usage = {"usage": {"input_tokens": 60_000, "output_tokens": 500}}
    model = script(terminal, [{"say": "The first answer."}, usage], "The second.")
    terminal.start_shell(columns=100)
    terminal.types(f"hames --model {shlex.quote(model)}")
    terminal.presses("Enter")
    connected(terminal)
    terminal.types("one")
    terminal.presses("Enter")
    terminal.shows("The first answer.", "60.5k tokens")
    for key in keys:
        if key.startswith("/"):
            terminal.types(key)
            terminal.presses("Enter")
        else:
            terminal.presses(key)
    screen = terminal.shows("60.5k tokens", "To continue: hames --thread ses_")
    assert terminal.flags() == "0 0"
    found = re.search(r"To continue: (hames --thread \S+)", screen)
    assert found
    terminal.types(f"clear; {found[1]}")
    terminal.presses("Enter")
    terminal.shows("› one", "The first answer.")
    terminal.types("two")
    terminal.presses("Enter")
    terminal.shows("The second.")


def test_leaving_says_what_the_thread_cost_in_dollars(terminal: Terminal) -> None:
    """A million tokens into a model whose price is known, on a service of our own."""
    with model_server("claude-sonnet-5-5", tokens=(1_000_000, 7)) as address:
        terminal.environment |= {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "sk-ant-test"}
        terminal.start_shell(columns=100)
        terminal.types("hames --model anthropic/claude-sonnet-5-5")
        terminal.presses("Enter")
        connected(terminal)
        terminal.types("hello")
        terminal.presses("Enter")
        terminal.shows("Hello from here.", "1.0M", "$")
        terminal.presses("C-d")
        screen = terminal.shows("Thread ses_", "To continue: hames")
    price = claude("claude-sonnet-5-5").card.price
    assert price is not None
    (cost,) = re.findall(r"Thread ses_\S+ · 1\.0M tokens · \$([\d.]+)", screen)
    assert float(cost) == pytest.approx(price.input, abs=0.01)


def test_the_command_that_opens_a_thread_again_names_other_places(terminal: Terminal) -> None:
    other, data = terminal.workspace.parent / "other place", terminal.workspace.parent / "data"
    other.mkdir()
    model = script(terminal, "The first answer.")
    terminal.start_shell(columns=400)
    words = ["--cwd", str(other), "--data-dir", str(data), "--model", model]
    terminal.types(f"hames {shlex.join(words)}")
    terminal.presses("Enter")
    connected(terminal)
    terminal.types("one")
    terminal.presses("Enter")
    terminal.shows("The first answer.")
    terminal.presses("C-d")
    found = re.search(r"To continue: (hames .*)", terminal.shows("To continue: hames"))
    assert found
    terminal.types(f"clear; {found[1].rstrip()}")
    terminal.presses("Enter")
    terminal.shows("› one", "The first answer.")


def test_leaving_without_a_thread_prints_nothing(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello")
    terminal.presses("C-d")
    screen = terminal.shows("ended with 0")
    assert "Thread" not in screen


# -- suspending


def test_control_z_suspends_and_fg_brings_everything_back(terminal: Terminal) -> None:
    terminal.start_shell()
    terminal.types(f"hames --model {shlex.quote(script(terminal, 'One.'))}")
    terminal.presses("Enter")
    connected(terminal)
    terminal.types("half a thought")
    terminal.shows("│ half a thought")
    for _ in range(2):
        terminal.presses("C-z")
        terminal.shows("Stopped", "ready$")
        assert terminal.flags() == "0 0"
        terminal.types("echo $((20 + 22))")  # the shell has the keyboard, with echo
        terminal.presses("Enter")
        terminal.shows("42")
        terminal.types("fg")
        terminal.presses("Enter")
        terminal.shows(READY, "│ half a thought")
        assert terminal.flags().startswith("1 ")
        terminal.click(3, 2)
    terminal.types(" and more")
    terminal.shows("│ half a thought and more")  # what arrives at once with an Enter counts as pasted
    terminal.presses("Enter")
    terminal.shows("› half a thought and more", "One.")
    terminal.presses("C-d")
    terminal.shows("ready$", "To continue:")


def test_a_suspended_terminal_that_was_put_into_the_background_waits_for_fg(terminal: Terminal) -> None:
    terminal.start_shell()
    terminal.types("hames --model scripted/hello")
    terminal.presses("Enter")
    connected(terminal)
    terminal.presses("C-z")
    terminal.shows("Stopped")
    terminal.types("clear; bg")
    terminal.presses("Enter")
    until = time.monotonic() + SECONDS
    while "Stopped" not in terminal.screen():
        terminal.types("jobs")
        terminal.presses("Enter")
        assert time.monotonic() < until, terminal.screen()
    terminal.types("fg")
    terminal.presses("Enter")
    terminal.shows(READY)
    terminal.types("still here")
    terminal.shows("│ still here")


def test_a_stop_that_nobody_announced_is_recovered_from(terminal: Terminal) -> None:
    terminal.start_shell()
    terminal.types(f"hames --model {shlex.quote(script(terminal, 'One.'))}")
    terminal.presses("Enter")
    connected(terminal)
    terminal.types("half a thought")
    terminal.shows("│ half a thought")
    program = terminal.program()
    for _ in range(2):
        os.kill(program, signal.SIGSTOP)  # the screen stays as it is, and the shell sets up the keyboard for itself
        terminal.shows("Stopped")
        terminal.types("clear; fg")
        terminal.presses("Enter")
        terminal.shows(READY, "│ half a thought")
        assert terminal.flags().startswith("1 ")
    terminal.types(" and more")
    terminal.presses("Enter")
    terminal.shows("› half a thought and more", "One.")
    terminal.presses("C-d")
    terminal.shows("ready$", "To continue:")
    assert terminal.flags() == "0 0"


def test_a_signal_to_continue_may_come_in_the_middle_of_writing_to_the_terminal(terminal: Terminal) -> None:
    interrupted = terminal.workspace / "interrupted.py"
    interrupted.write_text(
        "import os, pathlib, queue, signal, sys, threading\n"
        "import textual.drivers._writer_thread as writing\n"
        "from hames.cli.main import main\n"
        "class Interrupted(queue.Queue):\n"
        "    def _put(self, item):  # the lock of the queue is held\n"
        "        super()._put(item)\n"
        "        go = pathlib.Path('go')\n"
        "        if threading.current_thread() is threading.main_thread() and go.exists():\n"
        "            go.rename('gone')\n"
        "            os.kill(os.getpid(), signal.SIGCONT)\n"
        "writing.Queue = Interrupted\n"
        "sys.exit(main(['tui', '--model', 'scripted/hello']))\n"
    )
    command = shlex.join([sys.executable, str(interrupted)])
    terminal.tmux("new-session", "-d", "-x", "80", "-y", "24", "-c", str(terminal.workspace), command)
    connected(terminal)
    (terminal.workspace / "go").touch()
    # What is typed while the terminal is taken over again is not lost.
    for letter in "half a thought and more":
        terminal.types(letter)
    terminal.shows("│ half a thought and more")
    assert (terminal.workspace / "gone").exists(), "the signal was sent"
    assert terminal.flags().startswith("1 ")


def test_where_no_shell_waits_control_z_does_not_freeze_the_terminal(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello")
    terminal.presses("C-z")
    terminal.shows("There is no shell to return to")
    terminal.types("still here")
    terminal.shows("│ still here")


def test_undo_is_on_a_key_of_its_own(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello")
    terminal.types("one")
    terminal.pastes(" two")
    terminal.shows("│ one two")
    terminal.presses("C-_")
    terminal.hides("one two")
    terminal.shows("│ one")


# -- ending by force


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(terminal: Terminal, number: signal.Signals) -> None:
    terminal.tmux("new-session", "-d", "-x", "80", "-y", "24", "sh")
    command = shlex.join([sys.executable, "-m", "hames", "--model", "scripted/hello"])
    terminal.types(f"cd {shlex.quote(str(terminal.workspace))}; stty -a > before; {command}; echo ended with $?")
    terminal.presses("Enter")
    connected(terminal)
    os.kill(terminal.program(), number)
    terminal.shows(f"ended with {128 + number}")
    assert terminal.flags() == "0 0"
    terminal.types("stty -a > after; echo do''ne")  # the typed line itself does not hold the word
    terminal.presses("Enter")
    terminal.shows("done")
    assert (terminal.workspace / "after").read_text() == (terminal.workspace / "before").read_text()


def test_a_signal_before_the_screen_is_loaded_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    terminal.start("--model", "scripted/hello")
    terminal.shows(READY)
    os.kill(terminal.program(), signal.SIGTERM)
    terminal.shows("ended with 143")
    assert terminal.flags() == "0 0"


def test_a_window_that_is_closed_leaves_no_process_behind(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello")
    program = terminal.program()
    children = [int(line) for line in Path(f"/proc/{program}/task/{program}/children").read_text().split()]
    assert children, "the server"
    terminal.tmux("kill-session")
    until = time.monotonic() + SECONDS
    while [pid for pid in (program, *children) if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < until, "something is still there"
        time.sleep(0.05)


def test_a_crash_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    crashing = terminal.workspace / "crash.py"
    crashing.write_text(
        "import sys\n"
        "from hames.cli.main import main\n"
        "from hames.tui.app import HamesApp\n"
        "def crash(app): raise RuntimeError('a fault of our own')\n"
        "HamesApp.action_help = crash\n"
        "sys.exit(main(['tui', '--model', 'scripted/hello']))\n"
    )
    command = shlex.join([sys.executable, str(crashing)])
    size = ["-x", "100", "-y", "40"]
    terminal.tmux("new-session", "-d", *size, "-c", str(terminal.workspace), f"{command}; echo ended with $?; cat")
    connected(terminal)
    terminal.presses("F1")
    terminal.shows("a fault of our own", "ended with 1")
    assert terminal.flags() == "0 0"


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


@pytest.mark.needs("bwrap")
def test_what_a_turn_did_to_files_is_undone_redone_and_gone_back_from(terminal: Terminal) -> None:
    made = {"call": "shell", "with": {"command": "touch made; mkdir d; touch d/e"}}
    terminal.start(
        "--model", script(terminal, [made], "It is made."), "--approval-policy", "onRequest", columns=80, rows=24
    )
    terminal.shows(READY, "F1 keys")
    terminal.hides("starting …")
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
