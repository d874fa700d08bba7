"""Hides names from the directory listings of commands: placeholders, and our own data.

A name can only be guarded by something that is mounted on it, and then it is listed. So commands are started by a
thread that carries a system-call filter, which they inherit; the filter reports every listing to `filter_program`,
which leaves the names out. Nothing is added to a command's start but the way to that thread and back.

This is for looks. The mounts guard, and where the kernel does not take the filter, the names are listed.
"""

import os
import queue
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from hames.executables import script_command
from hames.sandbox.walls import seccomp
from hames.sandbox.walls.listings import filter_program

T = TypeVar("T")

_RESTART_SECONDS = 0.1


class HiddenNames:
    """What is hidden in which directory, for all commands of this process. Call from any thread."""

    def __init__(self) -> None:
        """Raises `OSError` where commands cannot be started with the filter."""
        self._turn = threading.Lock()
        self._hidden: dict[str, Counter[str]] = {}
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._talk: socket.socket | None = None
        installed: Future[int] = Future()
        # Never ended: "die with the parent" means the parent thread, which is this one for every command.
        threading.Thread(target=self._run, args=(installed,), name="hames-starts", daemon=True).start()
        self._reports = installed.result()
        try:
            program = self._start_program()
        except OSError:
            os.close(self._reports)
            raise
        threading.Thread(target=self._keep_running, args=(program,), name="hames-listings", daemon=True).start()

    def run(self, work: Callable[[], T]) -> T:
        """Does it in the thread with the filter: a program that is started there has it, too."""
        answer: Future[T] = Future()

        def task() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:
                answer.set_exception(error)

        self._work.put(task)
        return answer.result()

    def hide(self, paths: Iterable[str]) -> Callable[[], None]:
        """Until the function that it returns is called, which may be called again."""
        names = [os.path.split(path) for path in paths]
        self._change(names, 1)

        def show() -> None:
            self._change(names, -1)
            names.clear()

        return show

    def _change(self, names: Iterable[tuple[str, str]], by: int) -> None:
        with self._turn:
            changed: set[str] = set()
            for directory, name in names:
                there = self._hidden.setdefault(directory, Counter())
                there[name] += by
                if not there[name]:
                    del there[name]
                changed.add(directory)
            for directory in changed:
                self._tell(directory)
                if not self._hidden[directory]:
                    del self._hidden[directory]

    def _tell(self, directory: str) -> None:
        message = b"\0".join(map(os.fsencode, (directory, *self._hidden[directory])))
        if self._talk is not None and len(message) <= filter_program.LONGEST_BYTES:
            with suppress(OSError):  # it has ended; the next one is told everything
                self._talk.send(message)

    def _run(self, installed: Future[int]) -> None:
        try:
            reports = seccomp.report_listings()
        except OSError as error:
            installed.set_exception(error)
            return
        installed.set_result(reports)
        while True:
            self._work.get()()

    def _start_program(self) -> subprocess.Popen[bytes]:
        """Never from the thread with the filter: the program would wait for itself."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                program = subprocess.Popen(
                    script_command(filter_program.__file__, str(theirs.fileno()), str(self._reports)),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), self._reports),
                    start_new_session=True,  # Ctrl-C in the terminal is not for it
                    cwd="/",
                    env={},
                )
            except OSError:
                ours.close()
                raise
        with self._turn:
            if self._talk is not None:
                self._talk.close()
            self._talk = ours
            for directory in self._hidden:
                self._tell(directory)
        return program

    def _keep_running(self, program: subprocess.Popen[bytes]) -> None:
        """Commands wait for its answers, so if somebody ended it, another one takes over."""
        while True:
            program.wait()
            time.sleep(_RESTART_SECONDS)
            with suppress(OSError):
                program = self._start_program()


_shared: HiddenNames | None = None
_owner = 0
_turn = threading.Lock()


def hidden_names() -> HiddenNames | None:
    """The one of this process, made with the first call. None: this system has no such filter."""
    global _shared, _owner  # noqa: PLW0603 - a thread and a program for all sandboxes of a process
    with _turn:
        if _owner != os.getpid():  # also in a process that was forked off, where the thread is missing
            _owner = os.getpid()
            try:
                _shared = HiddenNames()
            except (OSError, RuntimeError):
                _shared = None
        return _shared
