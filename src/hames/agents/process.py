"""An agent's program as a child process that speaks JSON-RPC in lines: requests, answers and notifications both ways.

One task reads with `next`. Closing ends the program and everything it started.
"""

import contextlib
import os
import secrets
import signal
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import IO

import anyio
from anyio.abc import Process

from hames.codecs.jsonrpc_peer import METHOD_NOT_FOUND, Caller, JsonRpcReply, Notification, ServerRequest
from hames.codecs.lines import LineDecoder, TooLong
from hames.domain.errors import ProviderError
from hames.domain.json import Json
from hames.ports.sandbox import JOB_VARIABLE, ProcessGuard

LINE_BYTES = 64 << 20
CLOSE_SECONDS = 2.0
LAST_WORDS_BYTES = 4096
EXIT_SECONDS = 1.0
SHELL_SIGNALS = 128
"""A shell that started the program says `128 + signal` for one that was killed."""

Message = ServerRequest | Notification


class ProgramRefused(Exception):
    """The program answered a request with an error."""

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class ProgramKilled(ProviderError):
    """The program was ended by a signal: it did not end by itself."""


class PendingReply:
    """The answer to one request, once it is there."""

    def __init__(self) -> None:
        self.reply: JsonRpcReply | None = None
        self.arrived = anyio.Event()

    def result(self) -> Json:
        assert self.reply is not None
        if (error := self.reply.error) is not None:
            more = f": {error.data}" if isinstance(error.data, str) and error.data not in error.message else ""
            raise ProgramRefused(error.message + more, code=error.code)
        return self.reply.result


class AgentProcess:
    def __init__(self, process: Process, name: str, errors: IO[bytes], *, version: bool = False) -> None:
        """`errors` is what it writes to stderr: its last line may say why it ended.

        `version`: every message says `"jsonrpc": "2.0"`.
        """
        self.name = name
        self._errors = errors
        self._process = process
        self._lines = LineDecoder(limit=LINE_BYTES)
        self._caller = Caller(version=version)
        self._unread: deque[Message] = deque()
        self._pending: dict[int, PendingReply] = {}

    async def call(self, method: str, params: Json) -> Json:
        """Raises `ProgramRefused`, or `ProviderError` when the program is gone. What else arrives meanwhile is kept."""
        return await self.wait_reply(await self.begin(method, params))

    async def wait_reply(self, pending: PendingReply) -> Json:
        while pending.reply is None:
            await self._read()
        return pending.result()

    async def call_beside(self, method: str, params: Json) -> Json:
        """Like `call`, while another task reads with `next`."""
        pending = await self.begin(method, params)
        await pending.arrived.wait()
        return pending.result()

    async def await_notification(self, method: str) -> Json:
        """The parameters of the next such notification. It stays there for `next`, like everything before it."""
        while (found := next((one for one in self._unread if one.method == method), None)) is None:
            await self._read()
        return found.params

    async def begin(self, method: str, params: Json) -> PendingReply:
        """Sends a request and does not wait for its answer."""
        number, line = self._caller.request(method, params)
        pending = self._pending[number] = PendingReply()
        await self._send(line)
        return pending

    async def notify(self, method: str, params: Json) -> None:
        await self._send(self._caller.notification(method, params))

    async def answer(self, request_id: str | int, result: Json) -> None:
        await self._send(self._caller.result(request_id, result))

    async def refuse(self, request_id: str | int, why: str, *, code: int = METHOD_NOT_FOUND) -> None:
        await self._send(self._caller.error(request_id, code, why))

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    async def wait_unread(self) -> None:
        """Returns when there is something for `next`."""
        while not self._unread:
            await self._read()

    def forget_unread(self) -> None:
        """Drops what has arrived and nobody has read."""
        self._unread.clear()

    async def next(self) -> Message:
        """The next request or notification of the program's."""
        while not self._unread:
            await self._read()
        return self._unread.popleft()

    async def _read(self) -> None:
        """Takes in what arrives next. A line that is no message is skipped."""
        assert self._process.stdout is not None
        try:
            lines = self._lines.feed(await self._process.stdout.receive(1 << 16))
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise await self._gone() from None
        for line in lines:
            if isinstance(line, TooLong):
                raise ProviderError(f"{self.name} sent a line of more than {LINE_BYTES} bytes")
            message = self._caller.read(line)
            if isinstance(message, JsonRpcReply):
                if (pending := self._pending.pop(message.number, None)) is not None:
                    pending.reply = message
                    pending.arrived.set()
            elif message is not None:
                self._unread.append(message)

    async def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise await self._gone() from None

    async def _gone(self) -> ProviderError:
        with anyio.move_on_after(EXIT_SECONDS):  # its output ends a moment before its exit code is known
            await self._process.wait()
        code = self._process.returncode
        said = self._last_words()
        if code is not None and (code < 0 or code > SHELL_SIGNALS):
            number = -code if code < 0 else code - SHELL_SIGNALS
            return ProgramKilled(
                f"{self.name} was killed by signal {number} in the middle of the turn",
                info="ResponseStreamDisconnected",
            )
        ended = f" with exit code {code}" if code is not None else ""
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
    command: Sequence[str],
    *,
    name: str,
    cwd: str,
    environment: Mapping[str, str],
    guard: ProcessGuard | None = None,
    version: bool = False,
) -> AsyncGenerator[AgentProcess]:
    """Raises `ProviderError` when it does not start. Its whole process group ends with the turn.

    `guard` ends it when we are killed.
    """
    job = f"agent-{secrets.token_hex(8)}"
    with tempfile.TemporaryFile() as errors:
        try:
            process = await anyio.open_process(
                list(command), cwd=cwd, env={**environment, JOB_VARIABLE: job}, stderr=errors, start_new_session=True
            )
        except OSError as failure:
            raise ProviderError(f"cannot start {name} ({command[0]}): {failure.strerror}") from None
        if guard is not None:
            guard.watch(process.pid, job)
        try:
            async with _ending(process):
                yield AgentProcess(process, name, errors, version=version)
        finally:
            if guard is not None:
                guard.forget(job)


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
