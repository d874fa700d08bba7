"""Directories and files that nobody but this user may read, whatever the umask is.

`Path.mkdir(mode=0o700, parents=True)` gives the mode to the last directory only, and `write_text` gives none.
"""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path


def private_directory(path: Path) -> Path:
    """Makes it where it is missing, and every missing directory above it, with 0700. Raises `OSError`."""
    missing: list[Path] = []
    place = path
    while not place.exists():
        missing.append(place)
        place = place.parent
    for one in reversed(missing):
        with contextlib.suppress(FileExistsError):  # somebody else made it in the meantime
            os.mkdir(one, 0o700)  # noqa: PTH102 - exactly this mode, and no parents
    if not path.is_dir():
        raise NotADirectoryError(f"{str(path)!r} is not a directory")
    return path


def write_private(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Replaces a file with one of mode 0600: a reader sees the old content or the new one. Raises `OSError`."""
    private_directory(path.parent)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    fresh.replace(path)
    if sync:
        sync_directory(path.parent)


def create_private(path: Path, data: bytes) -> bool:
    """Makes a file that is not there yet, whole and safe on disk. False: it was there. Raises `OSError`."""
    private_directory(path.parent)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(8).hex()}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)  # of two at once one wins, and nobody sees half a file
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    sync_directory(path.parent)
    return True


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a file that is made with 0600 where it is missing. Raises `OSError`."""
    private_directory(path.parent)
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)


def sync_directory(path: Path) -> None:
    with descriptor(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
        os.fsync(fd)


@contextlib.contextmanager
def descriptor(fd: int) -> Generator[int]:
    """An open file descriptor, closed in the end."""
    try:
        yield fd
    finally:
        os.close(fd)
