"""Opening and changing files below a writable root without following a link on the way.

A command that still runs in the same workspace could swap a directory for a link while we are at work, and then we,
outside the sandbox, would change a file somewhere else.
"""

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress

from hames.private_files import descriptor

PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Opens a directory that may be entered, even if it may not be listed."""

ASIDE = "disabled-by-hames"
_ASIDES = 100


@contextmanager
def open_directory(root: str, directory: str) -> Generator[int]:
    """A descriptor of a directory below `root` (or of `root` itself), whatever its depth. Raises `OSError`."""
    here = os.open(root, PLACE)
    try:
        for name in directory[len(root.rstrip("/")) :].split("/"):
            if name:
                below = os.open(name, PLACE, dir_fd=here)
                os.close(here)
                here = below
        listed = open_listed(here)
    finally:
        os.close(here)
    with descriptor(listed):
        yield listed


def open_listed(place: int) -> int:
    """A descriptor that lists the directory that `place` stands for. Raises `OSError`.

    A directory of ours that can be entered and not listed hides what is in it from us, and not from git.
    """
    try:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    except PermissionError:
        about = os.fstat(place)
        if about.st_uid != os.geteuid() or not about.st_mode & stat.S_IXUSR:
            raise
        mode = stat.S_IMODE(about.st_mode)
        _chmod(place, mode | stat.S_IRUSR)
        try:
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
        finally:
            _chmod(place, mode)


def _chmod(file: int, mode: int) -> None:
    try:
        os.fchmod(file, mode)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        os.chmod(f"/proc/self/fd/{file}", mode)  # a descriptor that only stands for the path


@contextmanager
def writable(directory: int) -> Generator[None]:
    """A directory that its owner may not write to can be written to for a moment."""
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if os.geteuid() == 0 or mode & stat.S_IRWXU == stat.S_IRWXU:
        yield
        return
    os.fchmod(directory, mode | stat.S_IRWXU)
    try:
        yield
    finally:
        os.fchmod(directory, mode)


def move_aside(directory: int, name: str) -> str:
    """Gives it a name that no program looks for, and returns that name. Raises `OSError`."""
    with writable(directory):
        for number in range(1, _ASIDES):
            aside = f"{name}.{ASIDE}" if number == 1 else f"{name}.{ASIDE}-{number}"
            try:
                os.stat(aside, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
                return aside
    raise FileExistsError(f"too many files named {name}.{ASIDE}")


def replace(directory: int, name: str, content: bytes, *, mode: int, owner: os.stat_result) -> None:
    """Writes the file anew. Raises `OSError`."""
    temporary = f".{secrets.token_hex(8)}.{ASIDE}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with writable(directory), open(os.open(temporary, flags, 0o600, dir_fd=directory), "wb", buffering=0) as file:
        try:
            with suppress(PermissionError):
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) :]
            os.fchmod(file.fileno(), mode & 0o777)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise


def drop_mode_bits(directory: int, name: str, bits: int) -> None:
    """Of a regular file only. Raises `OSError`."""
    # One that its owner may not read can be opened as well.
    with descriptor(os.open(name, PLACE & ~os.O_DIRECTORY, dir_fd=directory)) as file:
        about = os.fstat(file)
        if stat.S_ISREG(about.st_mode) and about.st_mode & bits:
            _chmod(file, stat.S_IMODE(about.st_mode) & ~bits)


def read_file(directory: int, name: str, limit: int) -> tuple[os.stat_result, bytes | None]:
    """A regular file and its content; no content if it cannot be read or is longer than `limit`. Raises `OSError`."""
    about = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISREG(about.st_mode) or about.st_size > limit:
        return about, None
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except PermissionError:
        return about, None
    with descriptor(opened) as file:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return about, None
        content = bytearray()
        while len(content) <= limit and (chunk := os.read(file, limit + 1 - len(content))):
            content += chunk
        return about, bytes(content) if len(content) <= limit else None
