"""What an operator does with the database: look at it, check every log, pack old threads, give roles their rights."""

import zlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final

from hames.domain.ids import ThreadId
from hames.domain.value import Value
from hames.store.postgres.connection import check_address, connect, is_connection_lost, unreachable, without_password
from hames.store.postgres.grants import grant
from hames.store.postgres.pool import Connections
from hames.store.postgres.reading import READ, packed_lines, read_rows
from hames.store.postgres.tables import VERSION, migrate, versions_of

if TYPE_CHECKING:
    from asyncpg import Connection

PACKED: Final = "log"

_ABOUT: Final = """
select current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync'),
    current_setting('synchronous_standby_names'), pg_is_in_recovery()
"""
_COUNTS: Final = """
select (select count(*) from hames.thread), (select count(*) from hames.thread where running),
    (select count(*) from hames.node where until > now()), (select count(*) from hames.thread where packed is not null)
"""
_LOCK_OLD: Final = """
select t.id from hames.thread t join hames.listed l on l.id = t.id
where t.packed is null and t.owner is null and not t.running and not t.ephemeral and t.head > 0
    and l.updated_at_ms < extract(epoch from now() - make_interval(days => $1)) * 1000
limit 1 for update of t skip locked
"""
_BODIES: Final = "select body from hames.ev where thread = $1 order by seq"
_PACK: Final = """
with kept as (insert into hames.blob (id, thread, kind, name, body) values ($1 || '.log', $1, 'log', 'events.jsonl', $2)
    returning id),
gone as (delete from hames.ev where thread = $1)
update hames.thread set packed = kept.id from kept where hames.thread.id = $1
"""
_UNPACK: Final = """
with gone as (delete from hames.blob where id = $1 || '.log'),
kept as (insert into hames.ev (thread, seq, body)
    select $1, e.seq, e.body from unnest($2::bigint[], $3::bytea[]) as e(seq, body))
update hames.thread set packed = null where id = $1
"""
READ_PACKED: Final = "select body from hames.blob where thread = $1 and kind = 'log'"


class DatabaseReport(Value):
    address: str
    server: str
    version: int
    """Of the tables; 0: there are none."""
    usable_by: int
    """The version that a node must know to use them."""
    synchronous_commit: str
    fsync: str
    standbys: str
    is_standby: bool
    threads: int = 0
    running: int = 0
    nodes: int = 0
    packed: int = 0

    @property
    def is_usable(self) -> bool:
        """Whether a node of this version can use the tables."""
        return self.usable_by <= VERSION <= self.version

    @property
    def problems(self) -> list[str]:
        """What an operator should know."""
        found: list[str] = []
        if self.version < VERSION:
            found.append(f"its tables have version {self.version} of {VERSION}: run `hames store migrate`")
        if self.usable_by > VERSION:
            found.append(f"its tables have version {self.version}, and this hames knows {VERSION}: upgrade hames")
        if self.fsync != "on":
            found.append("fsync is off: a power cut loses or damages threads")
        if self.is_standby:
            found.append("it is a standby: add target_session_attrs=read-write to the address, and name every host")
        return found


class ThreadHealth(Value):
    thread_id: ThreadId
    records: int
    problem: str = ""


async def open_connection(address: str) -> "Connection":
    """For a command of an operator: one try. Raises `Misconfigured`, `StorageFailed`."""
    check_address(address)
    try:
        return await connect(address, "hames store")
    except Exception as problem:
        if is_connection_lost(problem):
            raise unreachable(address, problem) from None
        raise


async def report(address: str) -> DatabaseReport:
    """Raises `Misconfigured`, `StorageFailed`."""
    connection = await open_connection(address)
    try:
        version, usable_by = await versions_of(connection)
        about: Any = await connection.fetchrow(_ABOUT)
        counts: Any = await connection.fetchrow(_COUNTS) if version and usable_by <= VERSION else (0, 0, 0, 0)
    finally:
        await connection.close()
    return DatabaseReport(
        address=without_password(address),
        server=about[0],
        version=version,
        usable_by=usable_by,
        synchronous_commit=about[1],
        fsync=about[2],
        standbys=about[3],
        is_standby=about[4],
        threads=counts[0],
        running=counts[1],
        nodes=counts[2],
        packed=counts[3],
    )


async def migrate_database(address: str, *, gateways: list[str], workers: list[str]) -> int:
    """How many migrations ran. The roles get the rights of a gateway or a worker. Raises `Misconfigured`."""
    connection = await open_connection(address)
    try:
        count = await migrate(connection)
        for role in gateways:
            await grant(connection, role, works=False)
        for role in workers:
            await grant(connection, role, works=True)
    finally:
        await connection.close()
    return count


async def check_threads(connections: Connections) -> AsyncGenerator[ThreadHealth]:
    """Every log, read and compared with its checksums and its length."""
    last = ""
    while True:
        threads = await connections.fetch(
            "select id, head, packed from hames.thread where id > $1 order by id limit 200", last
        )
        if not threads:
            return
        for thread_id, head, packed in threads:
            last = thread_id
            rows = await packed_rows(connections, thread_id) if packed else await connections.fetch(READ, thread_id, 0)
            found = read_rows(rows)
            numbers = [row[0] for row in rows if row[1] == 0]
            problems: list[str] = []
            if found.bad:
                problems.append(f"{found.bad} records are damaged")
            if found.newer:
                problems.append("a newer version of hames wrote it")
            if numbers != list(range(1, head + 1)):
                problems.append(f"it should have records 1 to {head}, and has {len(numbers)}")
            yield ThreadHealth(thread_id=thread_id, records=len(numbers), problem="; ".join(problems))


async def packed_rows(connections: Connections, thread_id: str) -> list[Any]:
    row = await connections.fetch_row(READ_PACKED, thread_id)
    return packed_lines(row[0]) if row is not None else []


async def pack_old(connections: Connections, days: int) -> int:
    """Packs the threads that nobody used for so long. Returns how many."""

    async def pack_one(connection: "Connection") -> bool:
        async with connection.transaction():
            thread_id = await connection.fetchval(_LOCK_OLD, days)
            if thread_id is None:
                return False
            bodies: list[Any] = await connection.fetch(_BODIES, thread_id)
            lines = b"".join(row[0] + b"\n" for row in bodies)
            await connection.execute(_PACK, thread_id, zlib.compress(lines))
            return True

    count = 0
    while await connections.run(pack_one):
        count += 1
    return count


async def unpack(connections: Connections, thread_id: str) -> None:
    """Puts the records of a packed thread back, for whoever writes or follows it."""

    async def put_back(connection: "Connection") -> None:
        async with connection.transaction():
            if await connection.fetchval("select packed from hames.thread where id = $1 for update", thread_id) is None:
                return
            row: Any = await connection.fetchrow(READ_PACKED, thread_id)
            rows = packed_lines(row[0])
            await connection.execute(_UNPACK, thread_id, [one[0] for one in rows], [one[2] for one in rows])

    await connections.run(put_back)
