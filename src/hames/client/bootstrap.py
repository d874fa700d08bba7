"""The Python client of a bootstrap server: `BootstrapClient`, over any pair of byte streams.

    async with BootstrapClient.spawn(["bootstrap", "harness", "--cwd", "/project"]) as client:
        thread = await client.create_thread()
        async for event in client.turn(thread.thread_id, "Run the tests"):
            print(event.method)

What the server tells arrives as events, in order. Read them: after `EVENTS` unread ones this client reads no more,
and not the answers behind them either.
"""

import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Self, TypeVar

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, ByteSendStream
from msgspec import UNSET

from hames.client.unreachable import ConnectionClosed
from hames.codecs.jsonrpc_peer import Caller, JsonRpcReply, Notification
from hames.codecs.lines import Line, LineDecoder
from hames.domain.json import Json
from hames.domain.policy import AgentName
from hames.domain.value import Value
from hames.protocols.bootstrap import messages as m
from hames.protocols.bootstrap.undo import ThreadUndoParams, ThreadUndoResult

R = TypeVar("R", bound=Value)
Prompt = str | Sequence[m.InputPart]

EVENTS = 10_000
CLOSE_SECONDS = 5.0
MAX_LINE_BYTES = 1 << 30
"""A history may be long; the server is ours."""


class RequestFailed(Exception):
    """The server said no; `code` is one of the specification's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Event(Value):
    """A notification. `params` is its message type, or plain JSON where this version does not know it."""

    method: str
    params: Json


class BootstrapClient:
    """One connection. Make it with `spawn` or `connect`."""

    def __init__(self, incoming: ByteReceiveStream, outgoing: ByteSendStream) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._waiting: dict[int, _Answer] = {}
        self._caller = Caller(version=True)
        self._closed = False
        self._told, self._events = anyio.create_memory_object_stream[Event](EVENTS)

    @classmethod
    @asynccontextmanager
    async def spawn(
        cls, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> AsyncGenerator[Self]:
        """Start a server and talk to it. Its logs go to our stderr. At the end its stdin is closed, and it goes."""
        process = await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            cwd=cwd,
            env=env,
            start_new_session=True,  # Ctrl-C is ours: we decide what it means to the server
        )
        assert process.stdin is not None
        assert process.stdout is not None
        async with process:
            try:
                async with cls.connect(process.stdout, process.stdin) as client:
                    yield client
            finally:
                with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                    await process.wait()

    @classmethod
    @asynccontextmanager
    async def connect(cls, incoming: ByteReceiveStream, outgoing: ByteSendStream) -> AsyncGenerator[Self]:
        """Talk over streams that exist."""
        client = cls(incoming, outgoing)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client._listen)
            try:
                yield client
            finally:
                with anyio.CancelScope(shield=True):
                    await outgoing.aclose()
                tasks.cancel_scope.cancel()

    async def initialize(self, name: str = "hames-client", version: str = "1") -> m.InitializeResult:
        params = m.InitializeParams(client_info=m.ClientInfo(name=name, version=version))
        return await self._request("initialize", params, m.InitializeResult)

    async def create_thread(self, *, title: str | None = None, directory: str | None = None) -> m.Thread:
        params = m.ThreadCreateParams(title=title or UNSET, directory=directory or UNSET)
        return (await self._request("thread.create", params, m.ThreadCreateResult)).thread

    async def list_threads(self) -> Sequence[m.Thread]:
        return (await self._request("thread.list", m.ThreadListParams(), m.ThreadListResult)).threads

    async def get_thread(self, thread_id: str) -> m.ThreadGetResult:
        """The thread and its events so far; what happens on it from now on arrives as events."""
        return await self._request("thread.get", m.ThreadGetParams(thread_id=thread_id), m.ThreadGetResult)

    async def start_turn(
        self, thread_id: str, prompt: Prompt, *, model: str | None = None, agent: AgentName | None = None
    ) -> str:
        """The new turn's id. `model` is `provider/model`."""
        parts = (m.TextPart(text=prompt),) if isinstance(prompt, str) else tuple(prompt)
        provider, _, name = (model or "").partition("/")
        params = m.TurnStartParams(
            thread_id=thread_id,
            input=parts,
            model=m.Model(provider_id=provider, model_id=name) if model else UNSET,
            agent=agent or UNSET,
        )
        return (await self._request("turn.start", params, m.TurnStartResult)).turn_id

    async def cancel_turn(self, thread_id: str) -> None:
        await self._request("turn.cancel", m.TurnCancelParams(thread_id=thread_id), m.Ok)

    async def undo(
        self,
        thread_id: str,
        *,
        turn_id: str | None = None,
        later: bool = False,
        redo: bool = False,
        paths: Sequence[str] = (),
        overwrite: bool = False,
        preview: bool = False,
    ) -> ThreadUndoResult:
        """Take back what a turn did to files, or do it again. `turn_id` None: the last turn that changed some."""
        params = ThreadUndoParams(
            thread_id=thread_id,
            turn_id=turn_id or UNSET,
            later=later,
            redo=redo,
            paths=tuple(paths),
            overwrite=overwrite,
            preview=preview,
        )
        return await self._request("thread.undo", params, ThreadUndoResult)

    async def respond(
        self, request_id: str, decision: Literal["once", "always", "reject"], *, content: Json = None
    ) -> None:
        """Answer an `approval.requested`. `content` is what the form of an `elicitation` asks for."""
        params = m.ApprovalRespondParams(request_id=request_id, decision=decision, content=content)
        await self._request("approval.respond", params, m.Ok)

    async def events(self) -> AsyncIterator[Event]:
        """Everything the server tells, until it is gone."""
        async for event in self._events:
            yield event

    async def turn(
        self, thread_id: str, prompt: Prompt, *, model: str | None = None, agent: AgentName | None = None
    ) -> AsyncIterator[Event]:
        """Start a turn and follow it to its end: the last event is `turn.completed` or `turn.error`.

        Raises `ConnectionClosed` when the server goes before that.
        """
        turn_id = await self.start_turn(thread_id, prompt, model=model, agent=agent)
        async for event in self._events:
            yield event
            over = event.method in ("turn.completed", "turn.error")
            if over and isinstance(event.params, m.TurnNews | m.TurnFailed) and event.params.turn_id == turn_id:
                return
        raise ConnectionClosed("the server ended while the turn was running")

    async def _request(self, method: str, params: Value, kind: type[R]) -> R:
        if self._closed:
            raise ConnectionClosed("the server has ended")
        number, line = self._caller.request(method, params)
        answer = self._waiting[number] = _Answer()
        try:
            await self._outgoing.send(line)
            await answer.arrived.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise ConnectionClosed("the server has ended") from None
        finally:
            self._waiting.pop(number, None)
        if answer.reply is None:
            raise ConnectionClosed("the server has ended")
        if answer.reply.error is not None:
            raise RequestFailed(answer.reply.error.code, answer.reply.error.message)
        return msgspec.convert(answer.reply.result, kind)

    async def _listen(self) -> None:
        decoder = LineDecoder(limit=MAX_LINE_BYTES)
        try:
            async for chunk in self._incoming:
                for line in decoder.feed(chunk):
                    await self._hear(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self._closed = True
            self._told.close()
            for answer in self._waiting.values():
                answer.arrived.set()

    async def _hear(self, line: Line) -> None:
        match self._caller.read(line):
            case Notification(method=method, params=params):
                await self._told.send(_event(method, params))
            case JsonRpcReply(number=number) as reply if number in self._waiting:
                self._waiting[number].reply = reply
                self._waiting[number].arrived.set()
            case _:
                pass  # nothing we asked for


class _Answer:
    def __init__(self) -> None:
        self.arrived = anyio.Event()
        self.reply: JsonRpcReply | None = None


def _event(method: str, params: Json) -> Event:
    kind = m.NOTIFICATIONS.get(method)
    try:
        return Event(method=method, params=params if kind is None else msgspec.convert(params, kind))
    except msgspec.ValidationError:  # a newer server: better plain than not at all
        return Event(method=method, params=params)
