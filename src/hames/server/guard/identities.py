"""Who is at the other end: the owner, somebody with a named token, or the account that this server runs as.

What a role allows is decided later, for each command (`stdio/principals.py`) and each endpoint (`http/routes.py`).
"""

import contextlib
import logging
from collections.abc import Callable, Generator

from hames.domain.actors import Actor
from hames.domain.roles import Access
from hames.domain.tokens import NamedToken
from hames.ports import Clock
from hames.server.guard.gate import Gate, Head, bearer_of, cookie_of
from hames.server.guard.named_tokens import OWNER, PREFIX, KnownTokens
from hames.server.guard.token import Keyring
from hames.stdio.principals import Principal, local_user

log = logging.getLogger(__name__)

PRINCIPAL = "hames.principal"
"""Where an ASGI scope carries who asks."""
LOOK_SECONDS = 1.0


class Identities:
    def __init__(self, gate: Gate, keyring: Keyring | None, tokens: KnownTokens | None, clock: Clock) -> None:
        """`keyring` None: no token is asked for, and the kernel says who may connect."""
        self._gate = gate
        self._keyring = keyring
        self._tokens = tokens
        self._clock = clock
        self._connected: dict[Principal, list[Callable[[], None]]] = {}

    async def learn(self, asked: Head) -> None:
        """Before `principal`: looks for tokens that other servers made since."""
        if self._tokens is not None:
            await self._tokens.learn(bearer_of(asked), cookie_of(asked, self._gate))

    def principal(self, asked: Head, via: str) -> Principal | None:
        """None: what was presented is not (or no longer) valid."""
        bearer = bearer_of(asked)
        if bearer:
            return self.bearer(bearer, via)
        cookie = cookie_of(asked, self._gate)
        if self._keyring is None:
            return Principal(local_user(via))
        if self._keyring.is_owner_cookie(cookie):
            return _owner(via)
        found = self._keyring.named_by_cookie(cookie)
        return self._named(found, via) if found is not None else None

    def bearer(self, token: str, via: str) -> Principal | None:
        if self._keyring is not None and self._keyring.is_owner(token):
            return _owner(via)
        if self._tokens is not None and (found := self._tokens.find(token)) is not None:
            return self._named(found, via)
        return Principal(local_user(via)) if self._keyring is None and not token.startswith(PREFIX) else None

    def _named(self, token: NamedToken, via: str) -> Principal:
        tokens = self._tokens
        access = Access(actor=Actor(kind="token", name=token.name, via=via), role=token.role)
        return Principal(access, is_valid=lambda: tokens is not None and tokens.find_hash(token.sha256) == token)

    @contextlib.contextmanager
    def connected(self, principal: Principal, drop: Callable[[], None]) -> Generator[None]:
        """For as long as a connection lasts. `drop` ends it when the token is no longer valid."""
        drops = self._connected.setdefault(principal, [])
        drops.append(drop)
        try:
            yield
        finally:
            drops.remove(drop)
            if not drops:
                self._connected.pop(principal, None)

    async def end_invalid(self) -> None:
        """Ends the connections of tokens that were revoked or have expired. Never returns."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            for principal in [one for one in self._connected if not one.is_valid()]:
                log.info("token.invalid", extra={"token": principal.access.actor.name})
                for drop in list(self._connected.get(principal, ())):
                    drop()


def _owner(via: str) -> Principal:
    return Principal(Access(actor=Actor(kind="token", name=OWNER, via=via)))


def arrived_by(asked: Head) -> str:
    """How a request came in, for the log: a page says where it is from, other programs do not."""
    if asked.has("origin") or asked.one("sec-fetch-site") == "same-origin":
        return "page"
    if asked.kind == "websocket":
        return {"/ws": "sync", "/": "flint"}.get(asked.path, asked.path.strip("/"))
    return "http"
