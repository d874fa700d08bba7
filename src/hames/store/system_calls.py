"""The file system, as far as the store needs it. Tests put one that fails in its place.

Everything is opened relative to a directory that is already open, and never
through a symbolic link: a cloned repository may bring a `.harness` that points elsewhere.
"""

import contextlib
import errno
import os
import stat

from hames.private_files import descriptor

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Disk:
    """Each method is one system call, so that tests can make each of them fail."""

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def open(self, name: str, flags: int, *, at: int) -> int:
        return plain(os.open(name, flags | FILE, 0o600, dir_fd=at))

    def rename(self, old: str, new: str, *, at: int, to: int | None = None) -> None:
        os.rename(old, new, src_dir_fd=at, dst_dir_fd=at if to is None else to)

    def make_directory(self, name: str, *, at: int) -> None:
        os.mkdir(name, 0o700, dir_fd=at)

    def sync_directory(self, fd: int) -> None:
        os.fsync(fd)

    def unlink(self, name: str, *, at: int) -> None:
        os.unlink(name, dir_fd=at)

    def link(self, name: str, path: os.PathLike[str], *, at: int) -> None:
        os.link(name, path, src_dir_fd=at, follow_symlinks=False)


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """A disk that is nearly full takes a part. Raises `OSError`, and a part may be written then."""
    while data:
        if not (done := disk.write(fd, data)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        data = data[done:]


def plain(fd: int) -> int:
    """The descriptor, if it is a plain file: a FIFO in its place would make us wait for ever. Raises `OSError`."""
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise FileNotFoundError(errno.ENOENT, "not a plain file")


def directory(name: str | os.PathLike[str], *, at: int | None = None, create: bool = False) -> int:
    """An open directory. Created 0700 if asked for; a link in its place is refused by the kernel."""
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=at)
    return os.open(name, DIRECTORY, dir_fd=at)


def write_whole(disk: Disk, name: str, data: bytes, *, at: int, sync: bool = False) -> None:
    """Replace a small file, or a link in its place, so that a reader sees the old or the new content.

    Without `sync` nobody waits for the disk: after a power cut the file may be old or empty.
    """
    temporary = f".{name}.{os.urandom(8).hex()}.new"
    try:
        with descriptor(disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, at=at)) as fd:
            write_all(disk, fd, data)
            if sync:
                disk.sync(fd)
        disk.rename(temporary, name, at=at)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.unlink(temporary, at=at)
        raise
    if sync:
        disk.sync_directory(at)


def open_plain(name: str, *, at: int) -> int:
    """A plain file, to be read. Raises `OSError`."""
    return plain(os.open(name, os.O_RDONLY | FILE, dir_fd=at))


def find_plain(name: str, *, at: int) -> int | None:
    """The same, or None where it cannot be opened."""
    try:
        return open_plain(name, at=at)
    except OSError:
        return None


def read_small(name: str, *, at: int, limit: int = 1 << 20) -> bytes:
    with descriptor(open_plain(name, at=at)) as fd:
        return os.read(fd, limit)
