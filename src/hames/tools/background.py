"""The processes of one thread that go on when the call that started them has ended.

Each has a task that reads its output, so that it never waits for a reader. They end with the thread: when its tools
are closed, all of them are killed before that returns.
"""

import signal
from collections import deque
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from hames.domain.policy import SandboxPolicy
from hames.domain.processes import ProcessStatus
from hames.domain.value import Value
from hames.ports import BackgroundProcess, Clock, ToolFailed
from hames.tools.headtail import HeadTail
from hames.tools.output_files import OutputFiles, OutputSpool
from hames.tools.plain_output import PlainOutput, complete_end, plain


class BackgroundLimits(Value):
    running: int = 8
    """At the same time, in one thread."""
    ended: int = 16
    """So many are remembered."""
    kept_bytes: int = 1 << 20
    """Of output that the model has not read."""
    told_bytes: int = 30_000
    tail_bytes: int = 8_000
    """Of output, for people who look at it."""
    inspect_seconds: float = 60.0
    """How often is looked at what they leave behind. A command is looked at when it ends, and these may never end."""


class RunningCommand:
    """One of them. `changed` is set, and replaced, whenever there is output or it has ended."""

    def __init__(
        self,
        process: BackgroundProcess,
        about: ProcessStatus,
        *,
        policy: SandboxPolicy,
        clock: Clock,
        limits: BackgroundLimits,
        files: OutputFiles,
    ) -> None:
        self.process = process
        self.policy = policy
        self.notes: list[str] = []
        self.end_was_told = False
        self.stopped_for = ""
        self._about = about
        self._clock = clock
        self._limits = limits
        self._started = clock.monotonic()
        self._ended: float | None = None
        self._unread = bytearray()
        self._tail = b""
        self._dropped = 0
        self._plain = PlainOutput()
        self._spool = OutputSpool(files, limits.told_bytes)
        self.bytes_seen = 0
        self.code: int | None = None
        self.first_words: str | None = None
        """What was told when it was started. Whoever waits for something first does not wait for what was there."""
        self.changed = anyio.Event()

    @property
    def number(self) -> int:
        return self._about.number

    @property
    def command(self) -> str:
        return self._about.command

    @property
    def running(self) -> bool:
        return self._ended is None

    def status(self) -> ProcessStatus:
        until = self._clock.monotonic() if self._ended is None else self._ended
        about = self._about
        return ProcessStatus(
            number=about.number,
            command=about.command,
            cwd=about.cwd,
            terminal=about.terminal,
            running=self.running,
            seconds=round(until - self._started, 1),
            output_bytes=self.bytes_seen,
            exit_code=self.code,
            tail=self._tail_text(),
        )

    def _tail_text(self) -> str:
        """Whole lines, if there are any."""
        kept, limit = self._tail, self._limits.tail_bytes
        if len(kept) > limit:
            kept = kept[-limit:]
            kept = kept[kept.find(b"\n", 0, -1) + 1 :]
        return plain(kept).decode("utf-8", "replace").replace("\0", "␀")

    def feed(self, chunk: bytes) -> None:
        self.bytes_seen += len(chunk)
        # One byte more than is shown tells that there was more.
        self._tail = (self._tail + chunk)[-self._limits.tail_bytes - 1 :]
        self._unread += chunk
        if (surplus := len(self._unread) - self._limits.kept_bytes) > 0:
            # Cut where a line ends, if there is one nearby.
            cut = self._unread.find(b"\n", surplus, surplus + 4096) + 1 or surplus
            self._dropped += cut
            del self._unread[:cut]
        self._spool.feed(self._plain.feed(chunk))
        self._wake()

    def finish(self, code: int | None) -> None:
        self._spool.feed(self._plain.finish())
        self._spool.close()
        self.code = code
        self._ended = self._clock.monotonic()
        self._wake()

    def has(self, text: str) -> bool:
        """Whether it is in what the model has not read yet, or was told when it was started and nothing since."""
        return text in plain(bytes(self._unread)).decode("utf-8", "replace") or text in (self.first_words or "")

    def take(self) -> str:
        """What the model has not read yet, within bounds."""
        end = complete_end(bytes(self._unread)) if self.running else len(self._unread)
        raw = bytes(self._unread[:end])
        del self._unread[:end]
        brief = HeadTail(limit=self._limits.told_bytes)
        text = brief.feed(plain(raw)) + brief.finish()
        dropped, self._dropped = self._dropped, 0
        if dropped:
            text = f"[… {dropped:,} bytes omitted …]\n{text}"
        if (dropped or brief.omitted_bytes) and (note := self._spool.note()):
            self.notes.append(note)
        return text.replace("\0", "␀")

    def _wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def until(self, is_enough: Callable[[], bool], seconds: float) -> bool:
        """Waits until something is so, it has ended, or the time is up. Whether it is so."""
        with anyio.move_on_after(seconds):
            while self.running and not is_enough():
                await self.changed.wait()
        return is_enough()

    async def settle(self, *, quiet: float, most: float) -> None:
        """Waits for output and then for a pause in it, or for the end."""
        with anyio.move_on_after(most):
            while self.running:
                seen = self.bytes_seen
                with anyio.move_on_after(quiet if self._unread else most):
                    await self.changed.wait()
                if self._unread and self.bytes_seen == seen:
                    return


class BackgroundProcesses:
    """Of one thread. Implements `ports.ProcessTable`."""

    def __init__(self, tasks: TaskGroup, clock: Clock, limits: BackgroundLimits, files: OutputFiles) -> None:
        self._tasks = tasks
        self._clock = clock
        self._files = files
        self._running: dict[int, RunningCommand] = {}
        self._over: deque[RunningCommand] = deque(maxlen=limits.ended)
        self._count = 0
        self._starting = 0
        self.limits = limits

    def reserve(self) -> int:
        """The number of one that is about to be started. Raises `ToolFailed` when there are too many."""
        if len(self._running) + self._starting >= self.limits.running:
            raise ToolFailed(
                f"{self.limits.running} processes run in the background already; "
                "end one with `process` and the signal KILL first"
            )
        self._starting += 1
        self._count += 1
        return self._count

    def release(self) -> None:
        """One that was about to be started is there, or never will be."""
        self._starting -= 1

    def add(
        self, process: BackgroundProcess, about: ProcessStatus, *, policy: SandboxPolicy, seconds: float
    ) -> RunningCommand:
        """`seconds`: when to end it; 0 for never."""
        one = RunningCommand(process, about, policy=policy, clock=self._clock, limits=self.limits, files=self._files)
        self._running[one.number] = one
        self._tasks.start_soon(self._follow, one, seconds)
        return one

    def find(self, number: int) -> RunningCommand:
        """Raises `ToolFailed`."""
        for one in (*self._running.values(), *self._over):
            if one.number == number:
                return one
        known = ", ".join(str(number) for number in self._running) or "none"
        raise ToolFailed(f"there is no process {number}; running: {known}")

    def statuses(self) -> tuple[ProcessStatus, ...]:
        every = (*self._over, *self._running.values())
        return tuple(one.status() for one in sorted(every, key=lambda one: one.number))

    def is_any_running(self) -> bool:
        return bool(self._running) or self._starting > 0

    def take_ended(self) -> tuple[ProcessStatus, ...]:
        """Those whose end nobody has told the model. They are told once."""
        ended = [one for one in self._over if not one.end_was_told]
        for one in ended:
            one.end_was_told = True
        return tuple(one.status() for one in ended)

    async def end(self, number: int) -> bool:
        """False: there is none of that number that runs."""
        one = self._running.get(number)
        if one is None:
            return False
        await one.process.kill()
        await one.until(lambda: False, _KILL_SECONDS)
        return True

    async def end_all(self) -> None:
        async with anyio.create_task_group() as tasks:
            for number in list(self._running):
                tasks.start_soon(self.end, number)

    async def _follow(self, one: RunningCommand, seconds: float) -> None:
        code: int | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._inspect, one)
                if seconds:
                    tasks.start_soon(self._limit, one, seconds)
                try:
                    async for chunk in one.process.output():
                        one.feed(chunk)
                    code = await one.process.wait()
                except Exception as error:  # a process that cannot be read is over, and the thread goes on
                    one.notes.append(f"its output could not be read: {error}")
                tasks.cancel_scope.cancel()
        except Exception as error:
            one.notes.append(f"it could not be watched: {error}")
        finally:
            with anyio.CancelScope(shield=True):
                await one.process.kill()
            one.notes += getattr(one.process, "notes", ())
            self._running.pop(one.number, None)
            self._over.append(one)
            one.finish(code)

    async def _limit(self, one: RunningCommand, seconds: float) -> None:
        await anyio.sleep(seconds)
        one.stopped_for = f"killed: it ran longer than {seconds:g} s"
        await one.process.kill()

    async def _inspect(self, one: RunningCommand) -> None:
        while True:
            await anyio.sleep(self.limits.inspect_seconds)
            one.notes += await one.process.inspect()


_KILL_SECONDS = 5.0

SIGNALS = {
    name: getattr(signal, f"SIG{name}").value
    for name in ("INT", "TERM", "KILL", "HUP", "QUIT", "USR1", "USR2", "STOP", "CONT", "WINCH")
}
