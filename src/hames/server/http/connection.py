"""HTTP connections with limits on uvicorn's parser: ambiguous, oversized and slow requests, and too many clients.

uvicorn's parser lets through a second `Host`, an absolute address, trailers and a head of any size, and waits for
ever for one that trickles. All of that ends here, before any request exists: with 400, and the connection closed.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hames.server.guard.peer import Address

log = logging.getLogger(__name__)

CONNECTION = "hames.connection"
"""Where an ASGI scope carries its connection."""

HEAD_BYTES = 32 * 1024
HEAD_SECONDS = 5.0
BODY_SECONDS = 60.0
LINGER_SECONDS = 1.0
SILENT_CONNECTIONS = 64
SILENT_SECONDS = 1.0
CONNECTIONS = 4096
ONCE = frozenset({b"host", b"origin", b"content-type", b"content-length", b"transfer-encoding", b"authorization"})
"""Two of these, and two readers could see two different requests."""


class Doors:
    """Open connections, those that have not sent a request yet, and how many were accepted so far."""

    def __init__(self, refusal: Callable[[Address, Address], str] | None) -> None:
        """`refusal(here, there)`: why the process at the other end may not come in, or nothing. None: nobody asks."""
        self.refusal = refusal
        self.silent: dict[GuardedProtocol, float] = {}
        """Since when each has said nothing whole, oldest first."""
        self.refused = 0
        self.accepted = 0

    def knock(self, protocol: "GuardedProtocol", now: float) -> None:
        """A connection that has not said anything whole yet. When too many do that for too long, the oldest goes.

        Many at once are no attack: after a restart everybody comes back in the same moment.
        """
        self.accepted += 1
        self.silent[protocol] = now
        oldest, since = next(iter(self.silent.items()))
        full = len(protocol.connections) > CONNECTIONS
        if full or (len(self.silent) > SILENT_CONNECTIONS and now - since >= SILENT_SECONDS):
            self.refused += 1
            oldest.give_up("too many connections wait for their first request")

    def enter(self, protocol: "GuardedProtocol") -> None:
        self.silent.pop(protocol, None)


class GuardedProtocol(HttpToolsProtocol):
    """One connection. `doors` is set on the subclass that a server makes for itself."""

    doors: Doors
    ws_protocol_class: Any
    _timer: Any = None
    _head_bytes = 0
    _in_head = True
    _given_up = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        if not here or not there:  # it has gone before we looked
            transport.abort()
        elif self.doors.refusal is not None and (why := self.doors.refusal(here[:2], there[:2])):
            log.warning("peer.refused", extra={"peer": there[1], "why": why})
            self._refuse(403, why)
        else:
            self.doors.knock(self, self.loop.time())
            self._wait(HEAD_SECONDS, "the request did not arrive in time")

    def connection_lost(self, exc: Exception | None) -> None:
        self.doors.enter(self)
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._given_up:
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES and not self._given_up:
            self.give_up(f"a request's head has at most {HEAD_BYTES} bytes")

    def give_up(self, why: str) -> None:
        """An answer if one can still be given, and the end of the connection."""
        self._refuse(400, why)

    def send_400_response(self, msg: str) -> None:
        self.give_up(msg)

    # What the parser reports. An exception from here becomes a 400.

    def on_message_begin(self) -> None:
        self._in_head = True
        if self._timer is None:
            self._wait(HEAD_SECONDS, "the request did not arrive in time")
        super().on_message_begin()
        scope: Any = self.scope
        scope[CONNECTION] = self

    def abort(self) -> None:
        """At once, whatever is unsent: for a client that reads nothing."""
        self.transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            raise HttpParserError("trailers are not supported")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._check_head()
        self._in_head = False
        self._stop_waiting()
        self.doors.enter(self)
        if self._has_body():
            self._wait(BODY_SECONDS, "the request's body did not arrive in time")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        self._stop_waiting()
        super().on_message_complete()

    def _check_head(self) -> None:
        names = [name for name, _ in self.headers]
        if any(names.count(name) > 1 for name in ONCE):
            raise HttpParserError("a header that may be sent only once was sent twice")
        version = self.parser.get_http_version() if self.parser is not None else ""
        if b"host" not in names or version not in ("1.0", "1.1"):
            raise HttpParserError("HTTP/1.1 and a Host are needed")
        if not self.url.startswith(b"/") or self.url.startswith(b"//") or b"#" in self.url:
            raise HttpParserError("the address must be a path")
        if dict(self.headers).get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            raise HttpParserError("the only transfer encoding is chunked")
        size = sum(len(name) + len(value) + 4 for name, value in self.headers) + len(self.url)
        if size > HEAD_BYTES:
            raise HttpParserError("the head is too long")

    def _has_body(self) -> bool:
        headers = dict(self.headers)
        return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"

    def _wait(self, seconds: float, why: str) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self.give_up, why)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, why: str) -> None:
        self._given_up = True
        self.doors.enter(self)
        self._stop_waiting()
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_started:
            cycle.disconnected = True  # whoever works on it hears that nobody waits
            cycle.message_event.set()
        if cycle is None or cycle.response_complete or not cycle.response_started:
            body = why.encode()
            words = {400: b"Bad Request", 403: b"Forbidden"}[status]
            # Closed at once, a client that still sends would be reset, and might not read why.
            self.loop.call_later(LINGER_SECONDS, self.transport.abort)
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%s" % (status, words, len(body), body)
            )
            if self.transport.can_write_eof():  # TLS cannot
                with contextlib.suppress(OSError):  # who has closed already does not need to be told
                    self.transport.write_eof()
        else:
            self.transport.close()


def guarded(doors: Doors) -> type[GuardedProtocol]:
    """The protocol of one server."""
    return type("Guarded", (GuardedProtocol,), {"doors": doors})
