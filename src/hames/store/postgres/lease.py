"""This process as a node: it may write threads for as long as its lease lasts."""

import asyncio
import logging
import os
import secrets
import socket
from typing import Final

from hames.domain.errors import HarnessError
from hames.store.postgres.pool import Connections

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 3.0

REGISTER: Final = """
insert into hames.node (id, name, until) values ($1, $2, now() + make_interval(secs => $3))
on conflict (id) do update set until = excluded.until
"""
RENEW: Final = "update hames.node set until = now() + make_interval(secs => $2) where id = $1"
LEAVE: Final = "delete from hames.node where id = $1"


def take(taker: str) -> str:
    """Columns of a statement that takes a thread `t` for the node with this parameter, and counts its owner as dead.

    An owner that had not yet gone on with the turn did not die of it: until its first fact is kept, `wake_at` is
    `infinity` (`store/postgres/writer.py`). A thread without an owner was given back: nobody died.
    """
    dies = f"t.running and t.owner is not null and t.owner <> {taker} and t.wake_at is distinct from 'infinity'"
    return (
        f"owner = {taker}, epoch = t.epoch + 1, wake_at = 'infinity',"
        f" deaths = t.deaths + case when {dies} then 1 else 0 end"
    )


def is_live(node: str) -> str:
    """For a statement: whether the lease of the node with this parameter lasts. A node that stood still and goes on
    must not take threads before it has renewed: others would take them away again at once."""
    return f"exists (select from hames.node n where n.id = {node} and n.until > now())"


class Lease:
    def __init__(
        self, connections: Connections, *, name: str = "", seconds: float = LEASE_SECONDS, renew: float = RENEW_SECONDS
    ) -> None:
        self.node_id = f"{socket.gethostname()[:40]}-{os.getpid()}-{secrets.token_hex(4)}"
        self.name = name or self.node_id
        self.seconds = seconds
        self.renew_seconds = renew
        self.managed = False
        """Somebody else registers this node and renews its lease (`store/postgres/nodes.py`)."""
        self.renewed_at = 0.0
        """By the clock of the loop."""
        self._connections = connections
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Registers this node, once."""
        if self._task is None and not self.managed:
            await self._connections.execute(REGISTER, self.node_id, self.name, self.seconds)
            self.renewed_at = asyncio.get_running_loop().time()
            self._task = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self.renew_seconds)
            try:
                await self._connections.execute(RENEW, self.node_id, self.seconds)
                self.renewed_at = asyncio.get_running_loop().time()
            except HarnessError as problem:
                log.warning("lease.not_renewed", extra={"error": str(problem)})
            except Exception:
                log.exception("lease.not_renewed")

    async def leave(self, patience: float) -> None:
        """Whatever this node still owns can be taken over at once. Raises `StorageFailed`."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self._connections.execute(LEAVE, self.node_id, patience=patience)
