"""Full-text search over threads: what people and agents wrote, and the commands that ran.

The index is a database of its own that is filled when somebody searches, never when a record is written: appending
costs nothing, and the first search after a busy day reads the logs that changed. It can be thrown away at any time.
"""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from anyio import to_thread
from msgspec.structs import replace

from hames.deferred import pattern
from hames.domain.commands import ThreadPage, ThreadSummary
from hames.domain.events import ItemCompleted, Record
from hames.domain.ids import ThreadId
from hames.domain.items import AgentMessage, CommandExecution, TextInput, UserMessage
from hames.store.database import containing, delete_database, is_damaged, open_or_renew, transaction
from hames.store.index import Index, PageQuery

LEARN_SECONDS: Final = 1.5
"""How long one search may read logs. What is left is read by the next one, which a page sends by itself."""
TEXT_CHARS: Final = 1 << 20
"""Of one message. Longer ones are not written to be found by their end."""
MOST_MESSAGES: Final = 50_000
"""So many messages are looked at for a word that is everywhere."""
LEAST_PREFIX: Final = 3
"""From so many letters on a word also stands for longer ones that begin with it."""
EXCERPT_CHARS: Final = 160

_VERSION: Final = 1
_TABLES = (
    "drop table if exists texts",
    "drop table if exists known",
    "create virtual table texts using fts5"
    " (text, thread_id unindexed, prefix = '3', tokenize = 'unicode61 remove_diacritics 2')",
    "create table known (id text primary key, updated_at_ms integer, seq integer) without rowid",
)
_WORD = pattern(r"\w+")
_UNSPACED = pattern(r"[\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003fa1f]")
"""Scripts without spaces between words: there a word is a part of what the index takes for one."""

Load = Callable[[ThreadId, int], Iterable[Record]]
"""The records of a thread after a number, for looking."""


class TextIndex:
    """`path` empty: kept in memory, rebuilt in every process. Any thread may call it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        database = open_or_renew(self._path, version=_VERSION, tables=_TABLES)
        database.execute("pragma secure_delete=on")  # a deleted thread leaves no words behind
        return database

    def renew(self) -> None:
        """For a damaged file."""
        with self._lock:
            self._db.close()
            delete_database(self._path)
            self._db = self._open()

    def learn(self, threads: Iterable[tuple[ThreadId, int]], load: Load) -> bool:
        """Read what was written since the last search. `threads`: every id with its time of change, newest first.

        Returns whether that is all of it now.
        """
        until = time.monotonic() + LEARN_SECONDS
        with self._lock:
            there = dict(threads)
            known = {row[0]: row[1:] for row in self._db.execute("select id, updated_at_ms, seq from known")}
            for gone in known.keys() - there.keys():
                self._remove(gone)
            for thread_id, updated_at_ms in there.items():
                seen_at, seq = known.get(thread_id, (-1, 0))
                if seen_at == updated_at_ms:
                    continue
                if time.monotonic() > until:
                    return False
                try:
                    self._add(thread_id, updated_at_ms, seq, load(thread_id, seq))
                except sqlite3.OperationalError as problem:  # another process writes: it learns the same
                    if is_damaged(problem):
                        raise
                    return False
        return True

    def _add(self, thread_id: ThreadId, updated_at_ms: int, seq: int, records: Iterable[Record]) -> None:
        rows: list[tuple[str, str]] = []
        for record in records:
            seq = max(seq, record.seq)
            if text := searchable(record):
                rows.append((text[:TEXT_CHARS], thread_id))
        with transaction(self._db):
            self._db.executemany("insert into texts (text, thread_id) values (?, ?)", rows)
            self._db.execute("insert or replace into known values (?, ?, ?)", (thread_id, updated_at_ms, seq))

    def remove(self, thread_id: ThreadId) -> None:
        with self._lock:
            self._remove(thread_id)
            with contextlib.suppress(sqlite3.OperationalError):
                self._db.execute("insert into texts (texts) values ('optimize')")
                self._db.execute("pragma wal_checkpoint(truncate)")

    def _remove(self, thread_id: str) -> None:
        with contextlib.suppress(sqlite3.OperationalError):
            self._db.execute("delete from texts where thread_id = ?", (thread_id,))
            self._db.execute("delete from known where id = ?", (thread_id,))

    def find(self, search: str) -> dict[ThreadId, int]:
        """The threads in which every word of the search occurs in one message, as a word or the beginning of one.

        With each the number of a message for `excerpt`.
        """
        where, wanted = _condition(search)
        if not wanted:
            return {}
        query = f"select thread_id, rowid from texts where {where} order by rowid desc limit {MOST_MESSAGES}"
        found: dict[ThreadId, int] = {}
        with self._lock:
            for thread_id, number in self._db.execute(query, (wanted,)):
                found.setdefault(ThreadId(thread_id), number)
        return found

    def excerpt(self, search: str, number: int) -> str:
        """The words around what was found in that message."""
        with self._lock:
            row = self._db.execute("select text from texts where rowid = ?", (number,)).fetchone()
        return excerpt_of(row[0], search) if row else ""

    def close(self) -> None:
        with self._lock:
            self._db.close()


async def search_threads(index: Index, texts: TextIndex, load: Load, query: PageQuery) -> ThreadPage:
    """A page of the threads whose title, first words or messages fit. Logs are read in a worker thread."""
    threads = index.threads()

    def look() -> tuple[bool, dict[ThreadId, int]]:
        return texts.learn(threads, load), texts.find(query.search)

    complete, found = await to_thread.run_sync(look)
    page = index.page(query, found=list(found))

    def with_excerpt(row: ThreadSummary) -> ThreadSummary:
        return replace(row, match=texts.excerpt(query.search, found[row.id])) if row.id in found else row

    rows = await to_thread.run_sync(lambda: tuple(map(with_excerpt, page.threads)))
    return replace(page, threads=rows, partial=not complete)


def searchable(record: Record) -> str:
    """What of a record can be found: the words of people and agents, and commands. Output is too much of too little."""
    event = record.event
    if not isinstance(event, ItemCompleted):
        return ""
    match event.item:
        case UserMessage(content=content):
            return "\n".join(part.text for part in content if isinstance(part, TextInput))
        case AgentMessage(text=text):
            return text
        case CommandExecution(command=command):
            return command
        case _:
            return ""


def has_unspaced_script(search: str) -> bool:
    return _UNSPACED.search(search) is not None


def _condition(search: str) -> tuple[str, str]:
    """A condition with one place in it, and what belongs there. Nothing: there is no word in it."""
    if has_unspaced_script(search):
        return "text like ? escape '\\'", containing(search.strip())
    words = (f'"{word}"{"*" if len(word) >= LEAST_PREFIX else ""}' for word in _WORD.findall(search))
    return "texts match ?", " ".join(words)


def excerpt_of(text: str, search: str) -> str:
    """One line of the text, around the first of the words that is in it."""
    words = " ".join(text.split())
    if len(words) <= EXCERPT_CHARS:
        return words
    lower = words.lower()
    places = (lower.find(word) for word in (search.strip().lower(), *_WORD.findall(search.lower())))
    at = max(0, next((place for place in places if place >= 0), 0) - EXCERPT_CHARS // 3)
    at = words.rfind(" ", 0, at) + 1 if at else 0
    return f"{'…' if at else ''}{words[at : at + EXCERPT_CHARS]}…"
