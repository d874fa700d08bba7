"""A connection to another process on the same data directory, from the side that connected.

Almost everything is asked by this side. The other one, which writes the thread, has our clients carry out their tools.
"""

import logging
from collections.abc import Mapping

import anyio
from anyio.abc import SocketStream, TaskGroup

from hames.codecs.lines import LineDecoder, TooLong
from hames.domain.commands import Command, Standing
from hames.domain.ids import ThreadId
from hames.domain.items import ToolResult
from hames.ports import Peer, PeerAnswer, PeerLost
from hames.server.peers import wire
from hames.server.peers.received import received

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""A process that takes longer to say what it does is passed over for a while: it is stopped, or very busy."""
PASSED_OVER_SECONDS = 10.0
PATIENT_SECONDS = 10.0
"""For a process that is known to have the thread, on a machine with too much to do."""
EXECUTE_SECONDS = 60.0


class SocketLink:
    """`here` hears the news of the other process, and that it has gone."""

    def __init__(self, stream: SocketStream, name: str, here: Peer) -> None:
        self.name = name
        self.gone = False
        self._stream = stream
        self._here = here
        self._calls: dict[int, anyio.CancelScope] = {}
        """Tools that clients of this process carry out for the other one, by the id of the request."""
        self._number = 0
        self._replies: dict[int, _Waiting] = {}
        self._outbox: list[bytes] = []
        self._to_send = anyio.Event()
        self._asked_for_news = False
        self._passed_over_until = 0.0

    @property
    def responsive(self) -> bool:
        return anyio.current_time() >= self._passed_over_until

    async def run(self) -> None:
        """Until the other process closes the connection."""
        try:
            async with self._stream, anyio.create_task_group() as tasks:
                tasks.start_soon(self._send_all)
                await self._read(tasks)
                tasks.cancel_scope.cancel()
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        except* Exception:
            log.exception("link.crashed")
        finally:
            self.close()
            self._here.hear_news()

    def close(self) -> None:
        self.gone = True
        for waiting in self._replies.values():
            waiting.answered.set()

    async def _read(self, tasks: TaskGroup) -> None:
        decoder = LineDecoder(limit=wire.LINE_BYTES)
        async for chunk in received(self._stream):
            for line in decoder.feed(chunk):
                message = wire.decode_line(line) if not isinstance(line, TooLong) else None
                if isinstance(message, wire.PeerReply) and (waiting := self._replies.get(message.id)) is not None:
                    waiting.reply = message
                    waiting.answered.set()
                elif isinstance(message, wire.PeerRequest):
                    self._take(message, tasks)

    def _take(self, request: wire.PeerRequest, tasks: TaskGroup) -> None:
        match request.do:
            case "news":
                self._here.hear_news()
            case "tool_rank":
                self._say(wire.PeerReply(id=request.id, tool_rank=self._here.tool_rank(request.thread_id)))
            case "call_tool" if request.id not in self._calls:
                self._calls[request.id] = anyio.CancelScope()
                tasks.start_soon(self._call_tool, request)
            case "withdraw_call" if request.id in self._calls:
                self._calls[request.id].cancel()
            case _:  # said by the wrong side
                pass

    async def _call_tool(self, request: wire.PeerRequest) -> None:
        call = wire.decode_call(request)
        result = ToolResult(text="the call was sent by another version and cannot be read", failed=True)
        try:
            with self._calls[request.id] as scope:
                if call is not None:
                    result = await self._here.call_tool_for_peer(call)
            if not scope.cancelled_caught:
                self._say(wire.PeerReply(id=request.id, result=result))
        finally:
            del self._calls[request.id]

    async def _send_all(self) -> None:
        while True:
            await self._to_send.wait()
            self._to_send = anyio.Event()
            while self._outbox:
                waiting, self._outbox = self._outbox, []
                await self._stream.send(b"".join(waiting))

    def _say(self, message: wire.PeerRequest | wire.PeerReply) -> None:
        self._outbox.append(wire.encode_line(message))
        self._to_send.set()

    async def _ask(self, request: wire.PeerRequest, seconds: float) -> wire.PeerReply:
        waiting = self._replies[request.id] = _Waiting()
        try:
            if not self.gone:
                self._say(request)
                with anyio.move_on_after(seconds):
                    await waiting.answered.wait()
        finally:
            del self._replies[request.id]
        if waiting.reply is not None:
            self._passed_over_until = 0.0
            return waiting.reply
        if self.gone:
            raise PeerLost(f"{self.name} has ended")
        self._passed_over_until = anyio.current_time() + PASSED_OVER_SECONDS
        raise PeerLost(f"{self.name} does not answer")

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def owns(self, thread_id: ThreadId, *, patient: bool = False) -> bool:
        request = wire.PeerRequest(do="owns", id=self._next(), thread_id=thread_id)
        return (await self._ask(request, PATIENT_SECONDS if patient else LOOK_SECONDS)).owns

    async def standings(self) -> Mapping[ThreadId, Standing]:
        return (await self._ask(wire.PeerRequest(do="standings", id=self._next()), LOOK_SECONDS)).standings

    async def execute(self, command: Command, key: str, *, seen: int, repeated: bool = False) -> PeerAnswer:
        request = wire.command_request(self._next(), command, key, seen, repeated=repeated)
        reply = await self._ask(request, EXECUTE_SECONDS)
        if reply.answer is None:
            raise wire.raised(reply)
        return reply.answer

    def tell_viewing(self, thread_id: ThreadId, *, answers: bool | None, tools: int = 0) -> None:  # noqa: ARG002 - the writer asks for it
        self._say(wire.PeerRequest(do="viewing", thread_id=thread_id, answers=answers))

    def ask_for_news(self) -> None:
        if not self._asked_for_news:
            self._asked_for_news = True
            self._say(wire.PeerRequest(do="send_news"))


class _Waiting:
    """For the answer to one request."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.reply: wire.PeerReply | None = None
