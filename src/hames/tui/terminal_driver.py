"""Textual's driver of the terminal, with what happens at its edges: taking over, suspending, and ending by a signal."""

import os
import signal
import sys
import threading
import time
from io import TextIOWrapper
from types import FrameType
from typing import Any, TextIO

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from hames.tui.first_frame import FirstFrame, restore_terminal

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
ALTERNATE_SCREEN = "\x1b[?1049h"
STOP_SECONDS = 0.05
END_SECONDS = 8.0
"""After a signal the process ends within this time even if something hangs. The server takes five seconds at most."""


class TerminalDriver(LinuxDriver):
    """Takes over from the first frame: its screen, the keys typed meanwhile, and the terminal's state before it."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._file = _output()
        self._active = False
        self._continuing = False
        self._frame: FirstFrame | None = getattr(app, "first_frame", None)
        self._drawn = self._frame is not None

    def start_application_mode(self) -> None:
        super().start_application_mode()
        self._active = True
        frame, self._frame = self._frame, None
        if frame is not None:
            self.attrs_before = list(frame.attributes)
            frame.hand_over()
            for event in XTermParser().feed(frame.typed.decode(errors="replace")):
                self.process_message(event)

    def write(self, data: str) -> None:
        if self._drawn and data == ALTERNATE_SCREEN:
            self._drawn = False  # the first frame entered it, and some terminals would clear the screen again
            return
        super().write(data)

    def disable_input(self) -> None:
        if not self._continuing:
            super().disable_input()
            return
        # Textual throws away what was typed and not read yet. Here the user has not left: those keys are for us.
        self._disable_mouse_support()
        self.exit_event.set()
        if self._key_thread is not None:
            self._key_thread.join()
        self.exit_event.clear()

    def suspend_application_mode(self) -> None:
        self._active = False
        super().suspend_application_mode()

    def _sigcont_application(self, *_: object) -> None:
        # A signal comes in the middle of anything, also while a line for the terminal is queued: the queue's lock is
        # held then, and writing here would wait for it for ever.
        self._loop.call_soon_threadsafe(self._continue)

    def _continue(self) -> None:
        """Sets the terminal up again after a SIGSTOP, which cannot be prepared for."""
        if self._auto_restart and self._active:
            self._continuing = True
            self.suspend_application_mode()
            self._continuing = False
        super()._sigcont_application()
        if self._auto_restart:
            self._app.call_later(self._app.refresh, layout=True)


def _output() -> TextIO:
    """Stdout, which is known to be the terminal: stderr may go to a file. A letter it cannot write stops nothing."""
    stream = sys.__stdout__ or sys.__stderr__
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")
    assert stream is not None
    return stream


def stop_until_foreground() -> bool:
    """Stops this process and what was started with it, as Ctrl+Z in a shell does. Whether there was a shell to do it.

    The whole process group: a wrapper that started us (`uv run`) must stop, too, or the shell would wait for it. Where
    no shell watches the group, the kernel drops the signal, and nothing would bring the process back.
    """
    continued = threading.Event()

    def on_continue(_number: int, _frame: FrameType | None) -> None:
        continued.set()

    before = {
        signal.SIGTSTP: signal.signal(signal.SIGTSTP, signal.SIG_DFL),
        signal.SIGCONT: signal.signal(signal.SIGCONT, on_continue),
    }
    try:
        while True:
            os.kill(0, signal.SIGTSTP)
            time.sleep(STOP_SECONDS)  # another thread may have got the signal: the stop reaches this one in here
            if os.tcgetpgrp(0) == os.getpgrp():
                return continued.is_set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_anyway(number: int) -> None:
    """Restores the terminal and ends the process after END_SECONDS, even if something hangs."""

    def end() -> None:
        restore_terminal(None)
        os._exit(128 + number)

    alarm = threading.Timer(END_SECONDS, end)
    alarm.daemon = True
    alarm.start()
