"""Repositories that a command left in a subdirectory.

Git obeys the configuration of whatever repository it stands in: a planted one runs programs as soon as a person,
a prompt or an editor asks git anything there. The walls cannot forbid every directory name below a writable root,
so a short look afterwards says what appeared. It is bounded in depth and time: a warning, not a wall.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

_DEPTH = 4
_BUDGET_SECONDS = 0.004
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", "target", ".tox", ".mypy_cache"})
_BARE = frozenset({"HEAD", "objects", "refs"})


def planted(root: str, *, since: float) -> list[str]:
    """Directories below `root` whose git configuration or hooks changed after `since` (wall clock, seconds).

    The repository of the root itself is guarded, so of the root only a bare repository counts.
    """
    deadline = time.monotonic() + _BUDGET_SECONDS
    found: list[str] = []
    level = [root]
    for _ in range(_DEPTH):
        below: list[str] = []
        for directory in level:
            if time.monotonic() > deadline:
                return found
            names = _entries(directory)
            if set(names) >= _BARE and _changed(Path(directory), since):
                found.append(directory)
            if ".git" in names and directory != root and _changed(Path(directory, ".git"), since):
                found.append(directory)
            below += [f"{directory}/{name}" for name, walk in names.items() if walk and name not in _SKIPPED]
        level = below
    return found


def _entries(directory: str) -> dict[str, bool]:
    """Names, and whether they are directories to look into."""
    try:
        with os.scandir(directory) as entries:
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return {}


def _changed(git: Path, since: float) -> bool:
    return any(_ctime(path) >= since for path in _telling(git))


def _telling(git: Path) -> Iterator[Path]:
    if git.is_file():
        yield git
        return
    yield from (git / "config", git / "commondir", git / "hooks")
    yield from (git / "hooks" / name for name in _entries(str(git / "hooks")))


def _ctime(path: Path) -> float:
    try:
        return path.lstat().st_ctime
    except OSError:
        return 0.0
