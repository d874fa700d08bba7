"""An MCP server that is a program: JSON-RPC over its pipes, and how it ended.

The SDK has a transport for this, too. It does not tell the exit code and what the program said on stderr, which is
all that people have to go by when a server does not start.
"""

import os
import secrets
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from hames.domain.display import shortened
from hames.ports.sandbox import JOB_VARIABLE, ProcessGuard
from hames.tools.mcp.transport import MESSAGE_BYTES

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

KEPT_BYTES = 4000
"""Of what it says on stderr."""
SAID_CHARS = 200
EXIT_SECONDS = 3.0
"""How long its exit code may take when it has closed its pipes."""
GRACE_SECONDS = 2.0
"""How long it may take to end by itself, and again to obey SIGTERM."""
POLL_SECONDS = 0.01


class ServerProcess:
    """One run of a program. Its environment is the one given and nothing else."""

    def __init__(
        self, argv: Sequence[str], *, cwd: str, environment: Mapping[str, str], guard: ProcessGuard | None = None
    ) -> None:
        """`guard` ends it when we are killed: it may ignore that its stdin ends."""
        self._argv = argv
        self._cwd = cwd
        self._job = f"mcp-{secrets.token_hex(8)}"
        self._environment = {**environment, JOB_VARIABLE: self._job}
        self._guard = guard
        self._process: Process | None = None
        self._errors = bytearray()
        self._errors_ended = anyio.Event()
        self._noise = ""
        self._stopping = False
        self._answered = False
        """Whether it ever sent a message. One that did not need not be asked politely to end."""
        self.ending = ""
        """How it ended by itself; empty while it runs, and when it was we who ended it."""
        self.ended = anyio.Event()
        """Set when it has ended by itself, or has closed its output."""

    @asynccontextmanager
    async def connect(self) -> "AsyncGenerator[TransportStreams]":
        """Starts the program. Raises `OSError` when it cannot be started. Leaving ends it and all of its group."""
        process = self._process = await anyio.open_process(
            list(self._argv), env=self._environment, cwd=self._cwd, start_new_session=True
        )
        if self._guard is not None:
            self._guard.watch(process.pid, self._job)
        # No await between the start and the task group: a cancellation in between would leave the program running.
        incoming, read = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        write, outgoing = anyio.create_memory_object_stream["SessionMessage"](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, process, incoming)
            tasks.start_soon(self._write, process, outgoing)
            tasks.start_soon(self._listen, process)
            tasks.start_soon(self._watch, process, incoming)
            try:
                yield read, write
            finally:
                self._stopping = True
                with anyio.CancelScope(shield=True):
                    for stream in (read, write, incoming, outgoing):
                        await stream.aclose()
                    await self._stop(process)
                    if self._guard is not None:
                        self._guard.forget(self._job)
                tasks.cancel_scope.cancel()

    def last_words(self) -> str:
        """What it said last on stderr, and what it said on stdout that is no message."""
        lines = [line for line in self._errors.decode(errors="replace").splitlines() if line.strip()]
        said = shortened(lines[-1], SAID_CHARS) if lines else ""
        noise = f"it wrote {self._noise!r} where a JSON-RPC message belongs" if self._noise else ""
        return "; ".join(part for part in (said, noise) if part)

    async def _read(self, process: Process, incoming: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
        assert process.stdout is not None
        try:
            async with incoming:
                await self._read_lines(process.stdout, incoming)
                if self.ending:
                    _signal(process, signal.SIGKILL)
                await self._note_ending(process)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            pass
        finally:
            self.ended.set()

    async def _read_lines(
        self, stdout: ByteReceiveStream, incoming: "MemoryObjectSendStream[SessionMessage | Exception]"
    ) -> None:
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter

        buffer = bytearray()
        async for chunk in stdout:
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                buffer += line
                try:
                    message = jsonrpc_message_adapter.validate_json(bytes(buffer), by_name=False)
                except ValueError:
                    # Many servers greet on stdout. That alone is no reason to give one up.
                    self._noise = self._noise or shortened(
                        buffer[: 2 * SAID_CHARS].decode(errors="replace"), SAID_CHARS
                    )
                else:
                    self._answered = True
                    await incoming.send(SessionMessage(message))
                buffer.clear()
            buffer += rest
            if len(buffer) > MESSAGE_BYTES:
                self.ending = f"sent a message of more than {MESSAGE_BYTES >> 20} MiB and was stopped"
                return

    async def _watch(self, process: Process, incoming: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
        """Notices the end of a program whose pipes another one holds open."""
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            pass  # it has ended already
        except (AttributeError, OSError):  # not on this system: only the pipes tell
            return
        else:
            try:
                await anyio.wait_readable(descriptor)
            finally:
                os.close(descriptor)
        with anyio.move_on_after(EXIT_SECONDS):  # for what it said last
            await self.ended.wait()
        if not self.ended.is_set():
            await self._note_ending(process)
            await incoming.aclose()
            self.ended.set()

    async def _note_ending(self, process: Process) -> None:
        """Its output has ended, and so will it: with which code?"""
        if self._stopping or self.ending:
            return
        if not await _exited(process, EXIT_SECONDS):
            self.ending = "closed its output"
            return
        with anyio.move_on_after(EXIT_SECONDS):
            await self._errors_ended.wait()
        self.ending = _described(process.returncode or 0)

    async def _write(self, process: Process, outgoing: "MemoryObjectReceiveStream[SessionMessage]") -> None:
        assert process.stdin is not None
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            async with outgoing:
                async for sent in outgoing:
                    text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.stdin.send(text.encode() + b"\n")

    async def _listen(self, process: Process) -> None:
        assert process.stderr is not None
        try:
            async for chunk in process.stderr:
                self._errors += chunk
                del self._errors[:-KEPT_BYTES]
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            pass
        finally:
            self._errors_ended.set()

    async def _stop(self, process: Process) -> None:
        """As the MCP specification has it: close stdin, wait, SIGTERM, wait, SIGKILL."""
        assert process.stdin is not None
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
        grace = GRACE_SECONDS if self._answered else 0.0
        if not await _exited(process, grace):
            _signal(process, signal.SIGTERM)
            await _exited(process, grace)
        _signal(process, signal.SIGKILL)  # and whatever it started and left behind
        await _exited(process, GRACE_SECONDS)
        # `process.aclose()` would wait for pipes that a program of another group may hold open for ever.
        transport = getattr(getattr(process, "_process", None), "_transport", None)
        if transport is not None:
            transport.close()


async def _exited(process: Process, seconds: float) -> bool:
    """Whether it has ended within that time.

    Not `process.wait()`: that also waits for the pipes, which a child of the program may hold open.
    """
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(POLL_SECONDS)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    """To everything in the group that the program leads."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _described(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
