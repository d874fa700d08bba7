"""Reading the body of a request, within a limit."""

from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from hames.protocols.body import decode_body
from hames.server.guard.middleware import BODY_BYTES
from hames.server.http.reply import HttpRefusal

Body = TypeVar("Body")


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
