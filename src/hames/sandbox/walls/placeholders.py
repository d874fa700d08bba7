"""Placeholders: empty things that stand where a guarded name does not exist yet, for the time of a run.

A name that does not exist cannot be a mount point. Removing one while another run uses it would take that run's
guard away (the kernel unmounts what is removed from outside), so users hold a shared lock on the root, and
whoever leaves last cleans up.
"""

import errno
import fcntl
import os
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path

from hames.domain.errors import SandboxUnavailable
from hames.domain.guardrails import PLACEHOLDER_MODE
from hames.private_files import descriptor
from hames.sandbox.walls.guarded_paths import UNFINISHED_MODE, GuardedPaths, is_unfinished
from hames.sandbox.walls.mounts import Mount

_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)
SLOWLY = "placeholders"
_PATIENCE_SECONDS = 0.5
_LOCK_TRIES = 100
_LOCK_PAUSE_SECONDS = 0.002


class Placeholders:
    """Made for one root of one run, by `stand`; taken away by `leave`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock: int | None = None
        self._guards = GuardedPaths()

    def lock(self) -> None:
        """Before the root is looked at: what another run is taking away is not mistaken for the user's own."""
        with suppress(OSError):
            self._lock = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            _flock(self._lock, fcntl.LOCK_SH)

    def create(self, guards: GuardedPaths) -> tuple[Mount, ...]:
        """Makes them, and returns the mounts that hold. Where we may not write, the program may not either.

        Raises `SandboxUnavailable` when a guard cannot be set up for another reason.
        """
        self._guards = guards
        needless: set[str] = set()
        for path, content in (*((path, None) for path in guards.directories), *guards.files):
            try:
                _make(path, content)
            except FileExistsError:
                if content is not None:
                    _finish(path, content)
            except OSError as error:
                if error.errno not in _NOT_OURS:
                    raise SandboxUnavailable(f"{path!r} cannot be guarded: {error.strerror}") from error
                needless.add(path)
        return tuple(mount for mount in guards.mounts if mount.path not in needless)

    def remove(self) -> list[str]:
        """Takes them away if nobody else needs them. Mends guarded links that were changed, and says which."""
        notes = [note for path, target in self._guards.links if (note := _restore_link(path, target))]
        lock, self._lock = self._lock, None
        if lock is None:
            return notes
        rest = list(self._guards.directories)
        if _flock(lock, fcntl.LOCK_EX, tries=1):
            for path, content in self._guards.files:
                _remove_file(path, content)
            # A disk that is busy takes milliseconds to remove an empty directory. It is waited for, because undo takes
            # what changes in the directory later for somebody else's; but not for long, because the command has ended.
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while rest and time.monotonic() < deadline:
                _remove_directory(rest.pop())
            if rest:
                threading.Thread(target=_remove_slowly, args=(rest, lock), name=SLOWLY).start()
                return notes
        os.close(lock)
        return notes


def _remove_slowly(directories: list[str], lock: int) -> None:
    for path in directories:
        _remove_directory(path)
    os.close(lock)


def _make(path: str, content: str | None) -> None:
    """A process that is killed leaves all of it or nothing, where the file system can. Raises `OSError`."""
    if content is None:
        os.mkdir(path, PLACEHOLDER_MODE)
        os.chmod(path, PLACEHOLDER_MODE)
        return
    if os.path.lexists(path):
        raise FileExistsError
    try:
        _make_whole(path, content)
    except FileExistsError:
        raise
    except OSError:  # not every file system has files without a name; if it is another problem, it is met again
        with descriptor(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, UNFINISHED_MODE)) as file:
            _fill(file, content)


def _make_whole(path: str, content: str) -> None:
    flags = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC
    with descriptor(os.open(str(Path(path).parent), flags, UNFINISHED_MODE)) as file:
        _fill(file, content)
        # With a directory to start from, Python follows the link, which is what gives the file its name.
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=file)


def _fill(file: int, content: str) -> None:
    os.write(file, content.encode())
    os.fchmod(file, PLACEHOLDER_MODE)


def _finish(path: str, content: str) -> None:
    """Written where it is, which does no harm when another run does the same."""
    with suppress(OSError):
        if is_unfinished(Path(path), content):
            os.chmod(path, UNFINISHED_MODE)
            with descriptor(os.open(path, os.O_WRONLY | os.O_NOFOLLOW)) as file:
                _fill(file, content)


def _flock(lock: int, operation: int, *, tries: int = _LOCK_TRIES) -> bool:
    for attempt in range(tries):
        try:
            fcntl.flock(lock, operation | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if attempt + 1 < tries:
                time.sleep(_LOCK_PAUSE_SECONDS)
        except OSError:  # a file system without locks: nobody else can hold one
            return True
    return False


def _remove_directory(path: str) -> None:
    with suppress(OSError):
        if stat.S_IMODE(os.lstat(path).st_mode) == PLACEHOLDER_MODE:
            os.rmdir(path)


def _remove_file(path: str, content: str) -> None:
    with suppress(OSError):
        about = os.lstat(path)
        ours = stat.S_ISREG(about.st_mode) and stat.S_IMODE(about.st_mode) == PLACEHOLDER_MODE
        if ours and Path(path).read_text() == content:
            os.unlink(path)


def _restore_link(path: str, target: str) -> str:
    """A symbolic link cannot be a mount point. If it was replaced, what replaced it is moved aside."""
    link = Path(path)
    if link.is_symlink() and str(link.readlink()) == target:
        return ""
    aside = link.with_name(f"{link.name}.planted-{time.time_ns():x}")
    with suppress(OSError):
        if os.path.lexists(link):
            link.rename(aside)
        link.symlink_to(target)
    return f"the command replaced the protected link {path!r}; it was restored"
