"""OpenAI's APIs at `/v1`: models, chat completions and responses."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from hames.core.engine import Engine
from hames.domain.commands import DeleteThread, InterruptTurn, ReadThread
from hames.domain.errors import HarnessError, InvalidCommand, NotFound, TurnNotFound
from hames.domain.ids import ThreadId, TurnId
from hames.domain.json import Json
from hames.domain.policy import ApprovalPolicy
from hames.domain.state import ThreadState, Turn
from hames.protocols.run_session import KnownThreads, RunSession
from hames.server.guard.gate import V1
from hames.server.guard.middleware import LIMITS
from hames.server.http.reply import HttpRefusal, reply
from hames.server.http.request_body import read_body
from hames.server.http.routes import Endpoint, endpoint, principal_of
from hames.server.runs import Runs

CHAT, RESPONSES = f"{V1}/chat/completions", f"{V1}/responses"


class OpenAiEndpoint:
    def __init__(self, engine: Engine, runs: Runs) -> None:
        self._engine = engine
        self._runs = runs

    def endpoints(self) -> Sequence[Endpoint]:
        one = f"{RESPONSES}/{{id}}"
        return [
            endpoint(f"GET {V1}/models", _in_openai_shape(self._models)),
            endpoint(f"GET {V1}/models/{{id:path}}", _in_openai_shape(self._model)),
            endpoint(f"POST {CHAT}", _in_openai_shape(self._chat), needs="driver"),
            endpoint(f"POST {RESPONSES}", _in_openai_shape(self._responses), needs="driver"),
            endpoint(f"GET {one}", _in_openai_shape(self._response)),
            endpoint(f"DELETE {one}", _in_openai_shape(self._delete), needs="driver"),
            endpoint(f"POST {one}/cancel", _in_openai_shape(self._cancel), needs="driver"),
        ]

    async def _models(self, _request: Request) -> Response:
        """The models, as OpenAI lists them."""
        return reply({"object": "list", "data": [_model_members(name) for name in self._model_names()]})

    async def _model(self, request: Request) -> Response:
        """One model."""
        name = request.path_params["id"]
        if name not in self._model_names():
            name = self._engine.models.find(name).id
        return reply(_model_members(name))

    def _model_names(self) -> list[str]:
        from hames.protocols.openai.inbound import DEFAULT_MODEL

        return [DEFAULT_MODEL, *(card.id for card in self._engine.models.cards() if card.usable)]

    async def _chat(self, request: Request) -> Response:
        """Send a conversation and receive the answer, whole or as server-sent events (OpenAI's chat completions)."""
        from hames.protocols.openai.chat import ChatSession
        from hames.protocols.openai.inbound import waiting_keys

        def make(known: KnownThreads, policy: ApprovalPolicy | None) -> RunSession:
            return ChatSession(known, policy=policy)

        body = await read_body(request, LIMITS[CHAT])
        return await self._runs.respond(make, body, principal_of(request), waiting_keys("chat", body))

    async def _responses(self, request: Request) -> Response:
        """Start a response, whole or as server-sent events (OpenAI's responses)."""
        from hames.protocols.openai.inbound import waiting_keys
        from hames.protocols.openai.responses import ResponsesSession

        def make(known: KnownThreads, policy: ApprovalPolicy | None) -> RunSession:
            return ResponsesSession(known, policy=policy)

        body = await read_body(request, LIMITS[RESPONSES])
        return await self._runs.respond(make, body, principal_of(request), waiting_keys("responses", body))

    async def _response(self, request: Request) -> Response:
        """A response that was made before."""
        from hames.protocols.openai.responses import stored_response

        if request.query_params.get("stream") == "true":
            raise InvalidCommand("a response that was made before cannot be streamed again; GET it without stream")
        state, turn, first = await self._find(request)
        return reply(stored_response(state, turn, first))

    async def _cancel(self, request: Request) -> Response:
        """Interrupt a response that runs."""
        from hames.protocols.openai.responses import stored_response

        state, turn, first = await self._find(request)
        if turn.status == "running":
            command = InterruptTurn(thread_id=state.id, turn_id=turn.id)
            try:
                await principal_of(request).execute(self._engine, command)
            except TurnNotFound:
                pass
            else:
                state, turn, first = await self._find(request)
        shown = stored_response(state, turn, first)
        return reply({**shown, "status": "cancelled"} if turn.status == "running" else shown)

    async def _delete(self, request: Request) -> Response:
        """Delete a response, with the thread that it is in, if the thread has no other."""
        state, turn, _ = await self._find(request)
        if [one.id for one in state.turns] != [turn.id]:
            raise InvalidCommand("the thread of this response has other responses; delete the thread instead")
        await principal_of(request).execute(self._engine, DeleteThread(thread_id=state.id))
        return reply({"id": request.path_params["id"], "object": "response", "deleted": True})

    async def _find(self, request: Request) -> tuple[ThreadState, Turn, int]:
        from hames.protocols.openai.conversation import read_response_id

        named: tuple[ThreadId, TurnId, int] | None = read_response_id(request.path_params["id"])
        if named is not None:
            state = await self._engine.execute(ReadThread(thread_id=named[0]))
            assert isinstance(state, ThreadState)
            if (turn := state.turn(named[1])) is not None:
                return state, turn, named[2]
        raise NotFound(f"no response {request.path_params['id']!r}")


def _model_members(name: str) -> Json:
    return {"id": name, "object": "model", "created": 0, "owned_by": name.partition("/")[0]}


def _in_openai_shape(handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Refusals as clients of this API read them."""

    async def answer(request: Request) -> Response:
        from hames.protocols.openai.errors import error_body, error_status, http_error

        try:
            return await handle(request)
        except HttpRefusal as why:
            return reply(http_error(why.code, str(why)), why.code)
        except HarnessError as error:
            return reply(error_body(error), error_status(error))

    answer.__doc__ = handle.__doc__
    return answer
