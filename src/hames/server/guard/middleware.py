"""The guard as ASGI middleware: in front of every endpoint, for every request and every WebSocket."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from hames.codecs.jsontext import encode
from hames.observe.metrics import Metrics
from hames.server.guard.failures import failure_body
from hames.server.guard.gate import (
    ACP,
    AGUI,
    CHANGING,
    MCP,
    SIGN_IN,
    UPLOADS,
    V1,
    Gate,
    GuardRefusal,
    Head,
    head,
    is_open,
    is_preflight,
    judge,
)
from hames.server.guard.identities import PRINCIPAL, Identities, arrived_by
from hames.server.guard.proxies import Network, apply_forwarded
from hames.server.guard.rate_limit import Bucket
from hames.server.guard.token import SUBPROTOCOL, Keyring
from hames.stdio.principals import Principal

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_BYTES = 1 << 20
UPLOAD_BYTES = 10 << 20
SIGN_IN_BYTES = 1 << 10
RUN_BYTES = 32 << 20
"""What a runner is sent: the images of a prompt and the history of a thread come in one body."""
ACP_BYTES = 16 << 20
"""A prompt has its images in it."""
LIMITS = {
    UPLOADS: UPLOAD_BYTES,
    SIGN_IN: SIGN_IN_BYTES,
    "/runs": RUN_BYTES,
    "/steer": RUN_BYTES,
    ACP: ACP_BYTES,
    MCP: ACP_BYTES,
    AGUI: RUN_BYTES,
    f"{V1}/chat/completions": RUN_BYTES,
    f"{V1}/responses": RUN_BYTES,
}
ALLOWED_HEADERS = (
    b"authorization, content-type, last-event-id, if-none-match, acp-connection-id, acp-session-id"
    b", mcp-session-id, mcp-protocol-version, mcp-method, mcp-name"
)
RATE_PER_SECOND = 50.0
BURST = 200.0


class Guard:
    def __init__(
        self,
        app: App,
        *,
        gate: Gate,
        keyring: Keyring | None,
        identities: Identities,
        metrics: Metrics,
        bucket: Bucket,
        drop: Callable[[Scope], None],
        proxies: tuple[Network, ...] = (),
    ) -> None:
        """`drop` ends a connection whose token is no longer valid."""
        self._app = app
        self._gate = gate
        self._keyring = keyring
        self._identities = identities
        self._metrics = metrics
        self._bucket = bucket
        self._proxies = proxies
        self._drop = drop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        apply_forwarded(scope, self._proxies)
        asked = head(scope["type"], scope.get("method", "GET"), scope["path"], scope["headers"])
        await self._identities.learn(asked)
        principal = self._identities.principal(asked, arrived_by(asked))
        refusal = judge(asked, self._gate, self._keyring) or _token_refusal(asked, principal)
        refusal = refusal or self._limit_refusal(asked)
        if refusal is not None:
            self._metrics.count("hames_refused_total", status=str(refusal.status))
            log.info("request.refused", extra={"path": asked.path, "status": refusal.status, "why": refusal.message})
            await _refuse(asked, refusal, receive, send)
        elif is_preflight(asked, self._gate):
            await send({"type": "http.response.start", "status": 204, "headers": self._cors_headers(asked)})
            await send({"type": "http.response.body", "body": b""})
        else:
            if scope["type"] == "http":
                send = self._counting_send(asked, send)
            if principal is None:  # the page and its files, which anybody may have
                await self._app(scope, receive, send)
                return
            scope[PRINCIPAL] = principal
            with self._identities.connected(principal, partial(self._drop, scope)):
                await self._app(scope, receive, send)

    def _limit_refusal(self, asked: Head) -> GuardRefusal | None:
        if asked.kind == "websocket" or asked.method not in CHANGING:
            return None
        limit = LIMITS.get(asked.path, BODY_BYTES)
        length = asked.one("content-length") or "0"
        if len(length) > 15 or int(length) > limit:
            return GuardRefusal(status=413, message=f"the body may have at most {limit} bytes here")
        # Anybody may try to sign in, and has a limit of their own: strangers must not use up what those inside may do.
        if asked.path != SIGN_IN and not self._bucket.take():
            return GuardRefusal(status=429, message="too many requests at once; try again in a moment")
        return None

    def _counting_send(self, asked: Head, send: Send) -> Send:
        async def counting(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._metrics.count("hames_http_requests_total", status=str(message["status"]))
                if asked.one("origin") in self._gate.origins:
                    message["headers"] = [*message.get("headers", ()), *self._cors_headers(asked)]
            await send(message)

        return counting

    def _cors_headers(self, asked: Head) -> list[tuple[bytes, bytes]]:
        """What a browser wants to see before it lets an allowed page have the answer."""
        return [
            (b"access-control-allow-origin", (asked.one("origin") or "").encode("latin-1")),
            (b"access-control-allow-credentials", b"true"),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", ALLOWED_HEADERS),
            (b"access-control-expose-headers", b"acp-connection-id, mcp-session-id"),
            (b"vary", b"Origin"),
        ]


def _token_refusal(asked: Head, principal: Principal | None) -> GuardRefusal | None:
    """Where no token is needed, one that is not valid is refused all the same."""
    if principal is not None or is_open(asked):
        return None
    return GuardRefusal(status=401, message="the token is not valid: it was revoked, or has expired", close=4401)


async def _refuse(asked: Head, refusal: GuardRefusal, receive: Receive, send: Send) -> None:
    if asked.kind == "websocket":
        await receive()
        if refusal.close:  # a page can see a close code, and no status
            offered = asked.headers.get("sec-websocket-protocol", ())
            chosen = SUBPROTOCOL if any(SUBPROTOCOL in line for line in offered) else None
            await send({"type": "websocket.accept", "subprotocol": chosen})
            await send({"type": "websocket.close", "code": refusal.close, "reason": refusal.message})
            return
    kind = "websocket.http.response" if asked.kind == "websocket" else "http.response"
    info = _INFO.get(refusal.status, "BadRequest")
    body = encode(failure_body(asked.path, refusal.status, refusal.message, info))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status == 429:
        headers.append((b"retry-after", b"1"))
    await send({"type": f"{kind}.start", "status": refusal.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


_INFO = {401: "Unauthorized", 429: "UsageLimitExceeded"}
