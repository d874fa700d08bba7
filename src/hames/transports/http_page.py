"""The page: files that were built once, under a policy that lets them run and nothing else."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from hames.transports.guard import cookie_name
from hames.transports.http_reply import ALWAYS, failure
from hames.transports.server_service import Service

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {**ALWAYS, "Content-Security-Policy": POLICY, "Cross-Origin-Opener-Policy": "same-origin"}
COOKIE_SECONDS = 30 * 24 * 3600
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
NOT_BUILT = "The page is not part of this installation. The protocols are: see /openapi.json.\n"


class Page:
    """Only what lies in the directory when the server starts is served: a name is looked up, never walked."""

    def __init__(self, service: Service) -> None:
        self._service = service
        root = service.page
        self._files: dict[str, Path] = {}
        if root is not None and root.is_dir():
            self._files = {
                path.relative_to(root).as_posix(): path
                for path in root.rglob("*")
                if path.is_file() and not path.is_symlink() and path.suffix in TYPES
            }

    def routes(self) -> list[Route]:
        return [
            Route("/", self.index, methods=["GET"]),
            Route("/t/{id}", self.index, methods=["GET"]),
            Route("/{name:path}", self.file, methods=["GET"]),
        ]

    async def index(self, request: Request) -> Response:
        if (word := request.query_params.get("token")) is not None:
            return self._signed_in(word, secure=request.url.scheme == "https")
        page = self._files.get("index.html")
        if page is None:
            return Response(NOT_BUILT, 404, HEADERS, "text/plain; charset=utf-8")
        return self._sent(page, "no-cache")

    async def file(self, request: Request) -> Response:
        name = request.path_params["name"]
        found = self._files.get(name)
        if found is None:
            return failure(404, "no such path")
        hashed = name.startswith("assets/")
        return self._sent(found, "public, max-age=31536000, immutable" if hashed else "no-cache")

    def _sent(self, path: Path, cache: str) -> Response:
        media = TYPES[path.suffix]
        return Response(path.read_bytes(), 200, {**HEADERS, "Cache-Control": cache}, media)

    def _signed_in(self, word: str, *, secure: bool) -> Response:
        """The word leaves the address before anything of the page is loaded."""
        keyring = self._service.keyring
        if keyring is not None and not keyring.take_link(word):
            return failure(401, "this link was used already, or is too old; ask for a new one", "Unauthorized")
        answer = RedirectResponse("/", 303, HEADERS)
        if keyring is not None:
            answer.set_cookie(
                cookie_name(self._service.gate),
                keyring.cookie,
                max_age=COOKIE_SECONDS,
                httponly=True,
                secure=secure,
                samesite="strict",
            )
        return answer
