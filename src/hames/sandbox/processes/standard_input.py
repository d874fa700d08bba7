"""The input of a program that runs in the background: a pipe, or a terminal of its own."""

import fcntl
import io
import os
import struct
import termios

import anyio

from hames.ports import TerminalSize

_END_OF_INPUT = b"\x04"
_MOST_CELLS = 10_000
_PATIENCE_SECONDS = 5.0
"""How long a program may leave its input unread before what is left of it is given up."""


class ProcessInput:
    """`terminal`: the descriptor is the controlling side of a terminal, which the reader of the output owns."""

    def __init__(self, file: io.FileIO, *, terminal: bool) -> None:
        self._file = file
        self._terminal = terminal
        self._turn = anyio.Lock()
        self._waiting = anyio.CancelScope()
        os.set_blocking(file.fileno(), False)

    async def write(self, data: bytes) -> int:
        """How much was taken. It waits a while for a program that does not read."""
        taken = 0
        async with self._turn:
            while taken < len(data) and not self._file.closed:
                try:
                    taken += os.write(self._file.fileno(), data[taken:])
                    continue
                except BlockingIOError:
                    pass
                except OSError:  # it has ended, or closed its input
                    break
                with anyio.move_on_after(_PATIENCE_SECONDS) as self._waiting:
                    await anyio.wait_writable(self._file)
                if self._waiting.cancelled_caught:
                    break
        return taken

    def stop_waiting(self) -> None:
        """Before the descriptor is closed: nobody may wait on a number that means something else by then."""
        self._waiting.cancel()

    def close(self) -> None:
        if self._file.closed:
            return
        if not self._terminal:
            self.stop_waiting()
            self._file.close()
            return
        try:
            os.write(self._file.fileno(), _END_OF_INPUT)
        except OSError:
            return

    def resize(self, size: TerminalSize) -> None:
        if not self._terminal or self._file.closed:
            raise OSError("it has no terminal")
        set_size(self._file.fileno(), size)


def open_terminal(size: TerminalSize) -> tuple[io.FileIO, int]:
    """Our side and the program's side."""
    ours, theirs = os.openpty()
    set_size(ours, size)
    return io.FileIO(ours, "r+"), theirs


def set_size(terminal: int, size: TerminalSize) -> None:
    rows, columns = min(size.rows, _MOST_CELLS), min(size.columns, _MOST_CELLS)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
