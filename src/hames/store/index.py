"""The SQLite index of the thread list, so that listing opens no log. It can be thrown away at any time.

The truth is in the logs and, per thread, in `meta.json`; the index notices threads that came or went without it by the
time stamp of the directory that they are in, and, once in each process, threads that changed without it (it was in use,
or somebody was killed) by the time stamps of their own directories.
"""

import base64
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from hames.domain.commands import ThreadPage, ThreadSummary
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ThreadId
from hames.domain.value import Value
from hames.store.database import containing, delete_database, open_or_renew, transaction

log = logging.getLogger(__name__)

PAGE: Final = 50
MOST: Final = 1 << 31
LATEST_MS: Final = 1 << 62
"""More threads than anybody has, a time nobody sees: both are numbers SQLite can hold."""
HIDDEN: Final = 2
"""In the column `archived`: an ephemeral thread, which is in neither list."""

_VERSION: Final = 4
_TABLES = (
    "drop table if exists threads",
    "drop table if exists seen",
    "create table threads (id text primary key, title text, preview text, updated_at_ms integer, archived integer,"
    " summary blob, changed_ns integer) without rowid",
    "create index newest on threads (archived, updated_at_ms desc, id desc)",
    "create table seen (mtime_ns integer)",
)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ThreadSummary).decode
_DELETE = "delete from threads where id = ?"
_PUT = "insert or replace into threads values (?,?,?,?,?,?,?)"


class PageQuery(Value):
    """Which page of the list of threads."""

    limit: int | None
    cursor: str | None
    archived: bool | None
    """None: archived or not."""
    search: str


class Index:
    """`path` empty: kept in memory, rebuilt in every process.

    `put` and `remove` never fail. The others raise `sqlite3.Error` for a file that is damaged or in use, and
    `msgspec.DecodeError` for a damaged one: `renew` makes a new one, which `follow` fills.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._late: dict[ThreadId, tuple[ThreadSummary, int] | None] = {}
        """What could not be written yet, because another process writes or the disk is full. None: removed."""
        self._compared = False
        """Whether this process has looked for changes that were missed."""
        self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        return open_or_renew(self._path, version=_VERSION, tables=_TABLES)

    def renew(self) -> None:
        self._db.close()
        delete_database(self._path)
        self._compared, self._db = False, self._open()

    def put(self, summary: ThreadSummary, changed_ns: int) -> None:
        """`changed_ns` is the time stamp of the thread's directory."""
        self._late[summary.id] = summary, changed_ns
        self._try_to_catch_up()

    def remove(self, thread_id: ThreadId) -> None:
        self._late[thread_id] = None
        self._try_to_catch_up()

    def _try_to_catch_up(self) -> None:
        try:
            self._catch_up()
        except sqlite3.Error as problem:  # `meta.json` has it, too
            log.info("index.not_written", extra={"error": str(problem)})

    def _catch_up(self) -> None:
        """Each is a transaction of its own. Raises `sqlite3.Error`."""
        for thread_id, row in list(self._late.items()):
            if row is not None:
                self._db.execute(_PUT, _row(*row))
            else:
                self._db.execute(_DELETE, (thread_id,))
            del self._late[thread_id]

    def follow(self, threads_fd: int, load: Callable[[str], ThreadSummary | None]) -> None:
        """Take in what changed on disk behind our back."""
        self._catch_up()
        mtime = os.fstat(threads_fd).st_mtime_ns
        known = self._db.execute("select mtime_ns from seen").fetchone()
        if self._compared and known and known[0] == mtime:
            return
        there = {entry.name: entry for entry in os.scandir(threads_fd) if not entry.name.startswith(".")}
        here: dict[str, int] = dict(self._db.execute("select id, changed_ns from threads"))
        stale = {
            name: changed
            for name, entry in there.items()
            if not (self._compared and name in here) and (changed := _changed_ns(entry)) != here.get(name)
        }
        found = [(summary, changed) for name, changed in stale.items() if (summary := load(name)) is not None]
        if len(found) < len(stale):
            mtime = 0  # one of them is just being made: look again next time
        with transaction(self._db):
            self._db.executemany(_PUT, (_row(*row) for row in found))
            self._db.executemany(_DELETE, ((name,) for name in here.keys() - there.keys()))
            self._db.execute("delete from seen")
            self._db.execute("insert into seen values (?)", (mtime,))
        self._compared = True

    def threads(self) -> list[tuple[ThreadId, int]]:
        """Every thread of the lists with the time of its last change, newest first."""
        rows = self._db.execute(
            "select id, updated_at_ms from threads where archived != ? order by updated_at_ms desc, id desc", (HIDDEN,)
        )
        return [(ThreadId(row[0]), row[1]) for row in rows]

    def page(self, query: PageQuery, found: Sequence[ThreadId] = ()) -> ThreadPage:
        """`found`: threads that belong to the search whatever their title says."""
        size = min(query.limit, MOST) if query.limit is not None else PAGE
        updated, last = position_of(query.cursor)
        words = containing(query.search)
        which, value = ("archived != ?", HIDDEN) if query.archived is None else ("archived = ?", int(query.archived))
        rows = self._db.execute(
            f"select updated_at_ms, id, summary from threads where {which} and (updated_at_ms, id) < (?, ?)"
            " and (? = '%%' or title like ? escape '\\' or preview like ? escape '\\'"
            " or id in (select value from json_each(?)))"
            " order by updated_at_ms desc, id desc limit ?",
            (value, updated, last, words, words, words, msgspec.json.encode(found).decode(), size + 1),
        ).fetchall()
        cursor = encode_cursor(*rows[size - 1][:2]) if len(rows) > size else None
        return ThreadPage(threads=tuple(_decode(row[2]) for row in rows[:size]), next_cursor=cursor)

    def close(self) -> None:
        self._db.close()


def _changed_ns(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:  # it went while we looked
        return -1


def _row(summary: ThreadSummary, changed_ns: int) -> tuple[str | int | bytes, ...]:
    # A log can say anything, and SQLite holds no number that is larger.
    updated = max(-LATEST_MS, min(summary.updated_at_ms, LATEST_MS - 1))
    kept = _encode(replace(summary, standing="away", match=""))
    archived = HIDDEN if summary.ephemeral else int(summary.archived)
    return summary.id, summary.title, summary.preview, updated, archived, kept, changed_ns


def encode_cursor(updated_at_ms: int, thread_id: str) -> str:
    return base64.urlsafe_b64encode(f"{updated_at_ms} {thread_id}".encode()).decode().rstrip("=")


def position_of(cursor: str | None) -> tuple[int, str]:
    if cursor is None:
        return LATEST_MS, ""
    try:
        words = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        updated, thread_id = words.split(" ")
        if encode_cursor(int(updated), thread_id) == cursor and abs(int(updated)) <= LATEST_MS:
            return int(updated), thread_id
    except ValueError:
        pass
    raise InvalidCommand(f"{cursor!r} is not a cursor of this list")
