"""The tables, and how a database gets them: each migration once, in order, in one transaction each.

Times are the database's: no node compares its own clock with another's.
"""

from typing import TYPE_CHECKING, Any, Final

from hames.domain.errors import Misconfigured

if TYPE_CHECKING:
    from asyncpg import Connection

LOCK: Final = 0x68616D65  # "hame": two nodes that start at once migrate one after the other

_FIRST = """
create table hames.node (
    id text primary key,
    name text not null,
    until timestamptz not null,
    started_at timestamptz not null default now(),
    renewed_at timestamptz not null default now(),
    labels text[] not null default '{}',
    slots integer not null default 0,
    works boolean not null default true,
    version text not null default '',
    stats jsonb not null default '{}'
);
create index node_until on hames.node (until);

create table hames.thread (
    id text primary key,
    head bigint not null default 0,
    epoch bigint not null default 0,
    owner text,
    running boolean not null default false,
    wake_at timestamptz,
    place text not null default '',
    "foreign" boolean not null default false,
    ephemeral boolean not null default false,
    format integer not null default 0,
    packed text,
    created_at timestamptz not null default now(),
    deaths integer not null default 0,
    told_waiting boolean not null default false
) with (fillfactor = 70);
create index thread_owner on hames.thread (owner) where owner is not null;
create index thread_running on hames.thread (owner) where running;
create index thread_wake on hames.thread (wake_at) where wake_at is not null;
create index thread_ephemeral on hames.thread (id) where ephemeral;

create table hames.ev (
    thread text not null,
    seq bigint not null,
    body bytea not null,
    primary key (thread, seq)
);

create table hames.live (
    thread text not null,
    seq bigint not null,
    n bigint not null,
    body bytea not null,
    primary key (thread, seq, n)
);

create table hames.inbox (
    id bigint generated always as identity primary key,
    thread text not null,
    client_id text not null unique,
    sender text not null,
    body bytea not null,
    taken_by text,
    answer bytea,
    sent_at timestamptz not null default now(),
    answered_at timestamptz
);
create index inbox_open on hames.inbox (thread) where answer is null;
create index inbox_sent on hames.inbox (sent_at);

create table hames.listed (
    id text primary key,
    title text not null,
    preview text not null,
    updated_at_ms bigint not null,
    archived smallint not null,
    standing text not null default 'away',
    summary bytea not null
);
create index listed_newest on hames.listed (archived, updated_at_ms desc, id desc);

create table hames.words (
    thread text not null,
    seq bigint not null,
    text text not null,
    words tsvector not null,
    primary key (thread, seq)
);
create index words_words on hames.words using gin (words);

create table hames.blob (
    id text primary key,
    thread text,
    kind text not null,
    name text not null default '',
    body bytea not null,
    created_at timestamptz not null default now()
);
create index blob_thread on hames.blob (thread) where thread is not null;

create table hames.presence (
    thread text not null,
    node text not null,
    answers boolean not null,
    until timestamptz not null,
    primary key (thread, node)
);
"""

_SECOND = """
alter table hames.migration add column usable_by integer;

create table hames.token (
    name text primary key,
    role text not null,
    sha256 text not null unique,
    created_at_ms bigint not null,
    expires_at_ms bigint not null default 0
);

create table hames.link (
    id bigint generated always as identity primary key,
    name text not null,
    word bytea not null unique,
    code bytea not null,
    word_until timestamptz not null,
    code_until timestamptz not null,
    wrong integer not null default 0
);

create table hames.spending (
    day date not null,
    node text not null,
    usd double precision not null,
    tokens bigint not null,
    minutes double precision not null,
    steps bigint not null,
    raised jsonb not null default '{}',
    primary key (day, node)
);

create index blob_uploads on hames.blob (created_at) where kind = 'upload';
"""
"""Named tokens, sign-in links and what a day cost, for all nodes.

`migration.usable_by` is the lowest version of the tables that a node must know to use them. A migration that only adds
says a lower number than its own, so that nodes of the version before go on while others are upgraded.
"""

_THIRD = """
alter table hames.presence add column tools integer not null default 0,
    add column since timestamptz not null default now();
"""
"""Which nodes have clients that carry out tools of a thread."""

MIGRATIONS: Final = ((_FIRST, 1), (_SECOND, 1), (_THIRD, 1))
"""Each with the lowest version that can still use the tables after it."""
VERSION: Final = len(MIGRATIONS)


async def versions_of(connection: "Connection") -> tuple[int, int]:
    """Of the tables that are there (0: none), and the version that a node must know to use them."""
    if await connection.fetchval("select to_regclass('hames.migration')") is None:
        return 0, 0
    rows: list[Any] = await connection.fetch("select * from hames.migration")
    needs = [row.get("usable_by") or row["number"] for row in rows]
    return max((row["number"] for row in rows), default=0), max(needs, default=0)


def check_version(found: int, usable_by: int) -> None:
    """Raises `Misconfigured`."""
    if found > VERSION and usable_by > VERSION:
        raise Misconfigured(
            f"the database was made by a newer version of hames: its tables have version {found}, this one knows"
            f" version {VERSION}. Upgrade hames on this node"
        )
    if found < VERSION:
        what = f"are of version {found}, and this hames needs version {VERSION}" if found else "are not there"
        raise Misconfigured(f"the tables of hames {what}: run `hames store migrate` with this database")


async def migrate(connection: "Connection") -> int:
    """Makes or renews the tables; returns how many migrations ran. Raises `Misconfigured` for a newer database."""
    await connection.execute("select pg_advisory_lock($1)", LOCK)
    try:
        found, usable_by = await versions_of(connection)
        if found > VERSION:
            check_version(found, usable_by)
        for number in range(found + 1, VERSION + 1):
            statements, usable = MIGRATIONS[number - 1]
            async with connection.transaction():
                if number == 1:
                    await connection.execute("create schema if not exists hames")
                    await connection.execute(
                        "create table hames.migration (number integer primary key, at timestamptz default now())"
                    )
                await connection.execute(statements)
                await connection.execute("insert into hames.migration (number) values ($1)", number)
                if number > 1:
                    await connection.execute(
                        "update hames.migration set usable_by = $2 where number = $1", number, usable
                    )
        return max(0, VERSION - found)
    finally:
        await connection.execute("select pg_advisory_unlock($1)", LOCK)
