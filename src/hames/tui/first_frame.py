"""The first picture of the screen, before the program itself is loaded.

Loading the widgets takes longer than somebody wants to look at nothing. This frame needs the standard library alone.
From here on the terminal neither echoes nor edits what is typed: the keys wait for the message box. Whatever
happens before it comes, `close` brings the terminal back as it was.
"""

import os
import re
import select
import signal
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

BACKGROUND_SECONDS = 0.5
"""How long the terminal's answer is awaited; a later one would be read as keys."""
QUERY = b"\x1b]11;?\x07\x1b[c"
"""The background's colour. Primary attributes are asked for as well: every terminal answers at least that."""
ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l\x1b[2J\x1b[H", b"\x1b[?25h\x1b[?1049l"
RESET = (
    b"\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?2048l\x1b[<u"
    b"\x1b[?1004l\x1b[0m"
)
"""What the program may have turned on: paste brackets, the mouse, keyboard reports, focus reports."""

_COLOUR = re.compile(rb"\x1b\]11;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_ATTRIBUTES = re.compile(rb"\x1b\[\?[0-9;]*c")

STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class FirstFrame:
    """`background` and `typed` are known once `listen` has returned."""

    def __init__(self, *, ask_background: bool = True) -> None:
        self.attributes = termios.tcgetattr(0)
        """The terminal as it was."""
        self.background = ""
        self.typed = b""
        """What was typed so far."""
        self._asked = ask_background
        self._asked_at = 0.0
        self._closed = False

    def show(self, directory: str, version: str, status: str) -> None:
        raw = termios.tcgetattr(0)
        raw[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.IXOFF)
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        # Ctrl+C still ends a start that takes too long; the other keys with a signal are keys like any other.
        raw[6][termios.VSUSP] = raw[6][termios.VQUIT] = b"\0"
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
        termios.tcsetattr(0, termios.TCSANOW, raw)
        columns, rows = os.get_terminal_size(1)
        if not columns or not rows:  # a terminal that does not know its size, such as a serial line
            columns, rows = 80, 24
        self._asked_at = time.monotonic()
        drawn = frame(columns, rows, directory, version, status).encode(errors="replace")
        _write(ENTER + drawn + (QUERY if self._asked else b""))

    def listen(self) -> None:
        """Waits for the terminal's answer, which is usually there already; keys that came with it are kept."""
        heard = b""
        while self._asked and not _ATTRIBUTES.search(heard):
            left = self._asked_at + BACKGROUND_SECONDS - time.monotonic()
            if not select.select([0], [], [], max(0.0, left))[0]:
                break
            if not (chunk := os.read(0, 4096)):
                break
            heard += chunk
        found = _COLOUR.search(heard)
        self.background = found[1].decode("ascii", "replace") if found else ""
        self.typed = _ATTRIBUTES.sub(b"", _COLOUR.sub(b"", heard))

    def close(self) -> None:
        """Restores the terminal and the normal screen. Safe to call twice, and when the terminal is gone."""
        if not self._closed:
            self._closed = True
            restore_terminal(self.attributes)

    def hand_over(self) -> None:
        """The program has taken the screen over, and will bring the terminal back itself."""
        self._closed = True


@contextmanager
def first_frame(directory: str, version: str, *, ask_background: bool) -> Generator[FirstFrame]:
    """Shown until the body ends or hands over. A signal that ends the process ends it with the terminal restored."""
    frame = FirstFrame(ask_background=ask_background)
    before = {number: signal.signal(number, _end) for number in STOPPING}
    try:
        frame.show(directory, version, "starting …")
        yield frame
    finally:
        frame.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def restore_terminal(attributes: list[object] | None) -> None:
    _write(RESET + LEAVE)
    if attributes is not None:
        try:
            termios.tcsetattr(0, termios.TCSANOW, attributes)  # pyright: ignore[reportArgumentType] - as they were read
        except (termios.error, OSError):
            return


def frame(columns: int, rows: int, directory: str, version: str, status: str) -> str:
    """In the terminal's own colours, which are right on any background."""
    inner = max(0, columns - 2)
    room = max(0, columns - 9)
    where = directory if len(directory) <= room else f"…{directory[len(directory) - room + 1 :]}"
    lines = {
        1: f" \x1b[1mhames\x1b[0m\x1b[2m{where:>{max(0, columns - 7)}}\x1b[0m",
        2: f" ╭╮ \x1b[1mhames\x1b[0m \x1b[2m{version}\x1b[0m",
        3: f" ╰╯ \x1b[2m{directory[: max(0, columns - 5)]}\x1b[0m",
        5: "    Say what you want done."[:columns],
        rows - 3: f"╭{'─' * inner}╮",
        rows - 2: f"│{' ' * inner}│",
        rows - 1: f"╰{'─' * inner}╯",
        rows: f" \x1b[2m{status[: max(0, columns - 1)]}\x1b[0m",
    }
    return "".join(f"\x1b[{row};1H{text}" for row, text in lines.items() if 0 < row <= rows)


def _write(data: bytes) -> None:
    """Writes to stdout or stderr, whichever is the terminal. Ignores a terminal that is gone."""
    descriptor = 1 if os.isatty(1) else sys.__stderr__.fileno() if sys.__stderr__ else 2
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        return
