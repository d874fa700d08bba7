"""Remembers, outside the workspace, which commands have run and have not been looked at yet.

A harness that is killed in the middle of a command never gets to look at what the command left. The next one finds
the state from before the command in a file, and looks then. A file belongs to whoever holds a lock on it; the kernel
lets go of the lock of a process that is gone.
"""

import fcntl
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from hames.domain.value import Value
from hames.private_files import descriptor, private_directory
from hames.sandbox.walls.after_command.git.state import Piece

_RUNNING, _DONE = b"1", b"0"


class Snapshot(Value):
    """What there was before a command. Paths are bytes, because names of files are."""

    roots: tuple[bytes, ...]
    hooks_paths: tuple[bytes, ...]
    since: tuple[int, ...]
    """The time of each root's file system, in nanoseconds."""
    pieces: dict[bytes, Piece]
    tasks: dict[bytes, tuple[int, ...]]
    shut: tuple[bytes, ...] = ()
    """What the command cannot change, whatever it does."""
    complete: bool = True
    """Whether there was time to look at everything."""


class PendingCheck:
    """The file of one set of roots. Writing it again costs nothing while the state before stays the same."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._written = b""

    def begin(self, snapshot: Snapshot) -> None:
        content = msgspec.msgpack.encode(snapshot)
        if content != self._written:
            os.pwrite(self._file, _DONE + content, 0)
            os.ftruncate(self._file, 1 + len(content))
            self._written = content
        os.pwrite(self._file, _RUNNING, 0)

    def end(self) -> None:
        os.pwrite(self._file, _DONE, 0)

    def close(self) -> None:
        """Only once nothing is pending."""
        with suppress(OSError):
            self._path.unlink()
        os.close(self._file)


class PendingChecks:
    """All of them. An empty `directory`: nothing is remembered beyond this process."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory) if directory else None

    def open(self) -> PendingCheck | None:
        if self._directory is None:
            return None
        try:
            private_directory(self._directory)
            return PendingCheck(self._directory / secrets.token_hex(8))
        except OSError:  # a state directory that cannot be written to must not stop the work
            return None

    def any_left(self) -> bool:
        return self._directory is not None and self._directory.is_dir() and any(self._directory.iterdir())

    def recover(self, look: Callable[[Snapshot], bool]) -> None:
        """Calls `look` for those of harnesses that are gone, and forgets the ones that it says are done."""
        if self._directory is None or not self.any_left():
            return
        for path in sorted(self._directory.iterdir()):
            with suppress(OSError), descriptor(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                snapshot = _decode(path.read_bytes())
                if snapshot is None or look(snapshot):
                    path.unlink(missing_ok=True)


def _decode(content: bytes) -> Snapshot | None:
    """None: nothing is pending, or another version wrote it."""
    if not content.startswith(_RUNNING):
        return None
    try:
        return msgspec.msgpack.decode(content[1:], type=Snapshot)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
