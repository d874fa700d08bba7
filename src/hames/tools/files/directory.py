"""Files below a directory: reading and listing them, bounded, without ever blocking.

A path here is relative to the root and has no `..` (`places.locate` sees to that).
Whatever is no plain file of a fair size is refused by type before it is opened.
"""

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Self

from hames.ports.workspace import DirectoryEntry, FileRefused, NotRegular, TooLarge, Unsteady
from hames.tools.files.open_beneath import filesystem_type, open_beneath
from hames.tools.files.refusals import explained, shown

CHUNK_BYTES = 1 << 20
MAX_NAMES = 100_000

MADE_UP = frozenset(
    {
        0x9FA0,  # proc
        0x62656572,  # sysfs
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0xCAFE4A11,  # bpf
    }
)
"""File systems whose files are questions to the kernel: no size, no end, and reading some of them has effects."""


class LocalDirectory:
    """Implements `ports.Directory`, on this machine. Raises `FileRefused` and nothing else."""

    def __init__(self, root: str, *, by_kernel: bool | None = None) -> None:
        self.root = root
        self._by_kernel = by_kernel
        try:
            self.fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise explained(error, root) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self.fd)

    def read(self, path: str, *, limit: int, follow: bool = True) -> bytes:
        """The whole file, or a refusal: more than `limit` bytes, or a file that changes meanwhile."""
        with self._regular(path, follow=follow) as (fd, before):
            if before.st_size > limit:
                raise TooLarge(f"{shown(path)!r} has {before.st_size:,} bytes; the limit here is {limit:,}")
            # One byte more than there should be: a file that grows must not be read for as long as it grows.
            content = _drained(fd, before.st_size + 1)
            after = os.fstat(fd)
        if len(content) != before.st_size or after.st_mtime_ns != before.st_mtime_ns:
            raise Unsteady(f"{shown(path)!r} changes while it is read; try again")
        return content

    def head(self, path: str, *, limit: int) -> tuple[bytes, os.stat_result]:
        """Its first bytes, and what it is. Links are followed as long as they stay below."""
        with self._regular(path, follow=True) as (fd, found):
            return _drained(fd, limit), found

    def is_directory(self, path: str) -> bool:
        return stat.S_ISDIR(self.mode(path))

    def mode(self, path: str, *, follow: bool = True) -> int:
        return self.look(path, follow=follow).st_mode

    def look(self, path: str, *, follow: bool = True) -> os.stat_result:
        """What stands there, without opening it."""
        fd = self.open(path, os.O_PATH, follow=follow)
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def open(self, path: str, flags: int, *, follow: bool = True) -> int:
        try:
            return open_beneath(self.fd, path, flags, follow=follow, by_kernel=self._by_kernel)
        except OSError as error:
            raise explained(error, path) from error

    def walk(
        self, path: str, *, depth: int, limit: int, skip: frozenset[str] = frozenset()
    ) -> Iterator[DirectoryEntry]:
        """What is in the directory, sorted, `depth` levels of it, `limit` entries at most. Enters no link."""
        left = limit
        levels = [_level(self.open(path, os.O_RDONLY | os.O_DIRECTORY), "", path)]
        try:
            while levels and left > 0:
                fd, entries = levels[-1]
                entry = next(entries, None)
                if entry is None:
                    os.close(fd)
                    levels.pop()
                    continue
                left -= 1
                yield entry
                name = entry.path.rpartition("/")[2]
                if entry.kind == "directory" and len(levels) < depth and name not in skip:
                    levels += _entered(fd, name, entry.path)
        finally:
            for fd, _ in levels:
                os.close(fd)

    @contextmanager
    def _regular(self, path: str, *, follow: bool) -> Generator[tuple[int, os.stat_result], None, None]:
        expected = self.look(path, follow=follow)  # opening a device or a FIFO can have effects; looking has none
        _refuse_special(expected, path)
        fd = self.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, follow=follow)
        try:
            there = os.fstat(fd)
            _refuse_special(there, path)
            if filesystem_type(fd) in MADE_UP:
                raise NotRegular(f"{shown(path)!r} is generated by the kernel; use the shell to read it")
            yield fd, there
        except OSError as error:
            raise explained(error, path) from error
        finally:
            os.close(fd)


def _refuse_special(there: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(there.st_mode):
        raise NotRegular(f"{shown(path)!r} is {_kind_words(there.st_mode)}, not a regular file")


def _kind_words(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"))
    return next((words for holds, words in kinds if holds(mode)), "a device")


def _drained(fd: int, limit: int) -> bytes:
    chunks: list[bytes] = []
    while limit > 0 and (chunk := os.read(fd, min(limit, CHUNK_BYTES))):
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


def _entered(parent: int, name: str, path: str) -> list[tuple[int, Iterator[DirectoryEntry]]]:
    """One level down, or nothing: a directory that cannot be read, or is none any more, is shown and not entered."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return []
    try:
        return [_level(fd, f"{path}/", path)]
    except FileRefused:
        return []


def _level(fd: int, prefix: str, path: str) -> tuple[int, Iterator[DirectoryEntry]]:
    """The directory and what is in it, sorted. Closes the descriptor when it fails."""
    try:
        with os.scandir(fd) as found:
            names = sorted(entry.name for entry in islice(found, MAX_NAMES))
    except OSError as error:
        os.close(fd)
        raise explained(error, path) from error
    return fd, (_entry(fd, prefix, name) for name in names)


def _entry(fd: int, prefix: str, name: str) -> DirectoryEntry:
    path = prefix + name
    try:
        there = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(there.st_mode):
            return DirectoryEntry(path=path, kind="link", target=os.readlink(name, dir_fd=fd))
    except OSError:
        return DirectoryEntry(path=path, kind="other")
    if stat.S_ISDIR(there.st_mode):
        return DirectoryEntry(path=path, kind="directory")
    if stat.S_ISREG(there.st_mode):
        return DirectoryEntry(path=path, kind="file", size=there.st_size)
    return DirectoryEntry(path=path, kind="other")
