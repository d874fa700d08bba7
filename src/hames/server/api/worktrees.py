"""The worktrees of threads over HTTP."""

from msgspec import convert
from starlette.requests import Request
from starlette.responses import Response

from hames.domain.worktrees import WorktreeList, WorktreeReport
from hames.protocols.sync import worktrees as w
from hames.server.http.reply import reply
from hames.server.http.request_body import read_body
from hames.server.http.routes import Endpoint, endpoint, principal_of
from hames.server.service import Service


class WorktreesApi:
    def __init__(self, service: Service) -> None:
        self._engine = service.engine

    def endpoints(self) -> list[Endpoint]:
        finish = "POST /worktrees/finish"
        return [
            endpoint("GET /worktrees", self.list, answer=w.WorktreePage, query=("everywhere",)),
            endpoint(finish, self.finish, needs="driver", body=w.Finish, answer=w.FinishAnswer),
        ]

    async def list(self, request: Request) -> Response:
        """The worktrees that were made for threads of this repository, with what is in them."""
        found = await principal_of(request).execute(self._engine, w.list_worktrees(request.query_params))
        assert isinstance(found, WorktreeList)
        return reply(convert(found, w.WorktreePage, from_attributes=True))

    async def finish(self, request: Request) -> Response:
        """Merge a worktree into the branch it came from, keep it, or drop it."""
        command = w.finish_worktree(await read_body(request))
        report = await principal_of(request).execute(self._engine, command)
        assert isinstance(report, WorktreeReport)
        return reply(convert(report, w.FinishAnswer, from_attributes=True))
