"""What an agent shows: the file behind an artifact, and the pictures that a tool returned.

Both were chosen by a model, so nothing of it may run in the page's origin: PNG, JPEG, GIF and WebP are sent as what
their bytes are, text as plain text, and anything else only to be saved.
"""

from urllib.parse import quote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from hames.domain import items
from hames.domain.ids import ItemId, ThreadId
from hames.domain.pictures import shape
from hames.domain.policy import WorkspaceWrite
from hames.domain.state import ThreadState
from hames.ports.workspace import FileRefused
from hames.protocols.body import parse_number
from hames.server.http.pictures import decode_picture
from hames.server.http.reply import ALWAYS, HttpRefusal
from hames.server.http.routes import Endpoint, endpoint
from hames.server.service import Service

FILE_BYTES = 64 << 20
HARMLESS = {"Content-Security-Policy": "default-src 'none'; sandbox"}
TEXT_TYPES = frozenset({"application/json", "application/xml", "application/yaml", "application/toml"})


class ArtifactsApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    def endpoints(self) -> list[Endpoint]:
        one = "/threads/{id}"
        return [
            endpoint(
                f"GET {one}/artifacts/{{tool}}", self.artifact, media="application/octet-stream", query=("download",)
            ),
            endpoint(f"GET {one}/tools/{{tool}}/images/{{number}}", self.picture, media="image/png"),
        ]

    async def artifact(self, request: Request) -> Response:
        """The file of an artifact as it is now; `download=1` saves it under its name."""
        state, item = await self._item(request)
        if not isinstance(item, items.Artifact) or item.status != "completed":
            raise HttpRefusal(404, "no such artifact", "Other")
        root, path = _beneath(state, item.path)
        try:
            data = await to_thread.run_sync(self._read, root, path, abandon_on_cancel=True)
        except FileRefused as why:
            raise HttpRefusal(404, f"the file cannot be shown: {why}", "Other") from None
        saves = request.query_params.get("download") == "1"
        media = "application/octet-stream" if saves else _media_type(item, data)
        name = item.path.rpartition("/")[2]
        kind = "attachment" if saves or media == "application/octet-stream" else "inline"
        named = {"Content-Disposition": f"{kind}; filename*=UTF-8''{quote(name, safe='')}"}
        return Response(data, 200, {**ALWAYS, **HARMLESS, **named}, media)

    async def picture(self, request: Request) -> Response:
        """A picture that a tool returned."""
        _, item = await self._item(request)
        position = parse_number(request.path_params["number"], 0, least=0, most=1000, name="the number")
        pictures = _pictures(item)
        found = (
            decode_picture(pictures[position].media_type, pictures[position].base64)
            if position < len(pictures)
            else None
        )
        if found is None:
            raise HttpRefusal(404, "no such picture", "Other")
        media_type, data = found
        headers = {**ALWAYS, **HARMLESS, "Cache-Control": "private, max-age=31536000, immutable"}
        return Response(data, 200, headers, media_type)

    def _read(self, root: str, path: str) -> bytes:
        # A link in its place could lead anywhere: whoever wrote the file may not be whoever may read there.
        with self._service.engine.workspace.open(root) as directory:
            return directory.read(path, limit=FILE_BYTES, follow=False)

    async def _item(self, request: Request) -> tuple[ThreadState, items.Item | None]:
        state = await self._service.state(ThreadId(request.path_params["id"]))
        return state, state.item(ItemId(request.path_params["tool"]))


def _pictures(item: items.Item | None) -> tuple[items.Picture, ...]:
    match item:
        case (
            items.CommandExecution(result=result)
            | items.FileChange(result=result)
            | items.McpToolCall(result=result)
            | items.WebSearch(result=result)
            | items.Plan(result=result)
            | items.ToolCall(result=result)
            | items.Artifact(result=result)
        ):
            return result.pictures if result is not None else ()
        case _:
            return ()


def _beneath(state: ThreadState, path: str) -> tuple[str, str]:
    """The directory of the thread that the file is in, and the rest of its path. Raises `HttpRefusal`."""
    sandbox = state.settings.sandbox
    roots = (state.settings.cwd, *(sandbox.writable_roots if isinstance(sandbox, WorkspaceWrite) else ()))
    for root in roots:
        inside = root.rstrip("/") + "/"
        if path.startswith(inside) and ".." not in path.split("/"):
            return root, path[len(inside) :]
    raise HttpRefusal(404, "the file is outside of the thread's directory", "Other")


def _media_type(item: items.Artifact, data: bytes) -> str:
    """By the bytes for a picture, by its name for a text. A page or a drawing that could run scripts is text, too."""
    if (found := shape(data)) is not None:
        return found.media_type
    declared = item.media_type
    is_text = declared.startswith("text/") or declared in TEXT_TYPES or declared.endswith(("+xml", "+json"))
    return "text/plain; charset=utf-8" if is_text and b"\0" not in data else "application/octet-stream"
