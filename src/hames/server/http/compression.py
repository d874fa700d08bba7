"""Compression over HTTP: which encoding a client takes, and gzip for large answers that are made on the fly.

Files of the page are compressed when they are built (`http_page`). Answers are compressed at the fastest level, off
the event loop when they are large, and only when a client says that it takes gzip.
"""

import gzip
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

import anyio.to_thread

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LEAST_BYTES = 2048
"""Below that the head of an answer weighs more than what is saved."""
THREAD_BYTES = 256 << 10
"""From here on it takes milliseconds, which belong to a worker thread."""
LEVEL = 1
COMPRESSIBLE = (b"application/json", b"text/plain", b"text/markdown", b"text/html")

_QUALITY = re.compile(r"(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\Z")


def best_encoding(header: str | None, offered: Sequence[str]) -> str:
    """One of `offered`, best first; nothing for an answer as it is. A word that makes no sense counts as absent.

    >>> best_encoding("gzip, br;q=0.9", ["br", "gzip"])
    'gzip'
    """
    taken = _qualities(header or "")
    plain = taken.get("identity", 0.0)
    rated = [(taken.get(name, taken.get("*", 0.0)), name) for name in offered]
    quality, name = max(rated, key=lambda pair: pair[0], default=(0.0, ""))
    return name if quality > plain else ""


def _qualities(header: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in header.lower().split(","):
        name, *rest = (word.strip() for word in part.split(";"))
        quality = "1"
        for word in rest:
            key, _, value = word.partition("=")
            quality = value.strip() if key.strip() == "q" else quality
        if name and _QUALITY.match(quality):
            found[name] = float(quality)
    return found


def etag_matches(header: str | None, etag: str) -> bool:
    """Whether `If-None-Match` names this version. A compressed answer carries the same tag, marked as weak."""
    if header is None:
        return False
    named = [word.strip().removeprefix("W/") for word in header.split(",")]
    return named == ["*"] or etag.removeprefix("W/") in named


class Compressing:
    """Around an ASGI app: large answers of one piece go out as gzip."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        accepts = ", ".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"accept-encoding")
        takes = best_encoding(accepts, ("gzip",)) == "gzip" and scope["method"] != "HEAD"
        await self._app(scope, receive, _Answer(send, takes=takes))


class _Answer:
    """Holds the head of an answer back until its body is known to be whole."""

    def __init__(self, send: Send, *, takes: bool) -> None:
        self._send = send
        self._takes = takes
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_compressible(message):
            message["headers"] = [*message["headers"], (b"vary", b"Accept-Encoding")]
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            body = message.get("body", b"")
            if self._takes and not message.get("more_body") and len(body) >= LEAST_BYTES:
                message = {**message, "body": await _gzip(body)}
                start["headers"] = _gzip_headers(start["headers"], len(message["body"]))
            await self._send(start)
        await self._send(message)


def _is_compressible(start: Message) -> bool:
    headers = dict(start.get("headers", ()))
    media = headers.get(b"content-type", b"").partition(b";")[0].strip()
    return media in COMPRESSIBLE and b"content-encoding" not in headers and b"vary" not in headers


def _gzip_headers(headers: Sequence[tuple[bytes, bytes]], length: int) -> list[tuple[bytes, bytes]]:
    kept: list[tuple[bytes, bytes]] = [(b"content-encoding", b"gzip"), (b"content-length", str(length).encode())]
    for name, value in headers:
        if name == b"etag" and not value.startswith(b"W/"):
            kept.append((name, b"W/" + value))
        elif name not in (b"content-length", b"accept-ranges"):
            kept.append((name, value))
    return kept


async def _gzip(body: bytes) -> bytes:
    if len(body) < THREAD_BYTES:
        return gzip.compress(body, LEVEL, mtime=0)
    return await anyio.to_thread.run_sync(lambda: gzip.compress(body, LEVEL, mtime=0))
