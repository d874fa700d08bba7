"""The connection below `AppServerClient`: requests and answers, events, approvals that the server asks for."""

from collections.abc import Awaitable, Callable
from typing import Protocol, Self

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from hames.client.appserver.events import (
    AgentEvent,
    ApprovalAsked,
    ApprovalSettled,
    Closed,
    read_event,
    read_question,
    thread_of,
)
from hames.client.unreachable import ConnectionClosed
from hames.codecs.jsonrpc_peer import METHOD_NOT_FOUND, Caller, JsonRpcReply, Notification, ServerRequest
from hames.codecs.lines import Line, LineDecoder
from hames.domain.json import Json
from hames.domain.value import Value
from hames.protocols.flint.messages import ApprovalWord, ElicitationParams


class Filled(Value):
    """`accept`, with what the form of an MCP server asks for."""

    content: dict[str, Json]


OnApproval = Callable[[ApprovalAsked], Awaitable[ApprovalWord | Filled]]
"""Decides. It is cancelled when the question is settled elsewhere; if it fails, the answer is `decline`."""

MAX_LINE_BYTES = 1 << 30
"""What a turn can hold, and more: an agent of our own choosing is not cut short."""


class AppServerError(Exception):
    """A request was refused. `code` is one of flint's numbers."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Stream(Protocol):
    """Bytes both ways. Any of anyio's byte streams is one."""

    async def receive(self, max_bytes: int = ...) -> bytes:
        """Raises `anyio.EndOfStream` when the other side is done."""
        ...

    async def send(self, item: bytes) -> None: ...

    async def aclose(self) -> None: ...


class Events:
    """Events from the moment this was made. Iterate it; `close` it when done."""

    def __init__(self, feed: MemoryObjectReceiveStream[AgentEvent]) -> None:
        self._feed = feed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        try:
            return await self._feed.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def close(self) -> None:
        self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AppServerConnection:
    """One connection, before and beside the typed methods."""

    def __init__(self, stream: Stream, tasks: TaskGroup, on_approval: OnApproval | None) -> None:
        self.closed = ""
        """Why nothing more will come, once nothing will."""
        self._stream = stream
        self._tasks = tasks
        self._on_approval = on_approval
        self._sending = anyio.Lock()
        self._caller = Caller(version=False)
        self._waiting: dict[int, _Answer] = {}
        self._feeds: list[tuple[MemoryObjectSendStream[AgentEvent], str | None]] = []
        self._asked: dict[str, anyio.CancelScope | None] = {}
        self._numbers: dict[str, int] = {}
        """The requests whose id is a number: by its digits, which are their name here."""
        self._forms: set[str] = set()

    def events(self, thread_id: str | None = None) -> Events:
        """Everything from now on, or what concerns one thread. Nothing is dropped, so take what comes."""
        send, receive = anyio.create_memory_object_stream[AgentEvent](float("inf"))
        if self.closed:
            send.send_nowait(Closed(why=self.closed))
            send.close()
        else:
            self._feeds.append((send, thread_id))
        return Events(receive)

    async def answer(self, request_id: str, decision: ApprovalWord | Filled) -> None:
        """Decide an approval that no callback decides. One that is settled already is left alone.

        A form is accepted with `Filled`; a plain `accept` hands it in as it stands.
        """
        if self._asked.pop(request_id, ...) is not ...:
            result = _elicitation_result(decision) if request_id in self._forms else {"decision": _word(decision)}
            self._forms.discard(request_id)
            await self._send(self._caller.result(self._numbers.pop(request_id, request_id), result))

    async def request(self, method: str, params: Json = None) -> Json:
        """Any request at all, with its result as it came. Raises `AppServerError` and `ConnectionClosed`."""
        if self.closed:
            raise ConnectionClosed(self.closed)
        number, line = self._caller.request(method, {} if params is None else params)
        answer = self._waiting[number] = _Answer()
        try:
            await self._send(line)
            await answer.arrived.wait()
        finally:
            self._waiting.pop(number, None)
        if answer.error is not None:
            raise answer.error
        return answer.result

    async def notify(self, method: str, params: Json) -> None:
        await self._send(self._caller.notification(method, params))

    async def _send(self, line: bytes) -> None:
        try:
            async with self._sending:
                await self._stream.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self.end("the agent no longer reads messages")
            raise ConnectionClosed(self.closed) from None

    async def listen(self) -> None:
        decoder = LineDecoder(limit=MAX_LINE_BYTES)
        try:
            while True:
                for line in decoder.feed(await self._stream.receive()):
                    self._hear(line)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            for line in decoder.end():
                self._hear(line)
        self.end("the agent closed the connection")

    def end(self, why: str) -> None:
        if self.closed:
            return
        self.closed = why
        for answer in self._waiting.values():
            answer.fail(ConnectionClosed(why))
        self._tell(Closed(why=why))
        for feed, _ in self._feeds:
            feed.close()
        self._feeds.clear()

    def _hear(self, line: Line) -> None:
        match self._caller.read(line):
            case ServerRequest() as asked:
                self._tasks.start_soon(self._answer_request, asked)
            case Notification(method=method, params=params):
                self._tell(read_event(method, params))
            case JsonRpcReply(number=number) as reply if number in self._waiting:
                self._waiting[number].settle(reply)
            case _:
                return

    def _tell(self, event: AgentEvent) -> None:
        if isinstance(event, ApprovalSettled):
            self._forms.discard(event.request_id)
            self._numbers.pop(event.request_id, None)
            if (scope := self._asked.pop(event.request_id, None)) is not None:
                scope.cancel()
        about = thread_of(event)
        for feed, thread_id in list(self._feeds):
            if thread_id is not None and about is not None and about != thread_id:
                continue
            try:
                feed.send_nowait(event)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._feeds.remove((feed, thread_id))

    async def _answer_request(self, asked: ServerRequest) -> None:
        question = read_question(str(asked.id), asked.method, asked.params)
        if question is not None and isinstance(asked.id, int):
            self._numbers[question.request_id] = asked.id
        if question is not None and isinstance(question.params, ElicitationParams):
            self._forms.add(question.request_id)
        try:
            if question is None:
                refusal = self._caller.error(asked.id, METHOD_NOT_FOUND, f"no method {asked.method!r}")
                await self._send(refusal)
            elif self._on_approval is None:
                self._asked[question.request_id] = None
                self._tell(question)
            else:
                await self._decide(self._on_approval, question)
        except ConnectionClosed:
            return

    async def _decide(self, on_approval: OnApproval, question: ApprovalAsked) -> None:
        decision: ApprovalWord | Filled = "decline"
        with anyio.CancelScope() as scope:
            self._asked[question.request_id] = scope
            self._tell(question)
            try:
                decision = await on_approval(question)
            except Exception:
                await self.answer(question.request_id, "decline")
                raise
        if not scope.cancelled_caught:
            await self.answer(question.request_id, decision)


def _word(decision: ApprovalWord | Filled) -> ApprovalWord:
    return "accept" if isinstance(decision, Filled) else decision


def _elicitation_result(decision: ApprovalWord | Filled) -> Json:
    if isinstance(decision, Filled):
        return {"action": "accept", "content": decision.content}
    return {"action": "accept" if decision in ("acceptForSession", "acceptForProject") else decision}


class _Answer:
    def __init__(self) -> None:
        self.arrived = anyio.Event()
        self.result: Json = None
        self.error: AppServerError | ConnectionClosed | None = None

    def settle(self, reply: JsonRpcReply) -> None:
        if reply.error is not None:
            self.error = AppServerError(reply.error.code, reply.error.message, reply.error.data)
        self.result = reply.result
        self.arrived.set()

    def fail(self, error: ConnectionClosed) -> None:
        self.error = error
        self.arrived.set()
