"""Another process that is connected to us: it asks for things, and its clients carry out tools of our threads."""

import contextlib
import socket
import struct

import anyio
from anyio.abc import SocketAttribute, SocketStream

from hames.domain.ids import ThreadId
from hames.domain.items import ToolResult
from hames.ports import ClientToolCall
from hames.server.peers import wire
from hames.server.peers.received import close_stream

COMMANDS_AT_ONCE = 32
"""From one process: more of them wait."""
SEND_SECONDS = 30.0
RANK_SECONDS = 2.0
"""A process that takes longer to say what its clients can do is passed over: it is stopped, or very busy."""
ALIVE_SECONDS = 15.0
"""While a client carries out a tool, its process is asked so often whether it lives, and has so long to answer."""

_CREDENTIALS = struct.Struct("3i")


class Visitor:
    def __init__(self, stream: SocketStream) -> None:
        self.wants_news = False
        self.commands = anyio.Semaphore(COMMANDS_AT_ONCE)
        self.name = _process_name(stream)
        self._stream = stream
        self._sending = anyio.Lock()
        self._number = 0
        self._waiting: dict[int, _Waiting] = {}
        self._gone = False

    async def send(self, message: "wire.PeerRequest | wire.PeerReply") -> None:
        """One that does not read is disconnected."""
        try:
            with anyio.fail_after(SEND_SECONDS):
                async with self._sending:
                    await self._stream.send(wire.encode_line(message))
        except TimeoutError:
            await self.close()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass

    async def close(self) -> None:
        with contextlib.suppress(OSError):
            await close_stream(self._stream)

    def leave(self) -> None:
        """The connection has ended: nobody answers any more."""
        self._gone = True
        for waiting in self._waiting.values():
            waiting.answered.set()

    # -- tools of its clients

    def take_reply(self, reply: "wire.PeerReply") -> None:
        """The first answer to a question counts."""
        if (waiting := self._waiting.get(reply.id)) is not None and waiting.reply is None:
            waiting.reply = reply
            waiting.answered.set()

    async def tool_rank(self, thread_id: ThreadId) -> int:
        request = wire.PeerRequest(do="tool_rank", id=self._next(), thread_id=thread_id)
        waiting = self._expect(request)
        try:
            with anyio.move_on_after(RANK_SECONDS):
                await self._ask(request, waiting)
        finally:
            del self._waiting[request.id]
        return waiting.reply.tool_rank if waiting.reply is not None else 0

    async def call_tool(self, call: ClientToolCall) -> ToolResult:
        request = wire.call_request(self._next(), call)
        waiting = self._expect(request)
        try:
            await self.send(request)
            while not waiting.answered.is_set() and not self._gone:
                with anyio.move_on_after(ALIVE_SECONDS):
                    await waiting.answered.wait()
                    break
                if not await self._is_alive():
                    break
        except BaseException:  # the turn was interrupted, or the time is over
            with anyio.move_on_after(SEND_SECONDS, shield=True):
                await self.send(wire.PeerRequest(do="withdraw_call", id=request.id))
            raise
        finally:
            del self._waiting[request.id]
        if waiting.reply is not None and waiting.reply.result is not None:
            return waiting.reply.result
        why = "has ended" if self._gone else "does not answer"
        words = f"{self.name}, whose client carries out {call.tool!r}, {why}: the tool may or may not have run"
        return ToolResult(text=words, failed=True)

    async def _is_alive(self) -> bool:
        request = wire.PeerRequest(do="tool_rank", id=self._next())
        waiting = self._expect(request)
        try:
            with anyio.move_on_after(ALIVE_SECONDS):
                await self._ask(request, waiting)
        finally:
            del self._waiting[request.id]
        return waiting.reply is not None

    def _expect(self, request: "wire.PeerRequest") -> "_Waiting":
        waiting = self._waiting[request.id] = _Waiting()
        if self._gone:
            waiting.answered.set()
        return waiting

    async def _ask(self, request: "wire.PeerRequest", waiting: "_Waiting") -> None:
        await self.send(request)
        await waiting.answered.wait()

    def _next(self) -> int:
        self._number += 1
        return self._number


class VisitorTools:
    """Implements `ports.ToolClient`: the clients of another process, as far as they carry out tools of one thread."""

    def __init__(self, visitor: Visitor, rank: int) -> None:
        self._visitor = visitor
        self._rank = rank

    def tool_rank(self, thread_id: ThreadId) -> int:  # noqa: ARG002 - it was asked about this thread alone
        return self._rank

    async def call_tool(self, call: ClientToolCall) -> ToolResult:
        return await self._visitor.call_tool(call)


class _Waiting:
    """For the answer to one question."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.reply: wire.PeerReply | None = None


def _process_name(stream: SocketStream) -> str:
    try:
        raw = stream.extra(SocketAttribute.raw_socket)
        pid, _, _ = _CREDENTIALS.unpack(raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    except (AttributeError, OSError):  # not every system says
        return "another process"
    return f"process {pid}"
