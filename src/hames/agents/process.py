"""An agent's program as a child process that speaks JSON-RPC in lines: requests, answers and notifications both ways.

One task reads with `next`. Closing ends the program and everything it started.
"""

import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import IO

import anyio
import msgspec
from anyio.abc import Process

from hames.domain.errors import ProviderError
from hames.domain.json import Json

LINE_BYTES = 64 << 20
CLOSE_SECONDS = 2.0
LAST_WORDS_BYTES = 4096


class Refused(Exception):
    """The program answered a request with an error."""


class _Reply:
    """The answer to one request, once it is there."""

    def __init__(self) -> None:
        self.message: dict[str, Json] | None = None
        self.arrived = anyio.Event()

    def result(self) -> Json:
        assert self.message is not None
        if (error := self.message.get("error")) is not None:
            raise Refused(str(error.get("message", error) if isinstance(error, dict) else error))
        return self.message.get("result")


class AgentProcess:
    def __init__(self, process: Process, name: str, errors: IO[bytes]) -> None:
        """`errors` is what it writes to stderr: its last line may say why it ended."""
        self.name = name
        self._errors = errors
        self._process = process
        self._buffer = b""
        self._number = 0
        self._unread: list[dict[str, Json]] = []
        self._replies: dict[int, _Reply] = {}

    async def call(self, method: str, params: Json) -> Json:
        """Raises `Refused`, or `ProviderError` when the program is gone. What else arrives meanwhile is kept."""
        reply = await self._request(method, params)
        while reply.message is None:
            message = await self._read()
            if not self._settle(message):
                self._unread.append(message)
        return reply.result()

    async def call_beside(self, method: str, params: Json) -> Json:
        """Like `call`, while another task reads with `next`."""
        reply = await self._request(method, params)
        await reply.arrived.wait()
        return reply.result()

    async def await_notification(self, method: str) -> Json:
        """The parameters of the next such notification. It stays there for `next`, like everything before it."""
        while (found := next((one for one in self._unread if one.get("method") == method), None)) is None:
            message = await self._read()
            if not self._settle(message):
                self._unread.append(message)
        return found.get("params")

    async def _request(self, method: str, params: Json) -> "_Reply":
        self._number += 1
        reply = self._replies[self._number] = _Reply()
        await self.send({"id": self._number, "method": method, "params": params})
        return reply

    def _settle(self, message: dict[str, Json]) -> bool:
        """Whether this is the answer to a request of ours."""
        number = message.get("id")
        if "method" in message or not isinstance(number, int) or number not in self._replies:
            return False
        reply = self._replies.pop(number)
        reply.message = message
        reply.arrived.set()
        return True

    async def notify(self, method: str, params: Json) -> None:
        await self.send({"method": method, "params": params})

    async def answer(self, number: Json, result: Json) -> None:
        await self.send({"id": number, "result": result})

    async def refuse(self, number: Json, why: str) -> None:
        await self.send({"id": number, "error": {"code": -32601, "message": why}})

    async def send(self, message: dict[str, Json]) -> None:
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(msgspec.json.encode(message) + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise self._gone() from None

    async def next(self) -> dict[str, Json]:
        """The next request or notification of the program's."""
        if self._unread:
            return self._unread.pop(0)
        while True:
            message = await self._read()
            if not self._settle(message):
                return message

    async def _read(self) -> dict[str, Json]:
        """The next message. A line that is no JSON object is skipped."""
        assert self._process.stdout is not None
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                with contextlib.suppress(msgspec.DecodeError, RecursionError):
                    message = msgspec.json.decode(line)
                    if isinstance(message, dict):
                        return message
                continue
            if len(self._buffer) > LINE_BYTES:
                raise ProviderError(f"{self.name} sent a line of more than {LINE_BYTES} bytes")
            try:
                self._buffer += await self._process.stdout.receive(1 << 16)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise self._gone() from None

    def _gone(self) -> ProviderError:
        code = self._process.returncode
        ended = f" with exit code {code}" if code is not None else ""
        said = self._last_words()
        return ProviderError(
            f"{self.name} ended{ended} in the middle of the turn{': ' + said if said else ''}",
            info="ResponseStreamDisconnected",
        )

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LAST_WORDS_BYTES))
        lines = [line.strip() for line in self._errors.read().decode(errors="replace").split("\n") if line.strip()]
        named = [line for line in lines if line.lower().startswith("error")]  # what follows may be a backtrace
        return (named or lines or [""])[-1]


@asynccontextmanager
async def running(
    command: Sequence[str], *, name: str, cwd: str, environment: Mapping[str, str]
) -> AsyncGenerator[AgentProcess]:
    """Raises `ProviderError` when it does not start. Its whole process group ends with the turn."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = await anyio.open_process(
                list(command), cwd=cwd, env=environment, stderr=errors, start_new_session=True
            )
        except OSError as failure:
            raise ProviderError(f"cannot start {name} ({command[0]}): {failure.strerror}") from None
        async with _ending(process):
            yield AgentProcess(process, name, errors)


@asynccontextmanager
async def _ending(process: Process) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            assert process.stdin is not None
            with contextlib.suppress(Exception):
                await process.stdin.aclose()
            with anyio.move_on_after(CLOSE_SECONDS):
                await process.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.aclose()
