"""Leaves names out of directory listings that sandboxed commands ask the kernel for. This file runs alone.

Commands are started with a system-call filter that reports each `getdents64` here and waits for the answer. If the
directory is not one with hidden names, the answer is "go on", and the kernel carries out the call itself. Otherwise
this program makes the listing with the command's own descriptor and writes what is left of it into its memory.

It hides names and guards nothing: whatever fails here, the command gets the listing as it is. What keeps a name from
being made or read is the mount on it. It is a process of its own because the harness may hold Python's lock for long.

Its words are two descriptors: the socket through which it is told the names, and the one that the kernel reports to. A
message is `DIRECTORY\\0NAME\\0NAME...` and says all that is hidden there. It ends when the other side of the socket
closes. It imports little, and that from the standard library: the first command waits until it runs.
"""

import errno
import fcntl
import os
import select
import struct
import sys

LONGEST_BYTES = 64 * 1024

_RECEIVE, _ANSWER, _IS_WAITING, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_SAME_CPU = 1  # the two programs take turns, so neither needs to wake another processor
_GO_ON = 1
_REPORT = struct.Struct("<QIIiIQ6Q")
_ENTRY = struct.Struct("<QqHB")
_GETDENTS64 = {"x86_64": 217, "aarch64": 61}
_PIDFD_GETFD = 438
_LONGEST_LISTING = 1024 * 1024


class _Call:
    """One `getdents64` that waits for its answer."""

    def __init__(self, report: bytes | bytearray) -> None:
        self.number, self.thread, _, _, _, _, descriptor, self.address, room, *_ = _REPORT.unpack(report)
        self.descriptor, self.room = descriptor & 0xFFFFFFFF, room & 0xFFFFFFFF


class Listings:
    """Answers what the kernel reports on descriptor `reports`."""

    def __init__(self, reports: int) -> None:
        self._reports = reports
        self._hidden: dict[bytes, frozenset[bytes]] = {}
        try:  # noqa: SIM105 - contextlib takes longer to import than all the rest
            fcntl.ioctl(reports, _SET_FLAGS, _SAME_CPU)
        except OSError:
            pass  # before Linux 6.6

    def hide(self, message: bytes) -> None:
        directory, *names = message.split(b"\0")
        if names:
            self._hidden[directory] = frozenset(names)
        else:
            self._hidden.pop(directory, None)

    def answer(self) -> None:
        """Receives one report and answers it. A command that was ended meanwhile needs no answer."""
        report = bytearray(_REPORT.size)
        try:
            fcntl.ioctl(self._reports, _RECEIVE, report)
        except OSError:
            return
        call = _Call(report)
        names = self._hidden.get(_path_of(call))
        try:
            if names is not None:
                self._list(call, names)
                return
        except OSError:
            pass
        try:  # noqa: SIM105
            self._send(call.number, flags=_GO_ON)
        except OSError:
            pass  # nobody waits for it any more

    def _list(self, call: "_Call", names: frozenset[bytes]) -> None:
        """Raises `OSError` where this system does not let us. Then nothing has been listed yet."""
        opened: list[int] = []
        try:
            opened.append(os.pidfd_open(_process_of(call.thread)))
            # The same open file, not another one: the position in the directory is part of it.
            opened.append(_system_call(_PIDFD_GETFD, opened[0], call.descriptor, 0))
            opened.append(os.open(f"/proc/{call.thread}/mem", os.O_WRONLY | os.O_CLOEXEC))
            # From here on the descriptors belong to the process that asked, and to no other that got its number.
            fcntl.ioctl(self._reports, _IS_WAITING, struct.pack("<Q", call.number))
            _, directory, memory = opened
            before = os.lseek(directory, 0, os.SEEK_CUR)
            try:
                kept = _read(directory, min(call.room, _LONGEST_LISTING), names)
                if kept and os.pwrite(memory, kept, call.address) != len(kept):
                    raise OSError(errno.EFAULT, "the buffer is too small")
                self._send(call.number, value=len(kept))
            except OSError:
                os.lseek(directory, before, os.SEEK_SET)
                raise
        finally:
            for file in opened:
                os.close(file)

    def _send(self, number: int, *, value: int = 0, flags: int = 0) -> None:
        fcntl.ioctl(self._reports, _ANSWER, struct.pack("<QqiI", number, value, 0, flags))


def _read(directory: int, room: int, names: frozenset[bytes]) -> bytes:
    """The next entries without those names; nothing at the end only, because nothing means the end."""
    import ctypes

    buffer = ctypes.create_string_buffer(room)
    while count := _system_call(_GETDENTS64[os.uname().machine], directory, buffer, room):
        if kept := without(buffer.raw[:count], names):
            return kept
    return b""


def _system_call(*words: object) -> int:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(*words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def without(listing: bytes, names: frozenset[bytes]) -> bytes:
    """A listing as the kernel gives it, without the entries of these names."""
    kept: list[bytes] = []
    at = 0
    while at < len(listing):
        _, _, length, _ = _ENTRY.unpack_from(listing, at)
        entry = listing[at : at + length]
        if entry[_ENTRY.size :].partition(b"\0")[0] not in names:
            kept.append(entry)
        at += length
    return b"".join(kept)


def _path_of(call: _Call) -> bytes:
    """Where the directory is in the command's own view. Asks no file system, so none can make us wait."""
    try:
        return os.readlink(f"/proc/{call.thread}/fd/{call.descriptor}".encode())
    except OSError:
        return b""


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status", "rb") as status:
        for line in status:
            if line.startswith(b"Tgid:"):
                return int(line[5:])
    return thread


def serve(told: int, reports: int) -> None:
    """Until the harness closes the socket, or nothing is left that was started with the filter."""
    listings = Listings(reports)
    news = select.poll()
    news.register(told, select.POLLIN)
    news.register(reports, select.POLLIN)
    while True:
        ready = dict(news.poll())
        # Names first: a command starts after its names were sent, and its listings must find them.
        if told in ready:
            message = os.read(told, LONGEST_BYTES)
            if not message:
                return
            listings.hide(message)
        elif ready.get(reports, 0) & select.POLLIN:
            listings.answer()
        else:
            return


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
