"""HTTP + SSE as the core specification has it: watch a thread's events, submit a prompt, cancel it. And answer for it.

All of it is about one thread: `?thread=`, or the newest of the directory that this user has written.
"""

from starlette.requests import Request
from starlette.responses import Response

from hames.domain.commands import InterruptTurn
from hames.domain.errors import TurnNotFound
from hames.domain.foreign import FOREIGN
from hames.domain.ids import ThreadId
from hames.domain.state import Turn
from hames.domain.value import Value
from hames.protocols.approvals import ApprovalAnswer
from hames.protocols.sse import inbound
from hames.protocols.sse import messages as m
from hames.protocols.sse.session import SseSession
from hames.server.api.streams import SessionStreams
from hames.server.http.reply import reply
from hames.server.http.request_body import read_body
from hames.server.http.routes import Endpoint, endpoint, principal_of
from hames.server.service import Service


class Accepted(Value, rename="camel"):
    """`notice` is a sentence about the thread that a client should show to its user, if there is one."""

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
        self._streams = SessionStreams(service.fanout.connect)

    def endpoints(self) -> list[Endpoint]:
        thread = ("thread",)
        return [
            endpoint("GET /events", self.events, media="text/event-stream", query=("thread", "after", "answers")),
            endpoint("POST /prompt", self.prompt, needs="driver", body=m.Prompt, answer=Accepted, query=thread),
            endpoint("POST /cancel", self.cancel, needs="driver", answer=Cancelled, query=thread),
            endpoint("POST /approvals/{id}", self.approve, needs="approver", body=ApprovalAnswer, answer=Ok),
        ]

    async def events(self, request: Request) -> Response:
        """The thread's events as they happen (SSE). `Last-Event-ID` or `?after=` continues after that event."""
        thread_id = await self._service.choose_thread(request.query_params.get("thread"), principal_of(request))
        last = request.headers.get("last-event-id") or request.query_params.get("after") or ""
        session = SseSession(thread_id, last, can_answer=request.query_params.get("answers") == "1")
        return self._streams.response(session)

    async def prompt(self, request: Request) -> Response:
        """Submit a prompt; 409 while a turn runs."""
        given = inbound.decode_prompt(await read_body(request))
        thread_id = await self._service.choose_thread(request.query_params.get("thread"), principal_of(request))
        turn = await principal_of(request).execute(self._service.engine, inbound.start_turn(given, thread_id))
        assert isinstance(turn, Turn)
        state = self._service.engine.loaded(thread_id)
        notice = FOREIGN if state is not None and state.foreign else ""
        return reply(Accepted(ok=True, thread_id=thread_id, turn_id=turn.id, notice=notice))

    async def cancel(self, request: Request) -> Response:
        """Cancel the running turn, if one runs."""
        await read_body(request)
        named = request.query_params.get("thread")
        thread_id = ThreadId(named) if named else await self._service.newest_thread()
        if thread_id is None:
            return reply(Cancelled(ok=True, cancelled=False))
        try:
            await principal_of(request).execute(self._service.engine, InterruptTurn(thread_id=thread_id))
        except TurnNotFound:
            return reply(Cancelled(ok=True, cancelled=False))
        return reply(Cancelled(ok=True, cancelled=True))

    async def approve(self, request: Request) -> Response:
        """Answer a question: once, always or reject."""
        command = inbound.resolve_approval(await read_body(request), request.path_params["id"])
        await principal_of(request).execute(self._service.engine, command)
        return reply(Ok())
