"""The static files of the web page, compressed where possible, with their Content-Security-Policy.

A file may lie there compressed as well (`index.js.br`, `index.js.gz`): a client that takes one of these gets it.
"""

import hashlib
import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from hames.codecs.jsontext import clipped
from hames.domain.errors import StorageFailed
from hames.domain.value import Value
from hames.server.api.sign_in import has_signed_in, is_preview, set_cookie
from hames.server.guard.proxies import BEHIND_PROXY
from hames.server.http.compression import best_encoding, etag_matches
from hames.server.http.reply import ALWAYS, failure
from hames.server.http.routes import METHODS
from hames.server.service import Service

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {**ALWAYS, "Content-Security-Policy": POLICY, "Cross-Origin-Opener-Policy": "same-origin"}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
}
SUFFIXES = {"br": ".br", "gzip": ".gz"}
"""What may lie beside a file, best first."""
NOT_BUILT = "The web page is not included in this installation; the protocols are. See /openapi.json.\n"
USED = "This link was already used, or has expired. Get a new one on a device that is signed in.\n"

_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})\Z")


class File(Value):
    path: Path
    encodings: tuple[str, ...]


class Page:
    """Only what lies in the directory when the server starts is served: a name is looked up, never walked."""

    def __init__(self, service: Service) -> None:
        self._service = service
        root = service.extras.page
        self._files: dict[str, File] = {}
        if root is not None and root.is_dir():
            found = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
            names = {str(path) for path in found}
            self._files = {
                path.relative_to(root).as_posix(): File(
                    path=path, encodings=tuple(name for name, end in SUFFIXES.items() if f"{path}{end}" in names)
                )
                for path in found
                if path.suffix in TYPES
            }

    def routes(self) -> list[Route]:
        return [
            Route("/", self.index, methods=["GET"]),
            Route("/t/{id}", self.thread, methods=["GET"]),
            Route("/{name:path}", self.file, methods=METHODS),
        ]

    async def index(self, request: Request) -> Response:
        if (word := request.query_params.get("token")) is not None and not is_preview(request):
            return await self._signed_in(word, request, "index.html")
        return self._index(request, "index.html")

    async def thread(self, request: Request) -> Response:
        """One level below the rest: a proxy may have put a path in front, so the files are named from here."""
        if (word := request.query_params.get("token")) is None or is_preview(request):
            return self._index(request, "t/index.html")
        if request.scope.get(BEHIND_PROXY):  # so that the cookie is for the whole page
            return RedirectResponse(f"../?{request.url.query}", 303, HEADERS)
        return await self._signed_in(word, request, "t/index.html")

    async def file(self, request: Request) -> Response:
        name = request.path_params["name"]
        found = self._files.get(name) if request.method in ("GET", "HEAD") else None
        if found is None:
            return failure(404, f"no such path: {request.method} /{clipped(name)}", path=request.url.path)
        hashed = name.startswith("assets/")
        return _sent(found, request, "public, max-age=31536000, immutable" if hashed else "no-cache")

    def _index(self, request: Request, name: str) -> Response:
        page = self._files.get(name) or self._files.get("index.html")
        if page is None:
            return Response(NOT_BUILT, 404, HEADERS, "text/plain; charset=utf-8")
        return _sent(page, request, "no-cache")

    async def _signed_in(self, word: str, request: Request, name: str) -> Response:
        """The word leaves the address before anything of the page is loaded."""
        keyring = self._service.keyring
        answer = RedirectResponse("./" if request.scope.get(BEHIND_PROXY) else "/", 303, HEADERS)
        if keyring is None or has_signed_in(request, self._service, keyring):
            return answer
        try:
            cookie = await keyring.use_link(word)
        except StorageFailed as problem:
            return failure(503, str(problem))
        if cookie is not None:
            set_cookie(answer, self._service, cookie, request)
            return answer
        page = self._files.get(name) or self._files.get("index.html")
        headers = {**HEADERS, "Cache-Control": "no-store"}
        if page is None:
            return Response(USED, 401, headers, "text/plain; charset=utf-8")
        # The page itself: it says that the link is used, and takes a code instead.
        return Response(page.path.read_bytes(), 401, headers, TYPES[".html"])


def _sent(file: File, request: Request, cache: str) -> Response:
    """The whole file in the encoding that the client likes best, or a part of it as it is."""
    media = TYPES[file.path.suffix]
    asked_range = request.headers.get("range")
    encoding = "" if asked_range else best_encoding(request.headers.get("accept-encoding"), file.encodings)
    path = file.path.with_name(file.path.name + SUFFIXES[encoding]) if encoding else file.path
    body = path.read_bytes()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {**HEADERS, "Cache-Control": cache, "Vary": "Accept-Encoding", "ETag": etag, "Accept-Ranges": "bytes"}
    if encoding:
        headers["Content-Encoding"] = encoding
    if etag_matches(request.headers.get("if-none-match"), etag):
        return Response(b"", 304, headers)
    if asked_range and request.headers.get("if-range", etag) == etag:
        return _part(asked_range, body, headers, media)
    return Response(body, 200, headers, media)


def _part(asked: str, body: bytes, headers: dict[str, str], media: str) -> Response:
    """One range of bytes. Several at once, or what is no range, is answered with everything, as HTTP allows."""
    match = _RANGE.match(asked.replace(" ", ""))
    first, last = match.groups() if match else ("", "")
    if not first and not last:
        return Response(body, 200, headers, media)
    size = len(body)
    start = int(first) if first else max(0, size - int(last))
    end = min(int(last), size - 1) if first and last else size - 1
    if first and last and int(last) < int(first):
        return Response(body, 200, headers, media)
    if start >= size or (not first and int(last) == 0):
        return Response(b"", 416, {**headers, "Content-Range": f"bytes */{size}"}, media)
    return Response(body[start : end + 1], 206, {**headers, "Content-Range": f"bytes {start}-{end}/{size}"}, media)
