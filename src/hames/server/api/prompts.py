"""HTTP + SSE as the core specification has it: watch a thread's events, submit a prompt, cancel it. And answer for it.

All of it is about one thread: `?thread=`, or the newest of the directory that this user has written.
"""

from contextlib import AsyncExitStack

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hames.domain.commands import InterruptTurn
from hames.domain.errors import HarnessError, TurnNotFound
from hames.domain.foreign import FOREIGN
from hames.domain.ids import ThreadId
from hames.domain.state import Turn
from hames.domain.value import Value
from hames.protocols.sse import inbound
from hames.protocols.sse import messages as m
from hames.protocols.sse.outbound import pending
from hames.protocols.sse.stream import Place, opening, place, unplaced
from hames.server.clients import SseClient
from hames.server.fanout import Hub
from hames.server.http.connection import CONNECTION
from hames.server.http.reply import ALWAYS, Refused, explained, read_body, read_json, reply
from hames.server.http.routes import Endpoint
from hames.server.service import Service


class Accepted(Value, rename="camel"):
    """`notice` is what a client should tell its user about the thread, where there is something to tell."""

    ok: bool
    thread_id: str
    turn_id: str = ""
    notice: str = ""


class Cancelled(Value):
    """`cancelled`: something ran."""

    ok: bool
    cancelled: bool


class Ok(Value):
    ok: bool = True


class PromptsApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    def endpoints(self) -> list[Endpoint]:
        thread = ("thread",)
        return [
            Endpoint(
                method="GET",
                path="/events",
                says="The thread's events as they happen (SSE). `Last-Event-ID` or `?after=` continues after that"
                " event",
                handle=self.events,
                media="text/event-stream",
                query=("thread", "after", "answers"),
            ),
            Endpoint(
                method="POST",
                path="/prompt",
                says="Submit a prompt; 409 while a turn runs",
                handle=self.prompt,
                body=m.Prompt,
                answer=Accepted,
                query=thread,
            ),
            Endpoint(
                method="POST",
                path="/cancel",
                says="Cancel the running turn, if one runs",
                handle=self.cancel,
                answer=Cancelled,
                query=thread,
            ),
            Endpoint(
                method="POST",
                path="/approvals/{id}",
                says="Answer a question: once, always or reject",
                handle=self.approve,
                body=m.ApprovalAnswer,
                answer=Ok,
            ),
        ]

    async def events(self, request: Request) -> Response:
        thread_id = await self._service.chosen(request.query_params.get("thread"))
        named = request.headers.get("last-event-id") or request.query_params.get("after") or ""
        return _Events(self._service, thread_id, place(named), answers=request.query_params.get("answers") == "1")

    async def prompt(self, request: Request) -> Response:
        given = await read_json(request, m.Prompt)
        if not given.content.strip():
            raise Refused(400, "the prompt is empty")
        thread_id = await self._service.chosen(request.query_params.get("thread"))
        turn = await self._service.engine.execute(inbound.start_turn(given, thread_id))
        assert isinstance(turn, Turn)
        state = self._service.engine.loaded(thread_id)
        notice = FOREIGN if state is not None and state.foreign else ""
        return reply(Accepted(ok=True, thread_id=thread_id, turn_id=turn.id, notice=notice))

    async def cancel(self, request: Request) -> Response:
        await read_body(request)
        named = request.query_params.get("thread")
        thread_id = ThreadId(named) if named else await self._service.newest()
        if thread_id is None:
            return reply(Cancelled(ok=True, cancelled=False))
        try:
            await self._service.engine.execute(InterruptTurn(thread_id=thread_id))
        except TurnNotFound:
            return reply(Cancelled(ok=True, cancelled=False))
        return reply(Cancelled(ok=True, cancelled=True))

    async def approve(self, request: Request) -> Response:
        given = await read_json(request, m.ApprovalAnswer)
        await self._service.engine.execute(inbound.resolve_approval(given, request.path_params["id"]))
        return reply(Ok())


class _Events(Response):
    """A response that ends when the client does, the thread does, or the server does."""

    def __init__(self, service: Service, thread_id: ThreadId, where: Place | None, *, answers: bool) -> None:
        super().__init__()
        self._answers = answers
        self._service = service
        self._thread_id = thread_id
        self._where = where

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as stack:
            try:
                hub = await stack.enter_async_context(self._service.hubs.looking(self._thread_id))
            except HarnessError as error:
                await explained(error)(scope, receive, send)
                return
            client = hub.attach_sse(answers=self._answers)
            stack.callback(hub.detach_sse, client)
            client.stalled = scope[CONNECTION].abort
            # No await between taking one's place and looking at the state.
            first = opening(client.seq) + unplaced(pending(hub.state)) if self._where is None else b""
            headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
            headers += [(name.lower().encode(), value.encode()) for name, value in ALWAYS.items()]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
                return
            await self._stream(first, hub, client, receive, send)

    async def _stream(self, first: bytes, hub: Hub, client: SseClient, receive: Receive, send: Send) -> None:
        async def until_gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(until_gone)
            data = first or await self._missed(hub, client)
            ended = False
            while not ended:
                await send({"type": "http.response.body", "body": data, "more_body": True})
                data, ended = await client.take()
            await send({"type": "http.response.body", "body": data})
            tasks.cancel_scope.cancel()

    async def _missed(self, hub: Hub, client: SseClient) -> bytes:
        """What happened between the client's place and its coming back."""
        where = self._where
        if where is None or where.seq > client.seq:
            return opening(client.seq)
        blocks = await hub.past()
        said = b"".join(one.behind(where) for one in blocks if one.seq <= client.seq)
        return opening(where.seq, where.told) + said
