"""A program that speaks JSON lines, one message each way: requests, answers, notifications, questions.

Whoever runs a turn calls `next`; requests of ours are answered in between. Closing ends the program.
"""

import contextlib
import os
import signal
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import IO

import anyio
from anyio.abc import Process

from hames.codecs.jsonrpc import METHOD_NOT_FOUND, Caller, Notification, Reply, ServerRequest
from hames.codecs.lines import LineDecoder, TooLong
from hames.domain.errors import ProviderError
from hames.domain.json import Json

LINE_BYTES = 64 << 20
CLOSE_SECONDS = 2.0
LAST_WORDS_BYTES = 4096

Message = ServerRequest | Notification | Reply


class Refused(Exception):
    """The program answered a request with an error."""


class Program:
    def __init__(self, process: Process, name: str, errors: IO[bytes]) -> None:
        """`errors` is what it writes to stderr: its last line may say why it ended."""
        self.name = name
        self._errors = errors
        self._process = process
        self._lines = LineDecoder(limit=LINE_BYTES)
        self._caller = Caller(version=False)
        self._waiting: deque[Message] = deque()

    async def call(self, method: str, params: Json) -> Json:
        """Raises `Refused`, or `ProviderError` when the program is gone. What else arrives meanwhile is kept."""
        number, line = self._caller.request(method, params)
        await self._send(line)
        kept: list[Message] = []
        while True:
            message = await self._next()
            if isinstance(message, Reply) and message.number == number:
                self._waiting.extendleft(reversed(kept))
                if message.error is not None:
                    raise Refused(message.error.message)
                return message.result
            kept.append(message)

    async def notify(self, method: str, params: Json) -> None:
        await self._send(self._caller.notification(method, params))

    async def answer(self, request_id: str | int, result: Json) -> None:
        await self._send(self._caller.result(request_id, result))

    async def refuse(self, request_id: str | int, why: str) -> None:
        await self._send(self._caller.error(request_id, METHOD_NOT_FOUND, why))

    async def next(self) -> ServerRequest | Notification:
        """The next thing the program asks or tells. A late answer is skipped."""
        while isinstance(message := await self._next(), Reply):
            pass
        return message

    async def _next(self) -> Message:
        """A line that is no message is skipped."""
        assert self._process.stdout is not None
        while not self._waiting:
            try:
                lines = self._lines.feed(await self._process.stdout.receive(1 << 16))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise self._gone() from None
            if any(isinstance(line, TooLong) for line in lines):
                raise ProviderError(f"{self.name} sent a line of more than {LINE_BYTES} bytes")
            self._waiting += [message for line in lines if (message := self._caller.read(line)) is not None]
        return self._waiting.popleft()

    async def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
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
