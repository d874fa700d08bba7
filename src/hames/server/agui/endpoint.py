"""AG-UI at `/agui`: a POST is a run, and its response is the events of the run."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from hames.domain.policy import ApprovalPolicy
from hames.protocols.run_session import KnownThreads, RunSession
from hames.server.guard.gate import AGUI
from hames.server.guard.middleware import LIMITS
from hames.server.http.request_body import read_body
from hames.server.http.routes import Endpoint, endpoint, principal_of
from hames.server.runs import Runs


class AguiEndpoint:
    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def endpoints(self) -> Sequence[Endpoint]:
        return [endpoint(f"POST {AGUI}", self._run, needs="driver", media="text/event-stream")]

    async def _run(self, request: Request) -> Response:
        """Run the agent (AG-UI): the body is a RunAgentInput, the answer its events."""
        from hames.protocols.agui.inbound import waiting_keys
        from hames.protocols.agui.session import AguiSession

        def make(known: KnownThreads, policy: ApprovalPolicy | None) -> RunSession:
            return AguiSession(known, policy=policy)

        body = await read_body(request, LIMITS[AGUI])
        return await self._runs.respond(make, body, principal_of(request), waiting_keys(body))
