"""Deleting a thread's directory, so that whoever is killed in it leaves all of the thread or nothing of it."""

import contextlib
import os

from hames.domain.ids import ThreadId
from hames.private_files import descriptor
from hames.store.system_calls import Disk, directory

DELETED = "deleted"
"""Beside `threads`: what is being deleted. What a killed process left there is deleted by the next one."""


def delete_thread(disk: Disk, thread_id: ThreadId, *, threads: int) -> None:
    """`threads` is the open directory that it is in. Raises `OSError`."""
    with descriptor(directory("..", at=threads)) as root:
        with descriptor(directory(DELETED, at=root, create=True)) as deleted:
            from shutil import rmtree

            name = f"{thread_id}-{os.urandom(4).hex()}"
            disk.rename(thread_id, name, at=threads, to=deleted)
            for _ in range(3):  # a summary may just be written there; what is left is for the next start
                with contextlib.suppress(OSError):
                    rmtree(name, dir_fd=deleted)
                    break
        with contextlib.suppress(OSError):
            os.rmdir(DELETED, dir_fd=root)


def finish_deleting(threads: int) -> None:
    """What a killed process was about to delete."""
    with contextlib.suppress(OSError), descriptor(directory("..", at=threads)) as root:
        with descriptor(directory(DELETED, at=root)) as deleted:
            from shutil import rmtree

            for entry in list(os.scandir(deleted)):
                rmtree(entry.name, dir_fd=deleted, ignore_errors=True)
        os.rmdir(DELETED, dir_fd=root)
