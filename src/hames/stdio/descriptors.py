"""The process's own stdin and stdout, reserved for the protocol.

After `claim`, whatever prints to stdout prints to stderr, and whatever reads stdin reads nothing: only the
protocol has the real ones. Pipes are opened anew, so that making ours non-blocking does not change the end that a
parent or a sibling still holds.

Imported before the first answer: nothing but `os` and what it brings.
"""

import os
import stat
import sys


class Wire:
    """Two file descriptors that no child inherits."""

    def __init__(self, *, incoming: int, outgoing: int) -> None:
        self.incoming = incoming
        self.outgoing = outgoing


class Start:
    """How far a conversation has come: the wire, a first line that was answered already, and what came after it."""

    def __init__(self, wire: Wire, *, answered: bytes = b"", received: bytes = b"") -> None:
        self.wire = wire
        self.answered = answered
        self.received = received


def claim() -> Wire:
    null = os.open(os.devnull, os.O_RDWR)
    while null <= 2:  # it took the place of one that was closed at start, which it may keep
        os.set_inheritable(null, True)
        null = os.open(os.devnull, os.O_RDWR)
    wire = Wire(incoming=_own(0, os.O_RDONLY), outgoing=_own(1, os.O_WRONLY))
    os.dup2(null, 0, inheritable=True)
    os.dup2(2, 1, inheritable=True)
    os.close(null)
    # Python has no such file when the descriptor was closed at start, and then every print and log fails.
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    return wire


def unblock_stderr() -> None:
    """Let a log line be lost when nobody reads stderr: waiting would stop the server."""
    if stat.S_ISFIFO(os.fstat(2).st_mode) and (number := _reopened(2, os.O_WRONLY | os.O_NONBLOCK)) is not None:
        os.dup2(number, 2, inheritable=True)
        os.close(number)


def _own(number: int, mode: int) -> int:
    """Another descriptor for the same thing."""
    fifo = stat.S_ISFIFO(os.fstat(number).st_mode)
    # Without O_NONBLOCK, opening a pipe whose other end is gone would wait for ever.
    found = _reopened(number, mode | os.O_NONBLOCK) if fifo else None
    if found is None:
        return os.dup(number)
    os.set_blocking(found, True)
    return found


def _reopened(number: int, mode: int) -> int | None:
    try:
        return os.open(f"/proc/self/fd/{number}", mode)
    except OSError:
        return None
