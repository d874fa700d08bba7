"""A real server on a real port, and clients that speak to it the way strangers would."""

import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
from anyio.lowlevel import checkpoint
from websockets.asyncio.client import ClientConnection, connect

from hames.core.engine import Engine
from hames.domain.json import Json
from hames.protocols.acp.session import AcpSession
from hames.protocols.bootstrap.session import BootstrapSession
from hames.protocols.flint.session import FlintSession
from hames.protocols.mcp.session import McpServerSession
from hames.protocols.session import Session
from hames.server.app import Extras, Server, serving
from hames.server.listener import Address
from sync_apply import applied


class HandClock:
    """Short pauses pass by themselves, long ones when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._moved = anyio.Event()

    def now_ms(self) -> int:
        return 1_700_000_000_000 + round(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        if seconds < 1:
            await anyio.sleep(seconds)
            return
        until = self.now + seconds
        while self.now < until:
            await self._moved.wait()

    async def advance(self, seconds: int) -> None:
        """Second by second, so that nobody sleeps through it."""
        for _ in range(seconds):
            self.now += 1
            self._moved.set()
            self._moved = anyio.Event()
            for _ in range(10):
                await checkpoint()


def sessions(engine: Engine) -> dict[str, Callable[[], Session]]:
    return {
        "acp": lambda: AcpSession(engine.models, engine.rules.defaults),
        "bootstrap": BootstrapSession,
        "flint": lambda: FlintSession(engine.models, engine.rules.defaults),
        "mcp": lambda: McpServerSession(engine.rules.defaults),
    }


@asynccontextmanager
async def running(
    engine: Engine, directory: Path, *, token: str | None = None, address: Address | None = None, **extras: Any
) -> AsyncGenerator[Server]:
    """The engine's server on a free port. `directory` is its data directory."""
    directory.mkdir(mode=0o700, exist_ok=True)
    given = Extras(
        data_dir=directory, uploads_dir=directory / "uploads", version="0.0.test", sessions=sessions(engine), **extras
    )
    async with serving(engine, address or Address(port=0), given, token=token) as server:
        yield server


@asynccontextmanager
async def http(server: Server, **headers: str) -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, trust_env=False) as client:
        yield client


def port_of(server: Server) -> int:
    return int(server.url.rpartition(":")[2])


@asynccontextmanager
async def serve_process(directory: Path, script: Json, *flags: str) -> AsyncGenerator[tuple[anyio.abc.Process, str]]:
    """`hames serve` as people start it, on a scripted model and in `directory / "work"`; and its address."""
    (directory / "work").mkdir(exist_ok=True)
    path = directory / "script.json"
    path.write_bytes(msgspec.json.encode(script))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "HAMES_STATE": str(directory / "state"),
        "HAMES_CONFIG": str(directory / "none"),
    }
    command = [sys.executable, "-c", "import sys; from hames.cli.main import main; sys.exit(main())", "serve"]
    command += ["--port", "0", "--cwd", str(directory / "work"), "--model", f"scripted/{path}", *flags]
    async with await anyio.open_process(command, env=environment, stderr=None) as process:
        assert process.stdout is not None
        said = b""
        with anyio.fail_after(60):
            while b"Ctrl+C" not in said:
                said += await process.stdout.receive()
        try:
            yield process, said.split()[3].decode()
        finally:
            if process.returncode is None:
                process.kill()


class SyncFollower:
    """A client that knows only the specification: it applies what it is told."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.state: Json = None
        self.heard: list[Json] = []
        self.errors: list[Json] = []

    async def hear(self) -> Json:
        with anyio.fail_after(60):
            message = msgspec.json.decode(await self.socket.recv())
        self.heard.append(message)
        match message["type"]:
            case "state":
                self.state = message["state"]
            case "delta":
                self.state = applied(self.state, message["operations"])
            case "error":
                self.errors.append(message)
        return message

    async def until(self, wanted: Callable[[Json], bool]) -> Json:
        """The state once it is as wanted."""
        while self.state is None or not wanted(self.state):
            await self.hear()
        return self.state

    async def send(self, *commands: Json) -> None:
        await self.socket.send(msgspec.json.encode({"type": "commands", "commands": list(commands)}).decode())


@asynccontextmanager
async def following(server: Server, thread: str = "", **options: Any) -> AsyncGenerator[SyncFollower]:
    url = server.url.replace("http", "ws", 1) + "/ws" + (f"?thread={thread}" if thread else "")
    options = {"max_size": None, "compression": None, "proxy": None, **options}
    async with connect(url, **options) as socket_:
        yield SyncFollower(socket_)


class EventReader:
    """An event stream read as the HTML standard says."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.last_id = ""
        self.comments: list[str] = []
        self.events: list[Json] = []
        self._lines = response.aiter_lines()
        self._data: list[str] = []

    async def next(self) -> Json:
        """The next event."""
        while True:
            before = len(self.events)
            await self.line()
            if len(self.events) > before:
                return self.events[-1]

    async def line(self) -> str:
        with anyio.fail_after(60):
            line = await anext(self._lines)
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if self._data:
                self.events.append(msgspec.json.decode("\n".join(self._data)))
            self._data = []
        elif not field:
            self.comments.append(value)
        elif field == "data":
            self._data.append(value)
        elif field == "id":
            self.last_id = value
        return line

    async def until(self, kind: str, **members: Json) -> Json:
        while True:
            event = await self.next()
            if event["type"] == kind and all(event.get(name) == value for name, value in members.items()):
                return event


@asynccontextmanager
async def events(client: httpx2.AsyncClient, path: str = "/events", **headers: str) -> AsyncGenerator[EventReader]:
    timeout = httpx2.Timeout(5, read=None)
    async with client.stream("GET", path, headers=headers, timeout=timeout) as response:
        assert response.status_code == 200, await response.aread()
        reader = EventReader(response)
        while not reader.last_id:  # the stream is open, and says where it stands
            await reader.line()
        yield reader


async def raw(server: Server, *chunks: bytes, wait: float = 5.0) -> bytes:
    """What a plain TCP client gets back, until the server closes the connection or the time is over."""
    received = b""
    async with await anyio.connect_tcp("127.0.0.1", port_of(server)) as stream:
        for chunk in chunks:
            try:
                await stream.send(chunk)
            except (anyio.BrokenResourceError, OSError):
                break
        with anyio.move_on_after(wait):
            try:
                async for data in stream:
                    received += data
            except (anyio.BrokenResourceError, OSError):
                pass
    return received


async def closes(stream: anyio.abc.SocketStream) -> bool:
    """Whether the other side ends the connection within five seconds."""
    with anyio.move_on_after(5):
        try:
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, OSError):
            return True
    return False


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
