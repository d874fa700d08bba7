"""Real processes on one directory, which share threads without `--attach`: a server, stdio servers, `hames run`."""

import json
import os
import random
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from websockets.asyncio.client import connect

from hames.app import open_engine
from hames.client.appserver.client import AppServerClient
from hames.client.appserver.events import ApprovalAsked, ApprovalSettled, TurnCompleted
from hames.client.appserver.link import AppServerError, Events
from hames.config.load import load
from hames.domain.commands import ReadThread
from hames.domain.events import TurnEnded
from hames.domain.ids import ThreadId
from hames.domain.state import Change
from server_support import SyncFollower, serve_process
from support import check_continuous

T = TypeVar("T")
HAMES = [sys.executable, "-c", "import sys; from hames.cli.main import main; sys.exit(main())"]


def environment(directory: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "HAMES_STATE": str(directory / "state"),
        "HAMES_CONFIG": str(directory / "none"),
    }


class StdioServer:
    """A process that speaks bootstrap, as an editor would start it."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._stdin = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._last = 0
        self._kept: list[Any] = []

    async def ask(self, method: str, **params: Any) -> Any:
        self._last += 1
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        await self._stdin.send(json.dumps(message).encode() + b"\n")
        answer = await self._receive(lambda one: one.get("id") == self._last and "method" not in one)
        return answer.get("result", answer.get("error"))

    async def hear(self, method: str) -> Any:
        return (await self._receive(lambda one: one.get("method") == method))["params"]

    async def _receive(self, wanted: Any) -> Any:
        with anyio.fail_after(60):
            for one in self._kept:
                if wanted(one):
                    self._kept.remove(one)
                    return one
            while True:
                message = json.loads(await self._lines.receive_until(b"\n", 64 << 20))
                if wanted(message):
                    return message
                self._kept.append(message)


@asynccontextmanager
async def stdio_server(directory: Path) -> AsyncGenerator[StdioServer]:
    model = f"scripted/{directory / 'script.json'}"
    command = [*HAMES, "harness", "--cwd", str(directory / "work"), "--model", model]
    async with await anyio.open_process(command, env=environment(directory), stderr=None) as process:
        try:
            server = StdioServer(process)
            await server.ask("initialize")
            yield server
        finally:
            if process.returncode is None:
                process.kill()


def app_server(directory: Path) -> AbstractAsyncContextManager[AppServerClient]:
    """An app server with a client, as the terminal starts it."""
    model = f"scripted/{directory / 'script.json'}"
    command = [*HAMES, "app-server", "--cwd", str(directory / "work"), "--model", model]
    return AppServerClient.spawn(command, env=environment(directory))


@asynccontextmanager
async def page(url: str, thread_id: str) -> AsyncGenerator[SyncFollower]:
    """The page of the server, showing a thread."""
    address = url.replace("http", "ws", 1).rstrip("/")
    async with connect(f"{address}/ws?thread={thread_id}", max_size=None, compression=None, proxy=None) as socket:
        yield SyncFollower(socket)


async def event(heard: Events, kind: type[T]) -> T:
    with anyio.fail_after(60):
        async for one in heard:
            if isinstance(one, kind):
                return one
    raise AssertionError(f"no {kind.__name__} came")


def said(state: Any) -> str:
    return json.dumps(state["messages"])


async def test_a_thread_of_an_editor_is_driven_from_a_terminal_and_a_server_and_outlives_the_editor(
    tmp_path: Path,
) -> None:
    asks = [{"say": "May I?"}, {"call": "shell", "with": {"command": "rm -rf /nothing/there"}}]
    script = {
        "conversations": [
            {"when": "clean up", "replies": [asks, "Done."]},
            {"when": "tell me", "replies": [[{"say": "A long story", "pieces": 3}, {"hang": True}]]},
            {"when": "and then", "replies": ["After all."]},
        ]
    }
    prompt = [{"type": "text", "text": "clean up"}]
    async with AsyncExitStack() as stack:
        _, url = await stack.enter_async_context(serve_process(tmp_path, script))
        editor = await stack.enter_async_context(stdio_server(tmp_path))
        terminal = await stack.enter_async_context(app_server(tmp_path))
        web = await stack.enter_async_context(httpx2.AsyncClient(base_url=url, timeout=60))
        thread_id = (await editor.ask("thread.create"))["thread"]["threadId"]
        shown = await stack.enter_async_context(page(url, thread_id))
        await terminal.resume_thread(thread_id)
        heard = terminal.events(thread_id)

        await editor.ask("turn.start", threadId=thread_id, input=prompt)
        state = await shown.until(lambda state: bool(state["approvals"]))
        await event(heard, ApprovalAsked)
        (row,) = (await web.get("/threads")).json()["threads"]
        assert row["status"] == "approval"
        answer = await web.post(f"/approvals/{state['approvals'][0]['id']}", json={"decision": "reject"})
        assert answer.status_code == 200
        await event(heard, ApprovalSettled)
        late = await editor.ask("approval.respond", requestId=state["approvals"][0]["id"], decision="once")
        assert late["code"] == -32004
        assert (await event(heard, TurnCompleted)).turn.status == "completed"

        begun = await terminal.start_turn(thread_id, "tell me")
        await shown.until(lambda state: "A long story" in said(state))
        editor.process.kill()
        with suppress(AppServerError):  # where the turn does not go on by itself, there is none to interrupt
            await terminal.interrupt_turn(thread_id, begun.id)
        state = await shown.until(lambda state: state["status"] not in ("running", "thinking"))
        assert "A long story" in said(state)
        ended = await event(heard, TurnCompleted)
        assert ended.turn.status == "interrupted"

        await terminal.start_turn(thread_id, "and then")
        await shown.until(lambda state: "After all." in said(state))
        assert (await event(heard, TurnCompleted)).turn.status == "completed"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))])
async def test_nothing_that_was_seen_elsewhere_is_lost_when_the_process_is_killed(tmp_path: Path, seed: int) -> None:
    """Killed at any moment of a turn: this process goes on from the very character it has heard."""
    script = [
        [
            {"think": "What is here?", "pace_ms": 2},
            {"say": "A first look at all of it, in some detail.", "pace_ms": 2},
            {"call": "read", "with": {"path": "none.txt"}},
        ],
        [{"say": "And the end of it, which takes its time to come.", "pace_ms": 2}],
    ]
    dice = random.Random(seed)
    (tmp_path / "work").mkdir()
    (tmp_path / "script.json").write_text(json.dumps(script))
    options = load(
        {"cwd": str(tmp_path / "work"), "model": f"scripted/{tmp_path / 'script.json'}"}, environment(tmp_path)
    )
    async with open_engine(options) as here, stdio_server(tmp_path) as editor:
        thread_id = ThreadId((await editor.ask("thread.create"))["thread"]["threadId"])
        watcher = await here.watch(thread_id)
        snapshot, heard, wanted = watcher.state, list[Change](), dice.randrange(2, 45)
        await editor.ask("turn.start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        with anyio.fail_after(60):
            while len(heard) < wanted and not (heard and isinstance(heard[-1].record.event, TurnEnded)):
                heard += await watcher.next()
            editor.process.kill()
            while not isinstance(heard[-1].record.event, TurnEnded):
                heard += await watcher.next()
        check_continuous(snapshot, heard)
        state = await here.execute(ReadThread(thread_id=thread_id))
        while heard[-1].after.seq < state.seq:  # type: ignore[union-attr] - a state
            heard += await watcher.next()
        assert heard[-1].after == await here.execute(ReadThread(thread_id=thread_id))
