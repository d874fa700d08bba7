"""The second name of each log, in the user's state directory: a deleted workspace takes no thread along.

On the same file system it is a hard link and costs nothing. Elsewhere it is a copy, which gets what the log got
whenever the log is synced, so before anybody hears of the end of a turn.

A name whose file has no other one takes space of its own: its thread was deleted behind our back, or it is a copy. It
is deleted some days after its last change, and the oldest go first when they take too much (see `delete_old_names`).
"""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from hames.domain.ids import ThreadId
from hames.domain.value import Value
from hames.private_files import descriptor, open_private, private_directory
from hames.store.places import EVENTS, THREAD_ID, Claim
from hames.store.system_calls import FILE, Disk, plain, write_all

DIRECTORY = "kept"
END = ".jsonl"
LIVE_END = ".live"
LOCK_END = ".lock"
RESTORED_END = ".restored"
"""Of a file whose thread is being restored."""
REPLACED_END = ".replaced"
"""Of a file that had the name before another file took the place of its log."""
MOST_BYTES = 1 << 30
"""So much may be taken by names that take space of their own, of all workspaces together."""
DAY_SECONDS = 86_400
_UNLINKABLE = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES)


class KeptName(Value):
    """A thread that can be restored, or is still where it belongs."""

    thread_id: ThreadId
    path: Path
    changed_at: float
    size: int


class SecondName:
    """Of one log that is open for writing. Nothing here fails: a thread works without it."""

    def __init__(self, path: Path, disk: Disk, *, copy_fd: int | None = None) -> None:
        self.path = path
        self._disk = disk
        self._fd = copy_fd
        self._waiting: list[bytes] = []

    @property
    def is_copy(self) -> bool:
        return self._fd is not None

    def add(self, data: bytes) -> None:
        if self._fd is not None:
            self._waiting.append(data)

    def catch_up(self) -> None:
        """Writes to a copy what the log has more than it."""
        if self._fd is None or not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        try:
            write_all(self._disk, self._fd, b"".join(waiting))
            self._disk.sync(self._fd)
        except OSError:
            self.close()  # the next opening begins with comparing it

    def delete(self) -> None:
        """Its log has another one."""
        self.close()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def name_in(home: Path, thread_id: ThreadId) -> Path:
    return home / DIRECTORY / f"{thread_id}{END}"


def give_second_name(home: Path | None, thread_id: ThreadId, log_fd: int, *, at: int, disk: Disk) -> SecondName | None:
    """`at` is the thread's directory, `log_fd` its open log. None where nothing can be kept."""
    if home is None:
        return None
    try:
        path = name_in(home, thread_id)
        private_directory(path.parent)
        about = os.fstat(log_fd)
        with contextlib.suppress(FileNotFoundError):
            there = path.lstat()
            if (there.st_dev, there.st_ino) == (about.st_dev, about.st_ino):
                return SecondName(path, disk)
            if there.st_dev == about.st_dev or there.st_nlink > 1:
                path.replace(path.with_suffix(REPLACED_END))  # a pull has brought another file, perhaps
        if not path.exists():
            try:
                disk.link(EVENTS, path, at=at)
                return SecondName(path, disk)
            except OSError as failure:
                if failure.errno not in _UNLINKABLE:
                    raise
        return SecondName(path, disk, copy_fd=_copy(path, log_fd, disk))
    except OSError:
        return None


def _copy(path: Path, log_fd: int, disk: Disk) -> int:
    """A copy that is as long as the log, open for more. Raises `OSError`."""
    fd = plain(open_private(path, os.O_RDWR | os.O_APPEND | FILE))
    try:
        size, length = os.fstat(fd).st_size, os.fstat(log_fd).st_size
        if size > length or os.pread(fd, 4096, max(0, size - 4096)) != os.pread(
            log_fd, min(size, 4096), max(0, size - 4096)
        ):
            disk.truncate(fd, 0)
            size = 0
        while chunk := os.pread(log_fd, 1 << 20, size):
            write_all(disk, fd, chunk)
            size += len(chunk)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_live_file(home: Path | None, thread_id: ThreadId) -> int:
    """For what is told while the thread's own directory is gone. Raises `OSError`."""
    if home is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return open_private(name_in(home, thread_id).with_suffix(LIVE_END), os.O_WRONLY | os.O_APPEND | FILE)


def lock_elsewhere(home: Path | None, thread_id: ThreadId) -> int:
    """A lock for a log on a file system that has none: it holds among the processes of this user. Raises `OSError`."""
    if home is None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    fd = open_private(name_in(home, thread_id).with_suffix(LOCK_END), os.O_RDWR | FILE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd


def delete_name(home: Path | None, thread_id: ThreadId) -> None:
    """Raises `OSError`."""
    if home is None:
        return
    for end in (LOCK_END, LIVE_END, REPLACED_END, END):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            name_in(home, thread_id).with_suffix(end).unlink()


def kept_names(home: Path) -> Iterator[KeptName]:
    """Of every thread that has one."""
    try:
        entries = list(os.scandir(home / DIRECTORY))
    except OSError:
        return
    by_name = {entry.name: entry for entry in entries}
    for entry in entries:
        name, _, end = entry.name.rpartition(".")
        if f".{end}" not in (END, RESTORED_END) or not THREAD_ID.fullmatch(name):
            continue
        if f".{end}" == END and name + RESTORED_END in by_name:  # somebody was killed while restoring it
            continue
        with contextlib.suppress(OSError):
            about = entry.stat(follow_symlinks=False)
            if about.st_size:
                yield KeptName(
                    thread_id=ThreadId(name), path=Path(entry.path), changed_at=about.st_mtime, size=about.st_size
                )


def link_unnamed(home: Path, threads: int) -> None:
    """Gives the logs that have no second name one, where that is a hard link. `threads` is the open directory."""
    named = {kept.thread_id for kept in kept_names(home)}
    missing = [one.name for one in os.scandir(threads) if one.name not in named and THREAD_ID.fullmatch(one.name)]
    if not missing:
        return
    private_directory(home / DIRECTORY)
    for name in missing:
        if (home / "ephemeral" / name).exists():
            continue
        try:
            os.link(f"{name}/{EVENTS}", name_in(home, ThreadId(name)), src_dir_fd=threads, follow_symlinks=False)
        except OSError as failure:
            if failure.errno == errno.EXDEV:
                return


def delete_old_names(state: Path, days: int, *, now: float | None = None, most_bytes: int = MOST_BYTES) -> int:
    """Of all workspaces; returns how many. Names of logs that are still in their place cost nothing, and stay."""
    oldest = (time.time() if now is None else now) - days * DAY_SECONDS
    alone: list[tuple[float, int, Path]] = []
    for folder in (state / "workspaces").glob(f"*/{DIRECTORY}"):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                if about.st_nlink == 1:
                    alone.append((about.st_mtime, about.st_size, Path(entry.path)))
    alone.sort(reverse=True)
    taken = deleted = 0
    for changed_at, size, path in alone:
        taken += size
        if changed_at < oldest or taken > most_bytes:
            with contextlib.suppress(OSError):
                path.unlink()
                deleted += 1
    return deleted


def tidy(home: Path, threads: int, days: int) -> None:
    """`home` is what the state directory keeps for the open directory `threads`."""
    with contextlib.suppress(OSError):
        if days:
            link_unnamed(home, threads)
        stamp = home.parent / ".tidied"
        with contextlib.suppress(FileNotFoundError):
            if time.time() - stamp.stat().st_mtime < DAY_SECONDS:
                return
        os.close(open_private(stamp, os.O_WRONLY))
        os.utime(stamp)
        delete_old_names(home.parent.parent, days)


def is_named_here(thread_id: ThreadId, *, threads: int | None) -> bool:
    """Whether the thread is in its place, and not just being restored."""
    if threads is None:
        return False
    try:
        with descriptor(os.open(thread_id, os.O_RDONLY | os.O_DIRECTORY | FILE, dir_fd=threads)) as at:
            return os.stat(EVENTS, dir_fd=at, follow_symlinks=False).st_size > 0
    except OSError:
        return False


class MissingThread(Value):
    """`claim` is the one that its log was written under."""

    kept: KeptName
    claim: Claim

    @property
    def thread_id(self) -> ThreadId:
        return self.kept.thread_id


def find_missing(claims: Iterable[Claim], threads: int | None) -> list[MissingThread]:
    """The threads of these claims that are not in the open directory `threads`, the latest first."""
    found: dict[ThreadId, MissingThread] = {}
    for claim in claims:
        for kept in kept_names(claim.home) if claim.home is not None else ():
            if kept.thread_id not in found and not is_named_here(kept.thread_id, threads=threads):
                found[kept.thread_id] = MissingThread(kept=kept, claim=claim)
    return sorted(found.values(), key=lambda one: one.kept.changed_at, reverse=True)
