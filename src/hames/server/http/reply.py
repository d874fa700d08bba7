"""Answers of our endpoints: JSON, and one shape for every failure."""

from collections.abc import Awaitable, Callable, Mapping

from anyio.abc import TaskGroup
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from hames.codecs.jsontext import encode
from hames.domain.errors import HarnessError
from hames.domain.json import Json
from hames.protocols.sse.errors import status
from hames.server.guard.failures import failure_body

ALWAYS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

EVENT_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
    *((name.lower().encode(), value.encode()) for name, value in ALWAYS.items()),
]

Handler = Callable[[Request], Awaitable[Response]]


class HttpRefusal(Exception):
    """The request cannot be served, for a reason that is HTTP's own."""

    def __init__(self, code: int, message: str, info: str = "BadRequest") -> None:
        super().__init__(message)
        self.code = code
        self.info = info


def reply(value: Json, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode(value), code, {**ALWAYS, **(headers or {})}, "application/json")


def failure(code: int, message: str, info: str = "Other", *, path: str = "") -> Response:
    return reply(failure_body(path, code, message, info), code)


def error_reply(error: HarnessError, *, path: str = "") -> Response:
    return failure(status(error), str(error), error.info, path=path)


async def until_gone(receive: Receive, tasks: TaskGroup) -> None:
    """Cancels the tasks of a response when its client has closed the request."""
    while (await receive())["type"] != "http.disconnect":
        pass
    tasks.cancel_scope.cancel()
