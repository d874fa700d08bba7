"""Leaving, suspending and killing `hames` in a real terminal."""

import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest
from tmux_terminal import READY, SECONDS, Terminal, connected, ready, script

from hames.providers.anthropic.models import claude
from model_server import model_server

pytestmark = pytest.mark.needs("tmux")


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
