"""Toad, a terminal program for agents of ACP, drives `hames acp` in a real terminal, as a person has it."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from acp_table import note_acp
from client_support import HAMES, MODEL, place

sys.path.append(str(Path(__file__).parents[1] / "e2e"))
from tmux_terminal import Terminal

from conftest import HOME, install_once, newest_python, run_command

FOLDER = HOME / "toad"
TOAD = "batrachian-toad==0.6.20"
pytestmark = pytest.mark.needs("tmux")


@pytest.fixture(scope="session")
def toad() -> str:
    """Made for Python 3.14; on 3.13 it runs with what `on_python_313.py` adds."""
    python = str(FOLDER / "bin" / "python")

    def install() -> None:
        run_command(newest_python(3, 13), "-m", "venv", "--clear", str(FOLDER))
        run_command(python, "-m", "pip", "install", "-q", "--no-compile", "--ignore-requires-python", TOAD)
        found = subprocess.run(
            [python, "-c", "import sys, sysconfig; print(sys.version_info >= (3, 14), sysconfig.get_path('purelib'))"],
            check=True, capture_output=True, text=True,
        ).stdout.split()  # fmt: skip
        if found[0] == "False":
            shutil.copy(Path(__file__).with_name("on_python_313.py"), Path(found[1]) / "sitecustomize.py")

    install_once("toad", (TOAD,), install)
    return str(FOLDER / "bin" / "toad")


async def test_toad(toad: str, tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        terminal = Terminal(tmp_path)
        terminal.workspace = here.workspace
        terminal.environment |= here.environment
        agent = shlex.join([HAMES, "acp", "--cwd", str(here.workspace), "--model", MODEL])
        command = shlex.join([toad, "acp", "--title", "Hames", "--project-dir", str(here.workspace), agent])
        works: dict[str, bool] = {}

        def ask(prompt: str) -> None:
            terminal.shows("How can I help", "Ask for risky actions")  # the second is our mode, so the session is there
            terminal.types(prompt)
            terminal.shows(f"❯ {prompt}")
            terminal.presses("Enter")

        def answer(question: str, key: str) -> str:
            screen = terminal.shows(question, "a Allow", "r Reject")
            terminal.types(key)
            return screen

        def drive() -> None:
            terminal.tmux("new-session", "-d", "-x", "140", "-y", "60", "-c", str(here.workspace), f"{command}; cat")
            ask("Greet me")
            screen = terminal.shows("Hello from Hames.")
            works["text"] = True
            works["thoughts"] = "A greeting is in order." in screen
            ask("Make a file")
            answer("touch made-by-agent", "a")
            terminal.shows("The file is there.")
            works["command"] = here.has("made-by-agent")
            ask("Ask and be declined")
            answer("touch declined", "r")
            terminal.shows("It was declined.")
            ask("Ask and be approved")
            answer("touch approved", "a")
            terminal.shows("It was approved.")
            works["approve, decline"] = here.has("approved") and not here.has("declined")
            ask("Write a note")
            answer("note.txt", "a")
            terminal.shows("The note is written.")
            works["file change"] = here.has("note.txt")
            ask("Plan")
            screen = terminal.shows("That is the plan.")
            works["plan"] = "Begin" in screen and "End" in screen
            ask("Wait")
            answer("sleep 600", "a")
            terminal.shows("sleep 600", without="a Allow")
            terminal.presses("Escape")
            terminal.presses("Escape")
            terminal.shows("Turn cancelled")
            ask("Still there?")
            terminal.shows("Still here.")
            works["cancel"] = True

        try:
            await anyio.to_thread.run_sync(drive)
        finally:
            terminal.close()
        note_acp("Toad, v1, stdio", works, works)
