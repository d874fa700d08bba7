"""A running program: its output with backpressure, its end, and the end of everything it started.

A program is started from the thread that runs the event loop, never from a worker: the kernel's "die with the
parent" means the parent *thread*, and workers retire when they are idle.
"""

import io
import os
import select
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from hames.ports import TerminalSize, ToolFailed
from hames.sandbox.processes import process_tree
from hames.sandbox.processes.standard_input import ProcessInput, open_terminal

T = TypeVar("T")

HOLD_SECONDS = 2.0
"""How long the output is read on after the program has ended and somebody else holds the pipe."""

_CHUNK_BYTES = 65536
_QUICK_SECONDS = 1.0
_POLL_SECONDS = 0.05


class LocalProcess:
    """Implements `ports.Process`.

    `notes` are sentences about what the run left behind; they are complete when `output` has ended.
    """

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        *,
        job: str,
        contained: bool,
        closing: Callable[[], Sequence[str]],
        output: io.FileIO | None = None,
        source: ProcessInput | None = None,
        inspecting: Callable[[], Sequence[str]] = tuple,
    ):
        """`output`: our side of its terminal. `source`: its input, where that stays open."""
        pipe = output or child.stdout
        assert pipe is not None
        self._child = child
        self._input = source
        self._inspecting = inspecting
        self._job = job
        self._contained = contained
        self._closing = closing
        self._started = anyio.current_time()
        self._pipe = pipe
        os.set_blocking(self._pipe.fileno(), False)
        self._ending = _pidfd(child.pid)
        self._code: int | None = None
        self._finishing = anyio.Lock()
        self._finished = False
        self._reading = False
        self.notes: tuple[str, ...] = ()

    @property
    def pid(self) -> int:
        return self._child.pid

    async def output(self) -> AsyncGenerator[bytes, None]:
        self._reading = True
        try:
            async for chunk in self._chunks():
                yield chunk
        finally:
            self._reading = False
            self._close_descriptors()
        await self.wait()
        await self._finish()

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        news = self._readiness()
        ended_at: float | None = None
        while not self._pipe.closed:
            try:
                chunk = os.read(self._pipe.fileno(), _CHUNK_BYTES)
            except BlockingIOError:
                chunk = None
            except OSError:  # a terminal that nobody has open any more
                chunk = b""
            if chunk:
                yield chunk
            elif chunk is not None:
                return
            if ended_at is None and self._poll() is not None:
                ended_at = anyio.current_time()
                continue
            if ended_at is not None and anyio.current_time() > ended_at + HOLD_SECONDS:
                return
            if chunk:
                await checkpoint()
            elif ended_at is not None:
                with anyio.move_on_after(ended_at + HOLD_SECONDS - anyio.current_time()):
                    await anyio.wait_readable(self._pipe)
            elif news is not None:
                await anyio.wait_readable(news)
            else:
                with anyio.move_on_after(_POLL_SECONDS):
                    await anyio.wait_readable(self._pipe)

    async def wait(self) -> int:
        while self._poll() is None:
            if self._ending is None:
                await anyio.sleep(_POLL_SECONDS)
                continue
            # Several may wait, and one descriptor has room for one.
            with io.FileIO(os.dup(self._ending.fileno())) as ending:
                await anyio.wait_readable(ending)
        assert self._code is not None
        return self._code

    async def kill(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._finish(kill=True)

    async def write(self, data: bytes) -> int:
        return await self._input.write(data) if self._input is not None else 0

    def close_input(self) -> None:
        if self._input is not None:
            self._input.close()

    def resize(self, size: TerminalSize) -> None:
        if self._input is None:
            raise OSError("it has no terminal")
        self._input.resize(size)

    async def send_signal(self, number: int) -> None:
        await _in_worker_thread(lambda: process_tree.send_signal(self._members(), number))

    def _members(self) -> set[int]:
        """The processes of the program itself: a wrapper and its helper are not among them."""
        if self._finished or self._poll() is not None:
            return set()
        if not Path("/proc/self").is_dir():
            return {self.pid}
        if not self._contained:
            return process_tree.tree(self.pid)
        wrapper = {self.pid, *process_tree.children(self.pid)}
        return process_tree.tree(self.pid) - wrapper

    async def inspect(self) -> Sequence[str]:
        async with self._finishing:
            return () if self._finished else await _in_worker_thread(self._inspecting)

    async def _finish(self, *, kill: bool = False) -> None:
        """Ends what is left of the family, then lets go of everything. The root stays unreaped until then:
        its number cannot be given to a stranger."""
        with anyio.CancelScope(shield=True):
            async with self._finishing:
                if self._finished:
                    return
                if kill or self._has_survivors():
                    spare = (self.pid,) if self._contained else ()
                    await _in_worker_thread(lambda: process_tree.end(self.pid, self._job, spare=spare))
                with anyio.move_on_after(HOLD_SECONDS):
                    await self.wait()
                self._child.poll()
                self.notes = tuple(await _in_worker_thread(self._closing))
                self._finished = True
                self._close_descriptors()

    def _close_descriptors(self) -> None:
        """Closes descriptors, unless the reader still waits on them: it would wait for ever."""
        if self._finished and not self._reading:
            if self._input is not None:
                self._input.stop_waiting()
            self._pipe.close()
            if self._child.stdin is not None:
                self._child.stdin.close()
            if self._ending is not None:
                self._ending.close()
                self._ending = None

    def _has_survivors(self) -> bool:
        if self._contained:
            return False  # the namespace ended with its first process
        if not Path("/proc/self").is_dir():
            return True
        young = anyio.current_time() - self._started < _QUICK_SECONDS
        return bool(process_tree.find(self.pid, self._job, since_root=young))

    def _poll(self) -> int | None:
        """The exit code once there is one. Looks without reaping."""
        if self._code is None and self._child.returncode is None:
            try:
                result = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:  # somebody else in this process collects all children
                self._code = self._child.poll()
            else:
                if result is not None:
                    self._code = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        elif self._code is None:
            self._code = self._child.returncode
        return self._code

    def _readiness(self) -> select.epoll | None:
        """One descriptor that is readable when there is output or the program has ended."""
        if self._ending is None or not hasattr(select, "epoll"):
            return None
        news = select.epoll()
        news.register(self._pipe.fileno(), select.EPOLLIN)
        news.register(self._ending.fileno(), select.EPOLLIN)
        return news


def start(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    job: str,
    contained: bool,
    pass_fds: Sequence[int] = (),
    release: Callable[[int], None] | None = None,
    start_in: Callable[[Callable[[], subprocess.Popen[bytes]]], subprocess.Popen[bytes]] | None = None,
    closing: Callable[[], Sequence[str]],
    inspecting: Callable[[], Sequence[str]] = tuple,
    background: bool = False,
    terminal: TerminalSize | None = None,
) -> LocalProcess:
    """Starts a program in a session of its own, with no input, one pipe for all it says, and no other descriptor.
    In the background it has an input; with a terminal that is its input and its output.

    Raises `ToolFailed` when the system will not start it. `release` lets a program begin that waits for it. `start_in`
    does it in another thread, which lives as long as this process.
    `closing` is called after the last of the family is gone, and returns notes.
    """
    ours, theirs = open_terminal(terminal) if terminal is not None else (None, None)

    def start_child() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            stdin=theirs if theirs is not None else subprocess.PIPE if background else subprocess.DEVNULL,
            stdout=theirs if theirs is not None else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            close_fds=True,
            pass_fds=pass_fds,
            start_new_session=True,
            cwd=cwd,
            env=env,
        )

    try:
        child = start_child() if start_in is None else start_in(start_child)
    except (OSError, ValueError) as error:
        if ours is not None:
            ours.close()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        named = f" ({cwd!r})" if isinstance(error, OSError) and error.filename == cwd else ""
        raise ToolFailed(f"the command could not be started: {reason.lower()}{named}") from error
    finally:
        if theirs is not None:
            os.close(theirs)
    if release is not None:
        try:
            release(child.pid)
        except OSError as error:
            child.kill()
            child.communicate()
            if ours is not None:
                ours.close()
            raise ToolFailed(f"the command could not be limited: {error}") from error
    source = None
    if ours is not None:
        source = ProcessInput(ours, terminal=True)
    elif isinstance(child.stdin, io.FileIO):
        source = ProcessInput(child.stdin, terminal=False)
    return LocalProcess(
        child, job=job, contained=contained, closing=closing, output=ours, source=source, inspecting=inspecting
    )


async def _in_worker_thread(work: Callable[[], T]) -> T:
    """In a worker thread; or right here when the machine has no thread left, because a bomb must still be stopped."""
    try:
        return await to_thread.run_sync(work)
    except RuntimeError:
        return work()


def _pidfd(pid: int) -> io.FileIO | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return io.FileIO(os.pidfd_open(pid))
    except OSError:
        return None
