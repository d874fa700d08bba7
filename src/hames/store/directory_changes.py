"""Tells when something changes in a directory: by inotify, and by looking once a second where there is none.

One inotify instance serves every follower of a store, because a user has few of them (often 128). No task of its own
reads it: one of those who wait does, and wakes the others.
"""

import ctypes
import errno
import logging
import os
import struct
import sys
from contextlib import suppress

import anyio

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""How often a follower looks without being told."""
POLL_WITHOUT_INOTIFY_SECONDS = 0.05

_MODIFY, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x2, 0x80, 0x100, 0x200, 0x400, 0x800
_MASK = _MODIFY | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_OVERFLOW = 0x4000
_HEADER = struct.Struct("iIII")


class DirectoryWatch:
    """One follower's interest in one directory."""

    def __init__(self) -> None:
        self.number = -1
        """What the kernel calls it; -1: it does not watch."""
        self.changed = anyio.Event()


class DirectoryChanges:
    def __init__(self) -> None:
        self._fd: int | None = None
        self._watches: dict[int, list[DirectoryWatch]] = {}
        self._waiting: list[DirectoryWatch] = []
        self._reading = False
        self._refused = False
        """There is no inotify here, or no instance is left."""

    def add(self, directory: int) -> DirectoryWatch:
        """Watches an open directory from now on."""
        watch = DirectoryWatch()
        self.move(watch, directory)
        return watch

    def move(self, watch: DirectoryWatch, directory: int) -> None:
        """Watches this directory instead of the one before."""
        self._drop(watch)
        fd = self._open()
        if fd is None:
            return
        number = _libc().inotify_add_watch(fd, f"/proc/self/fd/{directory}".encode(), _MASK)
        if number < 0:
            log.info("inotify.refused", extra={"error": os.strerror(ctypes.get_errno())})
            return
        watch.number = number
        self._watches.setdefault(number, []).append(watch)

    def remove(self, watch: DirectoryWatch) -> None:
        self._drop(watch)
        if not self._watches:
            self.close()

    def close(self) -> None:
        if self._fd is not None and not self._reading:  # whoever reads it closes it
            os.close(self._fd)
            self._fd = None

    async def wait(self, watch: DirectoryWatch) -> None:
        """Until something has changed since the last `wait`, or it is time to look anyway."""
        with anyio.move_on_after(POLL_SECONDS if watch.number >= 0 else POLL_WITHOUT_INOTIFY_SECONDS):
            self._waiting.append(watch)
            try:
                while not watch.changed.is_set() and watch.number >= 0 and not self._reading and self._fd is not None:
                    await self._read(self._fd)
                await watch.changed.wait()
            finally:
                self._waiting.remove(watch)
                self._pass_on()
        watch.changed = anyio.Event()

    async def _read(self, fd: int) -> None:
        """Waits for the kernel, and wakes all whom its news are for."""
        self._reading = True
        try:
            await anyio.wait_readable(fd)
        finally:
            self._reading = False
            if not self._watches:
                self.close()
        with suppress(BlockingIOError):
            self._wake(os.read(fd, 1 << 16))

    def _pass_on(self) -> None:
        """Somebody else has to read now: a change too many makes it look once, and read."""
        if not self._reading and self._waiting:
            self._waiting[0].changed.set()

    def _wake(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            number, mask, _, length = _HEADER.unpack_from(data, position)
            position += _HEADER.size + length
            told = self._watches.get(number, ())
            for watch in [one for many in self._watches.values() for one in many] if mask & _OVERFLOW else told:
                watch.changed.set()

    def _drop(self, watch: DirectoryWatch) -> None:
        if watch.number < 0:
            return
        left = [one for one in self._watches.pop(watch.number, ()) if one is not watch]
        if left:
            self._watches[watch.number] = left
        elif self._fd is not None:
            _libc().inotify_rm_watch(self._fd, watch.number)
        watch.number = -1

    def _open(self) -> int | None:
        if self._fd is None and not self._refused and sys.platform == "linux":
            fd = _libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if fd >= 0:
                self._fd = fd
            else:
                self._refused = ctypes.get_errno() != errno.EMFILE
                log.info("inotify.none", extra={"error": os.strerror(ctypes.get_errno())})
        return self._fd


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
