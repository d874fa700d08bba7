"""Our end of a WebSocket: uvicorn's, with bounds on what a client may do and a quick way out.

A frame from a server is not masked, so the same bytes serve every client: `write` sends a frame that was built once
and returns at once. Whoever writes looks at `paused` first and keeps the rest until `on_room` is called.
"""

import logging
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from hames.server.slow_clients import Payload

log = logging.getLogger(__name__)

SOCKET = "hames.socket"
"""Where an ASGI scope carries its `Writer`."""

FRAGMENTS = 1024
CONTROL_FRAMES = 100
CONTROL_SECONDS = 10.0
LINGER_SECONDS = 2.0


class GuardedSocket(WebSocketsSansIOProtocol):
    on_room: Callable[[], None] | None = None
    paused = False
    framed = True
    _fragments = 0
    _control_since = 0.0
    _control = 0
    _lingering = False

    # The quick way out

    @property
    def gone(self) -> bool:
        return self.disconnected or self.close_sent or self.transport.is_closing()

    def write(self, payload: Payload) -> None:
        if self.close_sent or self.transport.is_closing():
            return
        if self.conn.extensions:  # compression is a conversation of its own with each client
            self.conn.send_text(payload.data)
            self.transport.write(b"".join(self.conn.data_to_send()))
        else:
            self.transport.write(payload.frame)

    @property
    def unsent(self) -> int:
        return self.transport.get_write_buffer_size()

    def drop(self, code: int, why: str) -> None:
        if self.gone:
            return
        self.conn.send_close(code, why)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": why})
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.paused = True

    def resume_writing(self) -> None:
        super().resume_writing()
        self.paused = False
        if self.on_room is not None:
            self.on_room()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.paused = False
        if self.on_room is not None:
            self.on_room()

    # Bounds

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)
        if scope is not None:
            scope["extensions"][SOCKET] = self

    def data_received(self, data: bytes) -> None:
        if not self._lingering:
            super().data_received(data)

    def handle_events(self) -> None:
        for event in self.conn.events_received():
            if self._lingering:
                return
            self._handle(event)

    def _handle(self, event: Any) -> None:
        """One event, as uvicorn would take it, if it may be."""
        if isinstance(event, Frame):
            name = event.opcode.name
            if name == "CONT":
                self._fragments += 1
                if self._fragments > FRAGMENTS:
                    return self._fail(1009, f"a message has at most {FRAGMENTS} fragments")
            elif name in ("TEXT", "BINARY"):
                self._fragments = 0
            elif name in ("PING", "PONG") and self._is_flooding():
                return self._fail(1008, "too many pings")
            handle: Any = {
                "CONT": self.handle_cont,
                "TEXT": self.handle_text,
                "BINARY": self.handle_bytes,
                "PING": self._handle_ping,
                "PONG": self.handle_pong,
                "CLOSE": self.handle_close,
            }[name]
            return handle(event)
        if isinstance(event, Request):
            return self.handle_connect(event)
        return None

    def _handle_ping(self, _: Frame) -> None:
        self.handle_ping()

    def _is_flooding(self) -> bool:
        now = self.loop.time()
        if now - self._control_since > CONTROL_SECONDS:
            self._control_since, self._control = now, 0
        self._control += 1
        return self._control > CONTROL_FRAMES

    def _fail(self, code: int, why: str) -> None:
        self.conn.fail(code, why)
        self.handle_parser_exception()

    def handle_parser_exception(self) -> None:
        """Says why, and keeps the line open for a moment: closed at once, a client that still sends would not hear."""
        assert self.conn.close_sent is not None
        code, reason = self.conn.close_sent.code, self.conn.close_sent.reason
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self._lingering = True
        self.frames = []
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)
