"""What database roles may do: workers everything with rows, gateways little.

A gateway reads, sends commands to workers, keeps uploads and sign-in links, and creates threads. It writes only threads
that no worker has had yet (epoch 1): row level security sees to that, so whoever takes over a gateway cannot append to
a log, change or delete one.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from zlib import crc32

from hames.domain.errors import Misconfigured

if TYPE_CHECKING:
    from asyncpg import Connection

NEW_THREAD: Final = "exists (select from hames.thread t where t.id = {column} and t.epoch = 1)"
THREAD_TABLES: Final = {
    "thread": "epoch = 1",
    "ev": NEW_THREAD.format(column="thread"),
    "live": NEW_THREAD.format(column="thread"),
    "words": NEW_THREAD.format(column="thread"),
    "listed": NEW_THREAD.format(column="id"),
    "blob": "thread is null",
}
"""The tables of threads, and the rows that a gateway may write."""

GATEWAY_GRANTS: Final = (
    "grant usage on schema hames to {role}",
    "grant select on all tables in schema hames to {role}",
    "grant insert, update, delete on hames.inbox, hames.presence, hames.node, hames.link to {role}",
    "grant insert, delete on hames.ev, hames.live, hames.words, hames.blob to {role}",
    "grant insert, update, delete on hames.thread, hames.listed to {role}",
)
WORKER_GRANTS: Final = (
    "grant usage on schema hames to {role}",
    "grant select, insert, update, delete on all tables in schema hames to {role}",
)


async def grant(connection: "Connection", role: str, *, works: bool) -> None:
    """Raises `Misconfigured` if there is no such role."""
    if not await connection.fetchval("select count(*) from pg_roles where rolname = $1", role):
        raise Misconfigured(f"there is no role {role!r} in this database")
    quoted = await connection.fetchval("select quote_ident($1)", role)
    async with connection.transaction():
        for statement in WORKER_GRANTS if works else (*GATEWAY_GRANTS, *_policies(role)):
            await connection.execute(statement.format(role=quoted))


def _policies(role: str) -> Iterator[str]:
    """Everybody else goes on as without them: the policy for all roles allows all rows."""
    own = f"gateway_{crc32(role.encode()):08x}"
    for table, rows in THREAD_TABLES.items():
        yield f"alter table hames.{table} enable row level security"
        yield f"drop policy if exists everybody on hames.{table}"
        yield f"create policy everybody on hames.{table} using (true)"
        for action, words in (
            ("insert", f"with check ({rows})"),
            ("update", f"using ({rows}) with check ({rows})"),
            ("delete", f"using ({rows})"),
        ):
            yield f"drop policy if exists {own}_{action} on hames.{table}"
            yield (f"create policy {own}_{action} on hames.{table} as restrictive for {action} to {{role}} {words}")
