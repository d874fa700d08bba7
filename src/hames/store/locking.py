"""One writer of a log, by a lock on its file; and which process has it, in words."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from hames.domain.errors import StorageFailed, ThreadInUse
from hames.domain.ids import ThreadId
from hames.store.places import Claim
from hames.store.second_names import lock_elsewhere

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def lock_log(fd: int, thread_id: ThreadId, claim: Callable[[], Claim]) -> int | None:
    """Raises `ThreadInUse`, `StorageFailed`. The lock of another file is returned where the file system has none."""
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as failure:
            if failure.errno not in NO_LOCKS:
                raise
            return lock_elsewhere(claim().home, thread_id)
    except OSError as failure:
        if failure.errno not in (errno.EAGAIN, errno.EACCES):
            raise StorageFailed(
                f"cannot lock thread {thread_id!r}: {failure.strerror}; name another directory with --data-dir"
            ) from failure
        raise ThreadInUse(
            f"thread {thread_id!r} is in use by {lock_holder(fd)}, which takes no commands from here: "
            "wait until it ends, or stop it"
        ) from None
    return None


def lock_holder(fd: int) -> str:
    """Of the open file; "another process" where the system does not say."""
    found = os.fstat(fd)
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        pids = [int(row[4]) for row in rows if row[1:2] == ["FLOCK"] and row[5:6] == [file]]
    except (OSError, ValueError, IndexError):
        return "another process"
    return f"process {pids[0]}{_program(pids[0])}" if pids and pids[0] > 0 else "another process"


def _program(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    text = " ".join(word for word in words if word.isprintable())[:80].strip()
    return f" ({text})" if text else ""
