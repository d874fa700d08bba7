"""Requests and answers as our endpoints see them: JSON in, JSON out, one shape for every failure."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from hames.codecs.jsontext import encode
from hames.domain.errors import HarnessError
from hames.domain.json import Json
from hames.protocols.body import decode_body
from hames.protocols.sse.errors import Failure, Problem, status

BODY_BYTES = 1 << 20
ALWAYS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Body = TypeVar("Body")
Handler = Callable[[Request], Awaitable[Response]]


class HttpRefusal(Exception):
    """The request cannot be served, for a reason that is HTTP's own."""

    def __init__(self, code: int, message: str, info: str = "BadRequest") -> None:
        super().__init__(message)
        self.code = code
        self.info = info


def reply(value: Json, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode(value), code, {**ALWAYS, **(headers or {})}, "application/json")


def failure(code: int, message: str, info: str = "Other") -> Response:
    return reply(Failure(error=Problem(message=message, info=info)), code)


def error_reply(error: HarnessError) -> Response:
    return failure(status(error), str(error), error.info)


async def read_body(request: Request, limit: int = BODY_BYTES) -> bytes:
    """Raises `HttpRefusal` as soon as there is too much of it."""
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise HttpRefusal(413, f"the body may have at most {limit} bytes")
            chunks.append(chunk)
    except ClientDisconnect:
        raise HttpRefusal(400, "the body ended early") from None
    return b"".join(chunks)


async def read_json(request: Request, kind: type[Body]) -> Body:
    """The body as a value. Raises `HttpRefusal` or `InvalidCommand`."""
    return decode_body(await read_body(request), kind)
