"""A WebSocket as an endpoint sees it: messages in, frames out, a code at the end."""

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from hames.server.guard.gate import head, subprotocols
from hames.server.guard.token import SUBPROTOCOL
from hames.server.slow_clients import Writer
from hames.server.websocket.protocol import SOCKET

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

RESTARTS, BROKEN = 1012, 1011
NOT_TEXT = b"\xff"
"""Stands for a binary message: no text has these bytes."""


class Socket:
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self.writer: Writer = scope["extensions"][SOCKET]

    async def accept(self) -> None:
        message = await self._receive()
        assert message["type"] == "websocket.connect"
        offered = subprotocols(head("websocket", "GET", "", self._scope["headers"]))
        chosen = SUBPROTOCOL if SUBPROTOCOL in offered else None
        await self._send({"type": "websocket.accept", "subprotocol": chosen})

    async def messages(self) -> AsyncIterator[bytes]:
        """Ends with the connection."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            yield text.encode() if text is not None else NOT_TEXT

    def close(self, code: int, why: str) -> None:
        self.writer.drop(code, why)
