"""SQLite databases that can be thrown away at any time: what they hold is derived from the logs.

So a damaged one is deleted and made anew, and where that does not work either it is kept in memory: no list and no
turn fails because of it.
"""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Generator, Iterable
from pathlib import Path

log = logging.getLogger(__name__)

IN_USE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_damaged(problem: Exception) -> bool:
    """False: another process only keeps us from using it for now."""
    code: int | None = getattr(problem, "sqlite_errorcode", None)
    return code is None or code & 0xFF not in IN_USE


def open_or_renew(path: str, *, version: int, tables: Iterable[str]) -> sqlite3.Connection:
    """Never fails: what is damaged is made anew, and where nothing can be kept it is in memory."""
    tables = tuple(tables)
    for tried in range(2 if path else 0):
        try:
            return open_database(path, version=version, tables=tables)
        except (sqlite3.Error, OSError) as problem:
            log.warning("database.unusable", extra={"file": path, "error": str(problem)})
            if tried or not is_damaged(problem):
                break
            delete_database(path)
    return open_database("", version=version, tables=tables)


def delete_database(path: str) -> None:
    for end in ("", "-wal", "-shm") if path else ():
        with contextlib.suppress(OSError):
            Path(path + end).unlink()


def open_database(path: str, *, version: int, tables: Iterable[str]) -> sqlite3.Connection:
    """`path` empty: kept in memory. One of another version is made anew, by one process: nobody sees half of it."""
    if path:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(path or ":memory:", timeout=0.2, isolation_level=None, check_same_thread=False)
    try:
        database.execute("pragma synchronous=off")  # first: making the file would wait for the disk
        database.execute("pragma journal_mode=wal")
        if _version(database) != version:
            with transaction(database):
                if _version(database) != version:
                    for statement in (*tables, f"pragma user_version={version}"):
                        database.execute(statement)
    except BaseException:
        database.close()
        raise
    return database


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Generator[None]:
    """All of it or nothing. One that is left open would keep every other process from writing."""
    database.execute("begin immediate")
    try:
        yield
        database.execute("commit")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            database.execute("rollback")
        raise


def _version(database: sqlite3.Connection) -> int:
    return database.execute("pragma user_version").fetchone()[0]


def containing(text: str) -> str:
    """A pattern for `like … escape '\\'` that finds the text anywhere."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
