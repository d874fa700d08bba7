"""A program that speaks JSON lines, one message each way: requests, answers, notifications, questions.

Whoever runs a turn reads `messages`; requests of ours are answered in between. Closing ends the program.
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


class Program:
    def __init__(self, process: Process, name: str, errors: IO[bytes]) -> None:
        """`errors` is what it writes to stderr: its last line may say why it ended."""
        self.name = name
        self._errors = errors
        self._process = process
        self._buffer = b""
        self._number = 0
        self._waiting: list[dict[str, Json]] = []

    async def call(self, method: str, params: Json) -> Json:
        """Raises `Refused`, or `ProviderError` when the program is gone. What else arrives meanwhile is kept."""
        self._number += 1
        number = self._number
        await self.send({"id": number, "method": method, "params": params})
        kept: list[dict[str, Json]] = []
        while True:
            message = await self.next()
            if message.get("id") == number and "method" not in message:
                self._waiting = kept + self._waiting
                if "error" in message:
                    raise Refused(str(message["error"].get("message", message["error"])))
                return message.get("result")
            kept.append(message)

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
        """The next message. A line that is none is passed over."""
        if self._waiting:
            return self._waiting.pop(0)
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
) -> AsyncGenerator[Program]:
    """Raises `ProviderError` when it does not start. Its whole process group ends with the turn."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = await anyio.open_process(
                list(command), cwd=cwd, env=environment, stderr=errors, start_new_session=True
            )
        except OSError as failure:
            raise ProviderError(f"cannot start {name} ({command[0]}): {failure.strerror}") from None
        async with _ending(process):
            yield Program(process, name, errors)


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
