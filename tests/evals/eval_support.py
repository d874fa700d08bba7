"""The tasks of this repository, and the ways into Hames that a solution can be played through."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectSendStream
from msgspec.structs import replace

from hames.app import open_engine
from hames.client.appserver.client import AppServerClient
from hames.client.appserver.events import TurnCompleted
from hames.config.load import Options, load
from hames.evals.solutions import script
from hames.evals.tasks import EvalTask, find_tasks
from hames.evals.workspaces import TrialFiles
from hames.stdio.connection import Connection, read_lines

TESTS = Path(__file__).resolve().parents[1]
TASKS = TESTS.parent / "evals" / "tasks"
SECONDS = 120
for folder in ("protocol", "e2e"):
    sys.path.append(str(TESTS / folder))


def all_tasks() -> list[EvalTask]:
    return find_tasks([TASKS])


def options(folder: Path, environment: dict[str, str] | None = None) -> Options:
    """The defaults, with nothing of the user who runs the tests."""
    home = {"HOME": str(folder), "HAMES_STATE": str(folder / "state"), "HAMES_CONFIG": str(folder / "config.toml")}
    return load({"cwd": str(folder)}, {**home, **(environment or {})})


class Play:
    """A task, prepared; its solution as a model; and the check."""

    def __init__(self, task: EvalTask, folder: Path) -> None:
        self.task = task
        self.folder = folder
        self.options = options(folder)
        self.files = TrialFiles(folder, self.options)
        path = folder / "script.json"
        path.write_bytes(script(task, "oracle"))
        self.model = f"scripted/{path}"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "HAMES_STATE": str(folder / "state"),
            "HAMES_CONFIG": str(folder / "config.toml"),
            "LANG": "C.UTF-8",
        }

    @property
    def flags(self) -> list[str]:
        words = ["--cwd", str(self.files.workspace), "--data-dir", str(self.files.data), "--model", self.model]
        return [*words, "--approval-policy", "never"]


async def through_run(play: Play) -> None:
    command = [sys.executable, "-m", "hames", "run", play.task.prompt, *play.flags]
    done = await anyio.run_process(command, check=False, stderr=subprocess.STDOUT, env=play.environment)
    assert done.returncode == 0, done.stdout.decode()


async def through_flint(play: Play) -> None:
    command = [sys.executable, "-m", "hames", "app-server", *play.flags]
    async with AppServerClient.spawn(command, env=play.environment) as client:
        opened = await client.start_thread(cwd=str(play.files.workspace))
        with client.events(opened.thread.id) as events:
            await client.start_turn(opened.thread.id, play.task.prompt)
            async for event in events:
                if isinstance(event, TurnCompleted):
                    assert event.turn.status == "completed", event
                    return
    raise AssertionError("the server ended before the turn")


async def through_acp(play: Play) -> None:
    from hames.protocols.acp.session import AcpSession

    settings = replace(
        play.options,
        cwd=play.files.workspace,
        data_dir=play.files.data,
        model=play.model,
        approval_policy="never",
    )
    requests, chunks = anyio.create_memory_object_stream[bytes](100)
    outbox = _Outbox()
    async with anyio.create_task_group() as followers, open_engine(settings) as engine, chunks, requests:
        session = AcpSession(engine.models, engine.rules.defaults)
        followers.start_soon(Connection(engine, session, outbox, followers).serve, read_lines(chunks))

        async def call(number: int, method: str, **params: Any) -> Any:
            line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            await requests.send(line.encode() + b"\n")
            return await outbox.answer(number)

        await call(1, "initialize", protocolVersion=1, clientCapabilities={})
        opened = await call(2, "session/new", cwd=str(play.files.workspace), mcpServers=[])
        prompt = [{"type": "text", "text": play.task.prompt}]
        ended = await call(3, "session/prompt", sessionId=opened["sessionId"], prompt=prompt)
        assert ended["stopReason"] == "end_turn"
        followers.cancel_scope.cancel()


class _Outbox:
    """What the server wrote, without end."""

    def __init__(self) -> None:
        self._send: MemoryObjectSendStream[bytes]
        self._send, self._lines = anyio.create_memory_object_stream[bytes](100_000)

    def write(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:
            self._send.send_nowait(line)

    async def room(self) -> None:
        await checkpoint()

    async def answer(self, number: int) -> Any:
        while True:
            message = json.loads(await self._lines.receive())
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message
                return message["result"]


async def through_terminal(play: Play) -> None:
    from tmux_terminal import Terminal

    folder = play.folder / "t"
    folder.mkdir()
    terminal = Terminal(folder)
    terminal.environment |= play.environment

    def use() -> None:
        terminal.start(*play.flags, columns=100, rows=40)
        terminal.shows("Say what you want done.")
        words = play.task.prompt.split()
        terminal.types(" ".join(words))
        terminal.shows(words[-1])
        terminal.presses("Enter")
        terminal.shows(play_ending(play.task))
        terminal.presses("C-d")
        terminal.shows("ended with 0")

    try:
        await anyio.to_thread.run_sync(use)
    finally:
        terminal.close()


def play_ending(task: EvalTask) -> str:
    """The end of the last thing that the oracle says."""
    last = json.loads(script(task, "oracle"))[-1]
    return " ".join(str(last).split()[-2:])


SURFACES: dict[str, Callable[[Play], Any]] = {
    "run": through_run,
    "flint": through_flint,
    "acp": through_acp,
    "terminal": through_terminal,
}


async def play_through(surface: str, task: EvalTask, folder: Path) -> None:
    """Raises `AssertionError` if the solution does not pass."""
    play = Play(task, folder)
    with anyio.fail_after(SECONDS):
        await play.files.prepare(task)
        await SURFACES[surface](play)
        checked = await play.files.check(task)
    assert checked.exit_code == 0, checked.output
