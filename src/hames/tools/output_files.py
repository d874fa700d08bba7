"""Output that is too long to be told: kept in private files that the model reads with `read`.

The files of a thread are deleted when it is closed. What a killed harness left is deleted by the next one.
"""

import fcntl
import io
import os
import shutil
from collections import deque
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from hames.domain.value import Value
from hames.private_files import private_directory

_LOCK = ".lock"


class OutputLimits(Value):
    file_bytes: int = 16 << 20
    """Of one command. What comes after it is dropped, and the result says so."""
    total_bytes: int = 64 << 20
    """Of one thread. The oldest files go first."""


class OutputFiles:
    """Of one thread. `directory` is where the directories of all threads are; empty: among the temporary files."""

    def __init__(self, directory: str = "", limits: OutputLimits | None = None) -> None:
        self._parent = directory
        self.limits = limits or OutputLimits()
        self._directory: Path | None = None
        self._lock: io.FileIO | None = None
        self._names: deque[str] = deque()
        self._sizes: dict[str, int] = {}
        self._count = 0

    def create(self) -> tuple[str, io.FileIO] | None:
        """None: there is no room for it on this machine."""
        try:
            directory = self._open_directory()
            self._count += 1
            path = directory / f"output-{self._count}.txt"
            file = io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w")
        except OSError:
            return None
        self._names.append(str(path))
        self._sizes[str(path)] = 0
        return str(path), file

    def grow(self, path: str, size: int) -> None:
        """Makes room for what is about to be written, at the cost of the oldest files."""
        if path in self._sizes:
            self._sizes[path] += size
        while len(self._names) > 1 and sum(self._sizes.values()) > self.limits.total_bytes:
            oldest = self._names.popleft()
            del self._sizes[oldest]
            with suppress(OSError):
                Path(oldest).unlink()

    def find(self, path: str) -> str | None:
        """The file of that name, if it is one of these."""
        return path if path in self._sizes else None

    def close(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
        self._directory, self._lock = None, None

    def _open_directory(self) -> Path:
        if self._directory is not None:
            return self._directory
        parent = None
        if self._parent:
            parent = Path(self._parent)
            private_directory(parent)
            _delete_abandoned(parent)
        directory = Path(mkdtemp(prefix="hames-output-", dir=parent))
        self._lock = io.FileIO(os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._directory = directory
        return directory


def _delete_abandoned(parent: Path) -> None:
    for directory in parent.glob("hames-output-*"):
        with suppress(OSError), (directory / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)


class OutputSpool:
    """Writes output to a file once it is longer than `room`, from its beginning. `path` is empty until then."""

    def __init__(self, files: OutputFiles, room: int) -> None:
        self._files = files
        self._room = room
        self._held: list[bytes] | None = []
        self._size = 0
        self._file: io.FileIO | None = None
        self.path = ""
        self.complete = True

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._held is not None:
            self._held.append(chunk)
            if self._size <= self._room:
                return
            chunk, self._held = b"".join(self._held), None
            if (created := self._files.create()) is not None:
                self.path, self._file = created
        self._write(chunk)

    def close(self) -> None:
        self._held = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def note(self) -> str:
        """For the model; empty when everything was told."""
        if not self.path or self._files.find(self.path) is None:
            return ""
        which = "all of it" if self.complete else f"the first {self._files.limits.file_bytes:,} bytes of it"
        return f"the output is {self._size:,} bytes long; {which} can be read with `read`: {self.path}"

    def _write(self, chunk: bytes) -> None:
        if self._file is None:
            return
        room = self._files.limits.file_bytes - self._file.tell()
        self.complete = self.complete and len(chunk) <= room
        chunk = chunk[:room]
        self._files.grow(self.path, len(chunk))
        try:
            while chunk:
                chunk = chunk[self._file.write(chunk) or 0 :]
        except OSError:  # the disk is full
            self.complete = False
            self.close()
