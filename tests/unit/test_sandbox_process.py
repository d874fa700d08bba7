"""Programs without walls: what they say, how they end, and that nothing of them stays."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from hames.domain.policy import DangerFullAccess
from hames.ports import Launch, Limits, ToolFailed
from hames.sandbox.local import LocalSandbox
from hames.sandbox.processes.local_process import LocalProcess

pytestmark = pytest.mark.needs("bash")

SANDBOX = LocalSandbox()
NO_LIMITS = Limits()


def shell(command: str, cwd: Path, limits: Limits = NO_LIMITS) -> Launch:
    argv = ("/bin/bash", "--noprofile", "--norc", "-c", command)
    return Launch(argv=argv, cwd=str(cwd), workspace=str(cwd), policy=DangerFullAccess(), limits=limits)


async def said(process: LocalProcess) -> str:
    return b"".join([chunk async for chunk in process.output()]).decode()


def alive(words: str) -> list[int]:
    """Processes with these words in their command line, zombies and this one left out."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if words.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def is_zombie(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def a_while(seconds_from_now: int = 0) -> str:
    """A duration that nobody else sleeps, to find its sleeper by."""
    return f"{3600 + seconds_from_now}.{time.monotonic_ns()}"


async def test_output_and_errors_come_in_order_through_one_pipe(tmp_path: Path) -> None:
    process = await SANDBOX.spawn(shell("echo one; echo two >&2; echo three", tmp_path))
    with anyio.fail_after(60):
        assert await said(process) == "one\ntwo\nthree\n"
        assert await process.wait() == 0


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("exit 255", 255), ("kill -9 $$", -9), ("true", 0)])
async def test_the_exit_code_says_how_it_ended(tmp_path: Path, command: str, code: int) -> None:
    process = await SANDBOX.spawn(shell(command, tmp_path))
    with anyio.fail_after(60):
        assert await said(process) == ""
        assert await process.wait() == code
    assert not is_zombie(process.pid)


async def test_reading_input_finds_its_end_at_once(tmp_path: Path) -> None:
    process = await SANDBOX.spawn(shell("cat; echo read; test -t 0 || echo no terminal; : </dev/tty", tmp_path))
    with anyio.fail_after(60):
        text = await said(process)
    assert text.startswith("read\nno terminal\n")
    assert "No such device or address" in text


async def test_a_grandchild_that_holds_the_pipe_delays_the_end_by_two_seconds_at_most(tmp_path: Path) -> None:
    sleep = a_while()
    process = await SANDBOX.spawn(shell(f"sleep {sleep} & echo started", tmp_path))
    with anyio.fail_after(60):
        assert await said(process) == "started\n"
        assert await process.wait() == 0
    assert alive(sleep) == []


async def test_a_silent_daemon_does_not_outlive_its_command(tmp_path: Path) -> None:
    sleep = a_while()
    command = f"(setsid nohup sleep {sleep} >/dev/null 2>&1 </dev/null &); sleep 0.05; echo done"
    process = await SANDBOX.spawn(shell(command, tmp_path))
    with anyio.fail_after(60):
        assert await said(process) == "done\n"
    assert alive(sleep) == []


@pytest.mark.parametrize(
    "stubborn",
    [
        "sleep {0}",
        "trap '' TERM INT HUP; while :; do sleep {0}; done",
        "sleep {0} & sleep {0} & wait",
        "setsid sleep {0}",
        "(setsid sh -c 'setsid sleep {0} & exec sleep {0}' >/dev/null 2>&1 &); sleep {0}",
        "sleep {0} & kill -STOP $!; kill -STOP $$",
        "env -i setsid sleep {0} & sleep {0}",
    ],
)
async def test_kill_ends_every_descendant_however_it_hides(tmp_path: Path, stubborn: str) -> None:
    sleep = a_while()
    process = await SANDBOX.spawn(shell("echo on; " + stubborn.format(sleep), tmp_path))
    reader = process.output()
    with anyio.fail_after(60):
        assert await anext(reader) == b"on\n"
        while not alive(sleep):
            await anyio.sleep(0.01)
        started = anyio.current_time()
        await process.kill()
        assert anyio.current_time() - started < 2
        assert alive(sleep) == []
        await process.kill()
    await process.wait()
    assert not is_zombie(process.pid)
    await reader.aclose()


HOPPER = """
import os, time
beat = os.open("beat", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    if os.fork():
        os._exit(0)
    {leap}
    os.write(beat, b".")
    time.sleep(0.0003)
"""


@pytest.mark.parametrize("leap", ["pass", "os.setpgid(0, 0)", "os.setsid()"])
async def test_kill_ends_a_program_that_is_another_process_every_moment(tmp_path: Path, leap: str) -> None:
    (tmp_path / "hopper.py").write_text(HOPPER.format(leap=leap))
    beat = tmp_path / "beat"
    process = await SANDBOX.spawn(shell(f"{sys.executable} -S hopper.py & sleep 60", tmp_path))
    with anyio.fail_after(60):
        while not beat.exists() or beat.stat().st_size < 20:
            await anyio.sleep(0.01)
        await process.kill()
        before = beat.stat().st_size
        await anyio.sleep(0.1)
    assert beat.stat().st_size == before


async def test_killing_ends_a_reader_that_waits_in_another_task(tmp_path: Path) -> None:
    process = await SANDBOX.spawn(shell("echo on; sleep 60", tmp_path))
    heard: list[bytes] = []

    async def listen() -> None:
        async for chunk in process.output():
            heard.append(chunk)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            tasks.start_soon(process.wait)
            tasks.start_soon(process.wait)
            while not heard:
                await anyio.sleep(0.01)
            await process.kill()
    assert heard == [b"on\n"]


async def test_a_holder_of_the_pipe_that_nobody_can_find_delays_the_end_by_two_seconds_at_most(tmp_path: Path) -> None:
    process = await SANDBOX.spawn(shell("(env -i setsid sleep 6 &); echo on; sleep 60", tmp_path))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            heard: list[bytes] = []

            async def listen() -> None:
                async for chunk in process.output():
                    heard.append(chunk)

            tasks.start_soon(listen)
            while not heard:
                await anyio.sleep(0.01)
            await process.kill()
    assert heard == [b"on\n"]


async def test_a_polite_program_may_tidy_up_before_it_is_killed(tmp_path: Path) -> None:
    process = await SANDBOX.spawn(shell("trap 'echo bye > tidy; exit' TERM; echo on; sleep 60 & wait", tmp_path))
    with anyio.fail_after(60):
        assert await anext(process.output()) == b"on\n"
        await process.kill()
    assert (tmp_path / "tidy").read_text() == "bye\n"


async def test_a_reader_that_stops_makes_the_program_wait(tmp_path: Path) -> None:
    process = await SANDBOX.spawn(shell("yes | head -c 5000000 | tee count >/dev/stderr; echo end > end", tmp_path))
    reader = process.output()
    with anyio.fail_after(60):
        await anext(reader)
        await anyio.sleep(0.2)
        assert not (tmp_path / "end").exists()
        rest = [chunk async for chunk in reader]
    assert (tmp_path / "end").exists()
    assert 4_900_000 < sum(map(len, rest)) <= 5_000_000


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (Launch(argv=("/nonexistent",), cwd="/nowhere", workspace="/", policy=DangerFullAccess()), "no directory"),
        (
            Launch(argv=("/bin/echo", "x" * 200_000), cwd="/", workspace="/", policy=DangerFullAccess()),
            "argument list too long",
        ),
        (Launch(argv=("/bin/echo", "a\0b"), cwd="/", workspace="/", policy=DangerFullAccess()), "null byte"),
    ],
)
async def test_what_cannot_be_started_is_a_sentence(launch: Launch, words: str) -> None:
    with pytest.raises(ToolFailed, match=words):
        await SANDBOX.spawn(launch)


async def test_a_missing_program_is_told_in_the_output(tmp_path: Path) -> None:
    launch = Launch(argv=("no-such-program",), cwd=str(tmp_path), workspace=str(tmp_path), policy=DangerFullAccess())
    process = await SANDBOX.spawn(launch)
    with anyio.fail_after(60):
        assert "no-such-program" in await said(process)
        assert await process.wait() == 127


async def test_no_descriptor_is_left_after_many_commands(tmp_path: Path) -> None:
    async def once() -> None:
        process = await SANDBOX.spawn(shell("echo x", tmp_path))
        assert await said(process) == "x\n"

    await once()
    gc.collect()
    before = descriptors()
    with anyio.fail_after(60):
        for _ in range(20):
            await once()
    gc.collect()
    assert descriptors() <= before


async def test_limits_hold_for_the_command_and_not_for_us(tmp_path: Path) -> None:
    limits = Limits(file_bytes=1 << 20, memory_bytes=256 << 20)
    process = await SANDBOX.spawn(
        shell("ulimit -f; ulimit -d; ulimit -c; head -c 5000000 /dev/zero > big", tmp_path, limits)
    )
    with anyio.fail_after(60):
        lines = (await said(process)).splitlines()
    assert lines[:3] == [str(1 << 10), str(256 << 10), "0"]
    assert (tmp_path / "big").stat().st_size == 1 << 20


async def test_memory_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    python = f"{sys.executable} -S -c 'x = bytearray(500 << 20); print(len(x))'"
    process = await SANDBOX.spawn(shell(python, tmp_path, Limits(memory_bytes=200 << 20)))
    with anyio.fail_after(60):
        assert "MemoryError" in await said(process)


def test_what_runs_without_walls_dies_with_a_harness_that_is_killed(tmp_path: Path) -> None:
    sleep = a_while()
    harness = f"""
import anyio
from hames.domain.policy import DangerFullAccess
from hames.ports import Launch
from hames.sandbox.local import LocalSandbox

async def main():
    words = ("/bin/sh", "-c", "(setsid sleep {sleep} >/dev/null 2>&1 &); sleep {sleep}")
    sandbox = LocalSandbox()
    await sandbox.spawn(Launch(argv=words, cwd="/", workspace="/", policy=DangerFullAccess()))
    print("ready", flush=True)
    await anyio.sleep(60)

anyio.run(main)
"""
    with subprocess.Popen([sys.executable, "-c", harness], stdout=subprocess.PIPE, cwd=tmp_path) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 5
        while len(alive(sleep)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert alive(sleep)
        program.send_signal(signal.SIGKILL)
    while alive(sleep) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive(sleep) == []


async def test_the_guardian_is_started_again_when_somebody_ended_it(tmp_path: Path) -> None:
    sandbox = LocalSandbox()
    with anyio.fail_after(60):
        first = await sandbox.spawn(shell("sleep 60", tmp_path))
        guardian = sandbox._guardian._program
        assert guardian is not None
        guardian.kill()
        guardian.wait()
        second = await sandbox.spawn(shell("echo x", tmp_path))
        assert await said(second) == "x\n"
        assert sandbox._guardian._program is not guardian
        sandbox.close()
        assert await first.wait() == -signal.SIGKILL
        await first.kill()
