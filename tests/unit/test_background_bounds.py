"""The limits of background processes, without a sandbox: what is kept, what is forgotten, and when one is ended."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from hames.domain.policy import WorkspaceWrite
from hames.domain.processes import ProcessStatus
from hames.ports import TerminalSize, ToolFailed
from hames.tools.background import BackgroundLimits, BackgroundProcesses, RunningCommand
from hames.tools.output_files import OutputFiles
from toolbench import WallClock

SMALL = BackgroundLimits(running=2, ended=3, kept_bytes=1_000, told_bytes=400, tail_bytes=100)


class PlayedProcess:
    """Implements `ports.BackgroundProcess`. It says what it is told to, and ends when it is killed."""

    pid = 1

    def __init__(self) -> None:
        self.says, self._heard = anyio.create_memory_object_stream[bytes](1_000)
        self.kills = 0
        self.inspections = 0
        self.inspected_twice = anyio.Event()

    async def output(self) -> AsyncIterator[bytes]:
        async for chunk in self._heard:
            yield chunk

    async def wait(self) -> int:
        return -9 if self.kills else 0

    async def kill(self) -> None:
        self.kills += 1
        self.says.close()

    async def write(self, data: bytes) -> int:
        return len(data)

    def close_input(self) -> None:
        self.says.close()

    def resize(self, size: TerminalSize) -> None:
        raise OSError("it has no terminal")

    async def send_signal(self, number: int) -> None:
        self.says.close()

    async def inspect(self) -> Sequence[str]:
        self.inspections += 1
        if self.inspections == 3:  # the notes of the first two are there
            self.inspected_twice.set()
        return ["looked at"]


@asynccontextmanager
async def table(limits: BackgroundLimits = SMALL) -> AsyncGenerator[BackgroundProcesses]:
    files = OutputFiles()
    async with anyio.create_task_group() as tasks:
        yield BackgroundProcesses(tasks, WallClock(), limits, files)
        tasks.cancel_scope.cancel()
    files.close()


def started(processes: BackgroundProcesses, *, seconds: float = 0) -> tuple[RunningCommand, PlayedProcess]:
    number, process = processes.reserve(), PlayedProcess()
    about = ProcessStatus(
        number=number, command="run", cwd="/", terminal=False, running=True, seconds=0, output_bytes=0
    )
    one = processes.add(process, about, policy=WorkspaceWrite(), seconds=seconds)
    processes.release()
    return one, process


async def ended(one: RunningCommand) -> None:
    assert not await one.until(lambda: False, 60)
    assert not one.running


async def heard(one: RunningCommand, count: int) -> None:
    assert await one.until(lambda: one.bytes_seen >= count, 60)


async def test_output_that_nobody_reads_is_forgotten_from_its_beginning() -> None:
    async with table() as processes:
        one, process = started(processes)
        lines = [f"line {number:04}\n".encode() for number in range(500)]
        await process.says.send(b"first words\n")
        for line in lines:
            await process.says.send(line)
        await heard(one, 12 + 500 * 10)
        assert not one.has("first words")
        assert not one.has("line 0100\n")
        assert one.has("line 0499")
        text = one.take()
        assert text.startswith("[… 4,012 bytes omitted …]\nline 0400\n")
        assert text.endswith("line 0499\n")
        assert one.take() == "", "what was told is not told again, nor that something was left out"


async def test_the_end_of_the_output_is_kept_for_people_whoever_has_read_it() -> None:
    async with table() as processes:
        one, process = started(processes)
        await process.says.send(b"short\n")
        await heard(one, 6)
        assert one.status().tail == "short\n"
        one.take()
        assert one.status().tail == "short\n"
        await process.says.send("\x1b[31mé".encode() * 200 + b"\nlast line\n")
        await heard(one, 1_000)
        assert one.status().tail == "last line\n"
        await process.says.send(b"x" * 5_000)
        await heard(one, 6_000)
        assert one.status().tail == "x" * 100
        assert len(one._tail) <= 101, "a server prints for days"


async def test_what_one_leaves_behind_is_looked_at_while_it_runs() -> None:
    async with table(BackgroundLimits(inspect_seconds=0.01)) as processes:
        one, process = started(processes)
        with anyio.fail_after(60):
            await process.inspected_twice.wait()
        assert one.running
        assert one.notes[:2] == ["looked at", "looked at"]


async def test_only_the_last_that_ended_are_remembered() -> None:
    async with table() as processes:
        for _ in range(5):
            one, process = started(processes)
            process.says.close()
            await ended(one)
        assert [status.number for status in processes.statuses()] == [3, 4, 5]
        with pytest.raises(ToolFailed, match="there is no process 2; running: none"):
            processes.find(2)
        assert [status.number for status in processes.take_ended()] == [3, 4, 5]
        assert processes.take_ended() == ()
        assert not processes.is_any_running()


async def test_one_that_ended_makes_room_and_one_that_is_being_started_takes_it() -> None:
    async with table() as processes:
        first, process = started(processes)
        processes.reserve()
        assert processes.is_any_running()
        with pytest.raises(ToolFailed, match="2 processes run in the background already"):
            processes.reserve()
        process.says.close()
        await ended(first)
        assert processes.reserve() == 3, "a number is used once"
        processes.release()
        processes.release()
        assert not processes.is_any_running()


async def test_one_that_runs_too_long_is_killed_and_the_reason_is_kept() -> None:
    async with table() as processes:
        one, process = started(processes, seconds=0.01)
        await ended(one)
        assert process.kills
        assert (one.stopped_for, one.code) == ("killed: it ran longer than 0.01 s", -9)


async def test_one_is_ended_by_its_number_and_all_end_with_the_table() -> None:
    async with table() as processes:
        (one, process), (_, other) = started(processes), started(processes)
        assert await processes.end(one.number)
        assert (one.running, process.kills > 0, other.kills) == (False, True, 0)
        assert not await processes.end(one.number)
        assert not await processes.end(7)
    assert other.kills


async def test_an_error_while_reading_ends_one_and_not_the_thread() -> None:
    class Broken(PlayedProcess):
        async def output(self) -> AsyncIterator[bytes]:
            raise OSError("the pipe broke")
            yield b""

    async with table() as processes:
        about = ProcessStatus(number=1, command="x", cwd="/", terminal=False, running=True, seconds=0, output_bytes=0)
        broken = Broken()
        one = processes.add(broken, about, policy=WorkspaceWrite(), seconds=0)
        await ended(one)
        assert broken.kills
        assert any("the pipe broke" in note for note in one.notes)
        _, process = started(processes)
        assert processes.is_any_running()
        process.says.close()
