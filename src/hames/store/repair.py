"""Cuts off a torn last line of a log (after a crash or a power cut), and keeps what was cut in another file."""

import os

from hames.private_files import descriptor
from hames.store.system_calls import Disk, write_all

TORN = "events.torn"
"""The file beside the log that keeps what was cut off."""


def cut_incomplete_end(disk: Disk, fd: int, good_bytes: int, *, at: int) -> None:
    """The log ends after its last whole line. `at` is the thread's directory."""
    flags, start = os.O_WRONLY | os.O_CREAT | os.O_APPEND, good_bytes
    with descriptor(disk.open(TORN, flags, at=at)) as saved:
        while chunk := os.pread(fd, 1 << 20, start):
            start += len(chunk)
            write_all(disk, saved, chunk)
    disk.truncate(fd, good_bytes)
