"""SQLite databases that can be thrown away at any time: what they hold is derived from the logs."""

import os
import sqlite3
from collections.abc import Iterable


def open_database(path: str, *, version: int, tables: Iterable[str]) -> sqlite3.Connection:
    """`path` empty: kept in memory. One of another version is made anew, by one process: nobody sees half of it."""
    if path:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(path or ":memory:", timeout=0.2, isolation_level=None, check_same_thread=False)
    database.execute("pragma synchronous=off")  # first: making the file would wait for the disk
    database.execute("pragma journal_mode=wal")
    if _version(database) != version:
        database.execute("begin immediate")
        if _version(database) != version:
            for statement in (*tables, f"pragma user_version={version}"):
                database.execute(statement)
        database.execute("commit")
    return database


def _version(database: sqlite3.Connection) -> int:
    return database.execute("pragma user_version").fetchone()[0]


def containing(text: str) -> str:
    """A pattern for `like … escape '\\'` that finds the text anywhere."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
