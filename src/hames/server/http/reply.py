"""Requests and answers as our endpoints see them: JSON in, JSON out, one shape for every failure."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from hames.codecs.jsontext import Repeated, Unreadable, encode, parse, torn, whole
from hames.domain.errors import HarnessError
from hames.domain.json import Json
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


class Refused(Exception):
    """The request cannot be served, for a reason that is HTTP's own."""

    def __init__(self, code: int, message: str, info: str = "BadRequest") -> None:
        super().__init__(message)
        self.code = code
        self.info = info


def reply(value: Json, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode(value), code, {**ALWAYS, **(headers or {})}, "application/json")


def failure(code: int, message: str, info: str = "Other") -> Response:
    return reply(Failure(error=Problem(message=message, info=info)), code)


def explained(error: HarnessError) -> Response:
    return failure(status(error), str(error), error.info)


async def read_body(request: Request, limit: int = BODY_BYTES) -> bytes:
    """Raises `Refused` as soon as there is too much of it."""
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise Refused(413, f"the body may have at most {limit} bytes")
            chunks.append(chunk)
    except ClientDisconnect:
        raise Refused(400, "the body ended early") from None
    return b"".join(chunks)


async def read_json(request: Request, kind: type[Body]) -> Body:
    """The body as a value. An empty one is an empty object. Raises `Refused`."""
    data = await read_body(request)
    try:
        value = parse(data or b"{}")
        return msgspec.convert(whole(value) if torn(data) else value, kind)
    except (Unreadable, Repeated, msgspec.ValidationError) as why:
        raise Refused(400, f"the body: {why}") from None


def number(text: str | None, default: int, *, least: int, most: int, name: str) -> int:
    """Raises `Refused` for what is no number of that size."""
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16 and least <= int(text) <= most):
        raise Refused(400, f"{name} must be a number from {least} to {most}")
    return int(text)
