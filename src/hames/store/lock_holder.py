"""Which process holds the lock of a file, in words."""

import os
from pathlib import Path


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
