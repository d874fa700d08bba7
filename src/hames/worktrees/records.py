"""Which worktrees Hames has made: one private file for each, in the user's state directory.

A record is written before git is asked to make the worktree, and deleted after everything else is gone. Commands in the
sandbox cannot see these files, so what they say can be believed; what a `.git` file says cannot.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from hames.domain.value import Value
from hames.private_files import create_private, write_private

_MOST_BYTES = 1 << 16


class WorktreeRecord(Value, omit_defaults=True):
    """`repository` is git's own directory, which all worktrees share; `below` is where in the repository
    `workspace` lies."""

    name: str
    branch: str
    path: str
    workspace: str
    repository: str
    base: str = ""
    below: str = ""
    device: int = 0
    inode: int = 0
    thread_id: str = ""
    status: Literal["making", "ready", "kept"] = "making"
    made_at_ms: int = 0


class WorktreeRecords:
    """`state` is the user's state directory."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "worktrees"

    def all(self) -> list[WorktreeRecord]:
        """Oldest first. What cannot be read is left out."""
        try:
            names = [entry.path for entry in os.scandir(self._directory) if entry.name.endswith(".json")]
        except OSError:
            return []
        found: list[WorktreeRecord] = []
        for name in names:
            with suppress(OSError, msgspec.DecodeError), open(name, "rb") as file:
                found.append(msgspec.json.decode(file.read(_MOST_BYTES), type=WorktreeRecord))
        return sorted(found, key=lambda record: (record.made_at_ms, record.path))

    def reserve(self, record: WorktreeRecord) -> bool:
        """False: there is one of this path already. Raises `OSError`."""
        return create_private(self._file(record), msgspec.json.encode(record))

    def write(self, record: WorktreeRecord) -> None:
        write_private(self._file(record), msgspec.json.encode(record), sync=True)

    def delete(self, record: WorktreeRecord) -> None:
        self._file(record).unlink(missing_ok=True)

    def containing(self, directory: str) -> WorktreeRecord | None:
        """The worktree that a directory is in, if it is the very one that was made here and its repository still
        knows it: neither a copy, nor another directory in its place, nor a `.git` file that only says so."""
        real = os.path.realpath(directory)
        for record in self.all():
            if (real == record.path or real.startswith(f"{record.path}/")) and is_same_worktree(record):
                return record
        return None

    def _file(self, record: WorktreeRecord) -> Path:
        return self._directory / f"{hashlib.sha256(os.fsencode(record.path)).hexdigest()[:24]}.json"


def is_same_worktree(record: WorktreeRecord) -> bool:
    if record.status == "making":
        return False
    try:
        found = os.lstat(record.path)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (record.device, record.inode) and admin_directory(record) is not None


def admin_directory(record: WorktreeRecord) -> Path | None:
    return admin_of(record.path, record.repository)


def admin_of(place: str, repository: str) -> Path | None:
    """git's own directory of a worktree of this repository, if each of the two names the other."""
    text = _read(Path(place, ".git"))
    if not text.startswith("gitdir: "):
        return None
    admin = Path(os.path.realpath(Path(place, text.removeprefix("gitdir: ").strip())))
    if str(admin.parent) != f"{repository}/worktrees":
        return None
    back = _read(admin / "gitdir").strip()
    return admin if back and os.path.realpath(back) == f"{place}/.git" else None


def _read(path: Path) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 4096).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
