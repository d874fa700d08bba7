"""Status, health, metrics, the description of the API, and what a page needs beside its threads."""

from starlette.requests import Request
from starlette.responses import Response

from hames.domain.errors import InvalidCommand, StorageFailed
from hames.domain.ids import ThreadId
from hames.domain.pictures import shape
from hames.domain.value import Value
from hames.observe.metrics import MEDIA_TYPE
from hames.observe.nodes import NO_STORE, node_metrics
from hames.protocols.body import parse_number
from hames.protocols.sync import pages as p
from hames.server.guard.gate import PICTURES
from hames.server.http.files import FileFinder
from hames.server.http.reply import ALWAYS, HttpRefusal, reply
from hames.server.http.request_body import read_body
from hames.server.http.routes import Endpoint, endpoint, openapi_description, principal_of
from hames.server.http.uploads import PICTURE_BYTES
from hames.server.service import Service


class Health(Value):
    status: str = "ok"


class StatusApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._files = FileFinder(service.engine.clock)
        self.table: list[Endpoint] = []
        """Everything there is, once it is known: what `/openapi.json` describes."""

    def endpoints(self) -> list[Endpoint]:
        return [
            endpoint("GET /status", self.status, answer=p.ServerStatus),
            endpoint("GET /healthz", self.health, needs="nothing", answer=Health),
            endpoint("GET /readyz", self.ready, needs="nothing", answer=Health),
            endpoint("GET /metrics", self.metrics, media="text/plain"),
            endpoint("GET /openapi.json", self.openapi),
            endpoint("GET /files", self.files, answer=p.FileHits, query=("thread", "query", "limit")),
            endpoint("POST /uploads", self.upload, needs="driver", answer=p.Upload, code=201, query=("name",)),
            endpoint("GET /uploads/{id}", self.uploaded, media="image/png"),
        ]

    async def status(self, request: Request) -> Response:
        """Version, models and sandbox of this server, and what whoever asks may do."""
        service, access = self._service, principal_of(request).access
        return reply(
            p.ServerStatus(
                name="hames",
                version=service.extras.version,
                cwd=service.engine.rules.defaults.cwd,
                default_model=service.engine.rules.defaults.model,
                demo_model=service.extras.demo_model,
                models=service.offer.listed,
                sandbox=await service.extras.sandbox(),
                warnings=service.engine.rules.warnings,
                notice=await service.extras.notice() if access.may("driver") else "",
                can_add_devices=service.keyring is not None and access.may("driver"),
                role=access.role,
                user=access.actor.name,
                max_steps=service.engine.rules.max_steps,
                new_thread_policy=service.extras.page_policy if access.may("approver") else None,
            )
        )

    async def health(self, _request: Request) -> Response:
        """Whether the server is running."""
        return reply(Health())

    async def ready(self, _request: Request) -> Response:
        """Whether the server accepts requests."""
        return reply(Health())

    async def metrics(self, _request: Request) -> Response:
        """Metrics for Prometheus."""
        text = self._service.metrics.text()
        if (node := self._service.engine.node) is not None:
            try:
                text += node_metrics(await node.nodes.list(), this=node.nodes.id)
            except StorageFailed:
                text += NO_STORE
        return Response(text.encode(), 200, ALWAYS, MEDIA_TYPE)

    async def openapi(self, _request: Request) -> Response:
        """This description."""
        return reply(openapi_description(self.table, version=self._service.extras.version))

    async def files(self, request: Request) -> Response:
        """Search the files of a thread's directory by name."""
        asked = request.query_params
        named = asked.get("thread")
        thread_id = ThreadId(named) if named else await self._service.newest_thread()
        if thread_id is None:
            directory = self._service.engine.rules.defaults.cwd
        else:
            directory = (await self._service.state(thread_id)).settings.cwd
        limit = parse_number(asked.get("limit"), 20, least=1, most=200, name="limit")
        return reply(p.FileHits(files=await self._files.find(directory, asked.get("query", "")[:200], limit)))

    async def upload(self, request: Request) -> Response:
        """A picture for a prompt: PNG, JPEG, GIF or WebP, at most 10 MiB."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in PICTURES:
            raise HttpRefusal(415, f"a picture is {' or '.join(sorted(PICTURES))}")
        data = await read_body(request, PICTURE_BYTES)
        name = request.query_params.get("name", "")[:200]
        return reply(await self._service.uploads.keep(data, media_type, name), 201)

    async def uploaded(self, request: Request) -> Response:
        """A picture that was uploaded and that no turn has read yet."""
        try:
            data = await self._service.uploads.read(request.path_params["id"])
        except InvalidCommand as why:
            raise HttpRefusal(404, str(why), "Other") from None
        found = shape(data)
        if found is None:
            raise HttpRefusal(404, "no such picture", "Other")
        headers = {**ALWAYS, "Content-Security-Policy": "default-src 'none'; sandbox"}
        return Response(data, 200, headers, found.media_type)
