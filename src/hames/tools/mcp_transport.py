"""How bytes travel to and from an MCP server, with a bound on what one message may hold.

The SDK's own pipes keep a line for as long as it grows, and copy all of it with every chunk: an answer of 100 MiB
takes minutes and as much memory. A server that sends a longer message than is allowed here is ended.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteReceiveStream, Process

from hames.executables import absolute_path, find_program, with_interpreter
from hames.ports import ToolFailed

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

MESSAGE_BYTES = 20 << 20
"""More than the pictures that an answer may have."""
EXIT_SECONDS = 2.0
TERMINATE_SECONDS = 2.0
POLL_SECONDS = 0.01
INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


def too_long(name: str) -> str:
    return f"{name} sent a message of more than {MESSAGE_BYTES >> 20} MiB and was stopped"


def server_environment(own: Mapping[str, str]) -> dict[str, str]:
    """A few names of ours, and what the user configured for this server."""
    inherited = {name: value for name in INHERITED if (value := os.environ.get(name)) is not None}
    environment = {**inherited, **own}
    return {**environment, "PATH": absolute_path(environment.get("PATH", os.defpath))}


def server_command(command: str, args: tuple[str, ...], *, environment: Mapping[str, str], workspace: str) -> list[str]:
    """The words to start, or none where there is no such program.

    One outside the workspace comes first: an agent can write what lies inside, and this runs outside the sandbox.
    """
    if "/" in command:
        return [command, *args]
    path = environment.get("PATH")
    program = find_program(command, path=path, workspace=workspace) or find_program(command, path=path)
    return [*with_interpreter(program, path=path, workspace=workspace), *args] if program else []


class Pipes:
    """A server that is a program of this machine. `problem` says why the connection ended, if it is known."""

    def __init__(self, name: str, command: list[str], *, environment: Mapping[str, str], cwd: str) -> None:
        self.problem = ""
        self._name = name
        self._command = command
        self._environment = dict(environment)
        self._cwd = cwd

    @asynccontextmanager
    async def transport(self) -> "AsyncGenerator[TransportStreams]":
        """What the SDK calls a transport. Raises `ToolFailed` when the program cannot be started."""
        from mcp.shared.message import SessionMessage

        try:
            process = await anyio.open_process(
                self._command,
                env=self._environment,
                cwd=self._cwd,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or str(problem)
            raise ToolFailed(f"{self._command[0]!r} cannot be started: {reason}") from None
        # No await until the task group is entered: whoever is cancelled in between would leave the process behind.
        heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            try:
                tasks.start_soon(self._read, process, heard)
                tasks.start_soon(_write, process, to_send, heard)
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    incoming.close()
                    outgoing.close()
                    await _stop(process)
                tasks.cancel_scope.cancel()

    async def _read(self, process: Process, heard: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter

        assert process.stdout is not None
        with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            async with heard:
                try:
                    async for line in _lines(process.stdout):
                        try:
                            message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                        except ValueError as problem:
                            await heard.send(problem)
                        else:
                            await heard.send(message)
                except _TooLong:
                    self.problem = too_long(self._name)
                    _signal(process, signal.SIGKILL)
        with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            while True:  # a server that is stuck writing would not see that its input has ended
                await process.stdout.receive()


class _TooLong(Exception):
    pass


async def _lines(stream: ByteReceiveStream) -> AsyncIterator[bytes]:
    """Whole lines. Raises `_TooLong`."""
    parts: list[bytes] = []
    size = 0
    async for chunk in stream:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join([*parts, end])
            parts, size = [], 0
            if line.strip():
                yield line
        parts.append(rest)
        size += len(rest)
        if size > MESSAGE_BYTES:
            raise _TooLong


async def _write(
    process: Process,
    to_send: "MemoryObjectReceiveStream[SessionMessage]",
    heard: "MemoryObjectSendStream[SessionMessage | Exception]",
) -> None:
    assert process.stdin is not None
    async with to_send:
        try:
            async for message in to_send:
                data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(data.encode() + b"\n")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            await heard.aclose()  # nobody reads there: a request must not wait for ever


async def _stop(process: Process) -> None:
    """Its input ends, and if it does not end by itself within a while, it is ended with all it has started."""
    assert process.stdin is not None
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await process.stdin.aclose()
    if not await _exited(process, EXIT_SECONDS):
        _signal(process, signal.SIGTERM)
        await _exited(process, TERMINATE_SECONDS)
    _signal(process, signal.SIGKILL)  # also what it has left behind
    await process.aclose()


async def _exited(process: Process, seconds: float) -> bool:
    """By polling: `wait` also waits for whoever has inherited the pipes."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(POLL_SECONDS)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def bound_response(response: "httpx2.Response") -> None:
    """A hook for an HTTP client: reading a body that is too long fails. Streams of events have a bound of their own."""
    import httpx2

    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.ReadError("the answer is compressed, which was not asked for")
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _bounded_stream(response.stream)


def _bounded_stream(stream: "httpx2.AsyncByteStream") -> "httpx2.AsyncByteStream":
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > MESSAGE_BYTES:
                    raise httpx2.ReadError(f"the answer has more than {MESSAGE_BYTES >> 20} MiB")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
