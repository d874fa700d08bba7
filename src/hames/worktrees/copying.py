"""Copies files from one checkout to another without ever following a symbolic link.

Names come from the repository: a path may lead through what is a link in one of the two checkouts.
"""

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress

from hames.private_files import descriptor

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20


def copy_paths(source: str, target: str, paths: Iterable[str]) -> list[str]:
    """Makes each of these relative paths in `target` what it is in `source`: a file, a link, or gone. Returns those
    that were not copied: directories (repositories of their own), sockets, what cannot be read."""
    skipped: list[str] = []
    with descriptor(os.open(source, _DIRECTORY)) as here, descriptor(os.open(target, _DIRECTORY)) as there:
        for path in paths:
            parts = [part for part in path.split("/") if part not in ("", ".")]
            if not parts or ".." in parts or ".git" in parts:
                skipped.append(path)
                continue
            try:
                if not _copy(here, there, parts):
                    skipped.append(path)
            except OSError:
                skipped.append(path)
    return skipped


def _copy(here: int, there: int, parts: list[str]) -> bool:
    name = parts[-1]
    with _parent(here, parts, make=False) as source:
        found = _lstat(name, source) if source >= 0 else None
        if found is not None and stat.S_ISDIR(found.st_mode):
            return False
        with _parent(there, parts, make=found is not None) as target:
            if target < 0:
                return True  # neither here nor there
            if found is None:
                _remove(name, target)
                return True
            if stat.S_ISLNK(found.st_mode):
                _remove(name, target)
                os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
                return True
            if not stat.S_ISREG(found.st_mode):
                return False
            _copy_file(name, source, target)
            return True


def _copy_file(name: str, source: int, target: int) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with descriptor(os.open(name, flags, dir_fd=source)) as old:
        _remove(name, target)
        made = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with descriptor(os.open(name, made, 0o600, dir_fd=target)) as new:
            while data := os.read(old, _CHUNK):
                while data:
                    data = data[os.write(new, data) :]
            os.fchmod(new, stat.S_IMODE(os.fstat(old).st_mode) & 0o777)


class _parent:  # noqa: N801 - reads as a function
    """The directory above a path, opened component by component; -1: there is none. `make`: it is made, and what is
    in the way (a link, a file) is removed."""

    def __init__(self, top: int, parts: list[str], *, make: bool) -> None:
        self._top, self._parts, self._make = top, parts[:-1], make
        self._fd = -1

    def __enter__(self) -> int:
        self._fd = os.dup(self._top)
        for part in self._parts:
            if (below := self._open(part)) < 0:
                self.__exit__()
                return -1
            os.close(self._fd)
            self._fd = below
        return self._fd

    def _open(self, part: str) -> int:
        try:
            return os.open(part, _DIRECTORY, dir_fd=self._fd)
        except OSError:
            if not self._make:
                return -1
        _remove(part, self._fd)
        os.mkdir(part, 0o777, dir_fd=self._fd)
        return os.open(part, _DIRECTORY, dir_fd=self._fd)

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _lstat(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _remove(name: str, directory: int) -> None:
    found = _lstat(name, directory)
    if found is None:
        return
    if stat.S_ISDIR(found.st_mode):
        shutil.rmtree(name, dir_fd=directory)
    else:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
