"""The tables, and how a database gets them: each migration once, in order, in one transaction each.

Times are the database's: no node compares its own clock with another's.
"""

from typing import TYPE_CHECKING, Final

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

MIGRATIONS: Final = (_FIRST,)
VERSION: Final = len(MIGRATIONS)

GATEWAY_GRANTS: Final = (
    "grant usage on schema hames to {role}",
    "grant select on all tables in schema hames to {role}",
    "grant insert, update, delete on hames.inbox, hames.presence, hames.node, hames.blob to {role}",
    # A gateway creates threads, and gives them to a worker.
    "grant insert, update on hames.thread, hames.listed to {role}",
    "grant insert on hames.ev, hames.words to {role}",
)
WORKER_GRANTS: Final = (
    "grant usage on schema hames to {role}",
    "grant select, insert, update, delete on all tables in schema hames to {role}",
)


async def version_of(connection: "Connection") -> int:
    """Of the tables that are there; 0: none."""
    if await connection.fetchval("select to_regclass('hames.migration')") is None:
        return 0
    return int(await connection.fetchval("select coalesce(max(number), 0) from hames.migration") or 0)


def check_version(found: int) -> None:
    """Raises `Misconfigured`."""
    if found > VERSION:
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
        found = await version_of(connection)
        if found > VERSION:
            check_version(found)
        for number in range(found + 1, VERSION + 1):
            async with connection.transaction():
                if number == 1:
                    await connection.execute("create schema if not exists hames")
                    await connection.execute(
                        "create table hames.migration (number integer primary key, at timestamptz default now())"
                    )
                await connection.execute(MIGRATIONS[number - 1])
                await connection.execute("insert into hames.migration (number) values ($1)", number)
        return VERSION - found
    finally:
        await connection.execute("select pg_advisory_unlock($1)", LOCK)
