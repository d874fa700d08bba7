"""Named tokens of servers that share a store: a token is good at all of them."""

import logging

import anyio

from hames.domain.errors import StorageFailed
from hames.ports import Clock
from hames.ports.server_state import ServerState
from hames.server.guard.named_tokens import PREFIX, KnownTokens
from hames.server.guard.rate_limit import Bucket

log = logging.getLogger(__name__)

LOOKS_PER_SECOND = 10.0
LOOKS_AT_ONCE = 20


class SharedTokens(KnownTokens):
    """Those of the store, as they were a moment ago: a revoked token is refused within a second.

    While the store cannot be reached the tokens that were read last are valid.
    """

    def __init__(self, state: ServerState, clock: Clock) -> None:
        super().__init__(clock)
        self._state = state
        self._changed = anyio.Event()
        self._looks = Bucket(clock, rate=LOOKS_PER_SECOND, burst=LOOKS_AT_ONCE)

    async def load(self) -> None:
        """Raises `StorageFailed`."""
        self._by_hash = {one.sha256: one for one in await self._state.tokens()}

    async def learn(self, token: str, cookie: str) -> None:
        unknown_token = token.startswith(PREFIX) and self.find(token) is None
        name = cookie.rpartition(":")[0]
        if (unknown_token or (name and self.find_name(name) is None)) and self._looks.take():
            await self._try_to_load()

    async def keep_fresh(self) -> None:
        """Never returns."""
        self._state.watch_tokens(self._hear)
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await self._try_to_load()

    async def _try_to_load(self) -> None:
        try:
            await self.load()
        except StorageFailed as problem:
            log.warning("tokens.not_read", extra={"error": str(problem)})

    def _hear(self) -> None:
        self._changed.set()
