"""The screen before the program is loaded: drawn at once, keys kept, the terminal restored whatever happens."""

import os
import pty
import select
import signal
import sys
import termios
import time

import pytest

from hames.tui.first_frame import frame
from hames.tui.palette import is_dark, terminal_is_dark

SECONDS = 30
LEFT = b"\x1b[?1049l"


class Program:
    """A script on a terminal of its own."""

    def __init__(self, script: str) -> None:
        self.pid, self.wire = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [sys.executable, "-c", script])
        self.before = termios.tcgetattr(self.wire)
        self.seen = b""

    def until(self, words: bytes) -> None:
        until = time.monotonic() + SECONDS
        while words not in self.seen:
            assert select.select([self.wire], [], [], max(0, until - time.monotonic()))[0], self.seen
            self.seen += os.read(self.wire, 65536)

    def code(self) -> int:
        status = os.waitpid(self.pid, 0)[1]
        return os.waitstatus_to_exitcode(status)


WAITING = """
import time
from hames.tui.first_frame import first_frame
with first_frame("/some/where", "1.0", ask_background=False):
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [("keys", 1), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131), (signal.SIGINT, 1)],
)
def test_a_start_that_is_ended_leaves_the_terminal_as_it_was(how: str | signal.Signals, code: int) -> None:
    program = Program(WAITING)
    try:
        program.until(b"Say what you want done.")
        assert termios.tcgetattr(program.wire) != program.before
        if isinstance(how, str):
            os.write(program.wire, b"\x1a\x1c\x03")  # only the last of these keys is a signal here
        else:
            os.kill(program.pid, how)
        program.until(LEFT)
    finally:
        ended = program.code()
        after = termios.tcgetattr(program.wire)
        os.close(program.wire)
    assert after == program.before
    assert ended in (code, -signal.SIGINT)


LISTENING = """
from hames.tui.first_frame import first_frame
with first_frame("/some/where", "1.0", ask_background=True) as frame:
    frame.listen()
print(repr((frame.background, frame.typed)), flush=True)
"""


@pytest.mark.parametrize("ending", [b"\x07", b"\x1b\\"])
def test_keys_and_the_terminal_s_answer_are_told_apart(ending: bytes) -> None:
    program = Program(LISTENING)
    try:
        program.until(b"\x1b]11;?\x07\x1b[c")
        os.write(program.wire, b"ty\x1b]11;rgb:ffff/ffff/ffff" + ending + b"ped\r\x1b[?62;22c\x1b[D")
        program.until(rb"('rgb:ffff/ffff/ffff', b'typed\r\x1b[D')")
    finally:
        program.code()
        os.close(program.wire)


def test_a_terminal_that_answers_nothing_is_not_waited_for_long() -> None:
    program = Program(LISTENING)
    try:
        program.until(b"('', b'')")
    finally:
        assert program.code() == 0
        os.close(program.wire)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 50), (20, 6), (5, 3)])
def test_the_frame_fits(columns: int, rows: int) -> None:
    drawn = frame(columns, rows, "/a/rather/long/directory/name", "1.0", "starting …")
    for part in drawn.split("\x1b[")[1:]:
        place, mark, text = part.partition("H")
        if mark and place.replace(";", "").isdecimal():
            assert int(place.split(";")[0]) <= rows
            assert len(text) <= columns


def test_the_background_decides_between_light_and_dark() -> None:
    assert not terminal_is_dark("rgb:ffff/ffff/ffff", {})
    assert terminal_is_dark("", {"COLORFGBG": "15;0"})
    assert not terminal_is_dark("", {"COLORFGBG": "0;15"})
    assert terminal_is_dark("", {})
    assert is_dark("rgb:1e1e/1e1e/2e2e")
