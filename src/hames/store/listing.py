"""The list of threads and the search in them, as the store offers them.

Both stand in databases that are derived from the logs, so nothing here fails because of one: a damaged one is made
anew, and one that another process holds is passed over.
"""

import contextlib
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
from anyio import to_thread

from hames.domain.commands import ThreadPage, ThreadSummary
from hames.domain.ids import ThreadId
from hames.store.database import is_damaged
from hames.store.index import Index, PageQuery
from hames.store.search import Load, TextIndex, search_threads

log = logging.getLogger(__name__)


class Listing:
    """`home`: where the databases are. None: in memory."""

    def __init__(self, home: Path | None) -> None:
        self._home = home
        self._index = Index(self._path("index.db"))
        self._opened_texts: TextIndex | None = None

    def put(self, summary: ThreadSummary, changed_ns: int) -> None:
        self._index.put(summary, changed_ns)

    async def page(
        self, query: PageQuery, threads_fd: int | None, load: Callable[[str], ThreadSummary | None], records: Load
    ) -> ThreadPage:
        """`load` reads the summary of a thread of this directory, `records` its records."""
        searched = bool(query.search.strip()) and threads_fd is not None

        async def ask(index: Index, texts: TextIndex | None) -> ThreadPage:
            if threads_fd is not None:
                index.follow(threads_fd, load)
            return await search_threads(index, texts, records, query) if texts is not None else index.page(query)

        for _ in range(2):
            try:
                return await ask(self._index, self._texts if searched else None)
            except (sqlite3.Error, msgspec.DecodeError) as problem:
                log.warning("listing.unusable", extra={"error": str(problem)})
                if not is_damaged(problem):
                    break
            self._index.renew()
            if self._opened_texts is not None:
                await to_thread.run_sync(self._opened_texts.renew)
        with contextlib.closing(Index("")) as index, contextlib.closing(TextIndex("")) as texts:
            return await ask(index, texts if searched else None)

    async def remove(self, thread_id: ThreadId) -> None:
        self._index.remove(thread_id)
        if self._opened_texts is not None or (self._home is not None and (self._home / "search.db").is_file()):
            try:
                await to_thread.run_sync(self._texts.remove, thread_id)
            except sqlite3.Error as problem:  # its words must not stay behind in a file that cannot be read
                if is_damaged(problem):
                    await to_thread.run_sync(self._texts.renew)

    def close(self) -> None:
        self._index.close()
        if self._opened_texts is not None:
            self._opened_texts.close()

    @property
    def _texts(self) -> TextIndex:
        """Made by the first search, beside the list."""
        if self._opened_texts is None:
            self._opened_texts = TextIndex(self._path("search.db"))
        return self._opened_texts

    def _path(self, name: str) -> str:
        return str(self._home / name) if self._home is not None else ""
