"""A bootstrap server as a real process, with a model service on a loopback port."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.server import Answer, ProviderServer

BIN = Path(sys.executable).parent
INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'


def environment(home: Path, url: str = "http://127.0.0.1:9") -> dict[str, str]:
    """Of a user who has nothing but a key for a service of ours."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    own = {"HOME": str(home), "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "test", "NO_PROXY": "127.0.0.1"}
    return {**kept, **own}


def run(directory: Path, command: list[object], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """To its end, in that directory, as a user with that home."""
    told = {"capture_output": True} if "stdout" not in options else {}
    return subprocess.run(
        [str(word) for word in command],
        check=False,
        timeout=30,
        env=environment(directory),
        **{"cwd": directory, **told, **options},
    )


class Server:
    """The client's two ends of a running server."""

    def __init__(self, process: Process, work: Path, model: ProviderServer) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.work = work
        self.model = model
        self.stdin = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._last = 100

    async def send(self, method: str, **params: Any) -> int:
        self._last += 1
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        await self.stdin.send(json.dumps(message).encode() + b"\n")
        return self._last

    async def receive(self) -> Any:
        return json.loads(await self._lines.receive_until(b"\n", 64 << 20))

    async def until(self, **members: Any) -> Any:
        with anyio.fail_after(60):
            while True:
                message = await self.receive()
                if members.items() <= message.items():
                    return message

    async def ask(self, method: str, **params: Any) -> Any:
        return await self.until(id=await self.send(method, **params))

    async def thread(self) -> str:
        return (await self.ask("thread.create"))["result"]["thread"]["threadId"]

    async def prompt(self, thread_id: str, text: str = "go") -> Any:
        return await self.ask("turn.start", threadId=thread_id, input=[{"type": "text", "text": text}])

    async def rest(self) -> list[Any]:
        """Everything until the server is gone."""
        found: list[Any] = []
        with anyio.fail_after(60):
            try:
                while True:
                    found.append(await self.receive())
            except (anyio.EndOfStream, anyio.IncompleteRead):
                return found

    async def close(self) -> int:
        """The client is done; the exit code."""
        await self.stdin.aclose()
        return await self.exit_code()

    async def exit_code(self) -> int:
        with anyio.fail_after(60):
            return await self.process.wait()


@asynccontextmanager
async def server(
    directory: Path, *answers: Answer, flags: tuple[str, ...] = (), then: Answer | None = None
) -> AsyncGenerator[Server]:
    """`directory/work` is the workspace, `directory` the home."""
    work = directory / "work"
    work.mkdir(exist_ok=True)
    command = [str(BIN / "bootstrap"), "harness", *flags]
    async with ProviderServer(ANTHROPIC, *answers, then=then) as model, running(directory, command, model) as started:
        yield started


@asynccontextmanager
async def running(directory: Path, command: list[str], model: ProviderServer) -> AsyncGenerator[Server]:
    process = await anyio.open_process(
        command,
        cwd=directory / "work",
        env=environment(directory, model.url),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(directory / "stderr.txt").open("ab"),
        start_new_session=True,
    )
    try:
        yield Server(process, directory / "work", model)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):  # it is gone already
                os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()
