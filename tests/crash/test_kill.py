"""`kill -9` anywhere: nothing a watcher was told is missing, nothing stays open, the thread goes on.

`make test` kills a few dozen times, `make crash` (HAMES_KILLS=…) many more.
"""

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import msgspec
import pytest

from hames.app import open_engine
from hames.config.load import load
from hames.core.context import messages
from hames.domain.commands import ReadThread
from hames.domain.events import ItemCompleted, ItemDelta, ItemStarted, Record, TurnEnded, TurnStarted
from hames.domain.ids import ThreadId
from hames.domain.items import CommandExecution
from hames.domain.request import CallBlock, ResultBlock
from hames.domain.state import ThreadState

KILLS = int(os.environ.get("HAMES_KILLS", "40"))
SCRIPT = [
    [
        {"think": "I wonder what is here.", "pace_ms": 2},
        {"say": "A first look at everything that is here, in some detail.", "pace_ms": 2},
        {"call": "shell", "with": {"command": "echo one; sleep 0.02; echo two; echo x >> ran.txt"}},
        {"call": "write", "with": {"path": "new.txt", "content": "made by the agent\n"}},
    ],
    [{"say": "Then more words, slowly.", "pace_ms": 3}, {"call": "shell", "with": {"command": "sleep 0.05; false"}}],
    [{"say": "And the end of it.", "pace_ms": 2}],
]


@pytest.fixture(scope="module")
def zygote() -> Iterator[subprocess.Popen[bytes]]:
    script = Path(__file__).with_name("zygote.py")
    process = subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(10)


def killed(
    zygote: subprocess.Popen[bytes], directory: Path, script: Path, *, after: int, jitter_s: float
) -> list[bytes]:
    """Runs a turn, kills it some time after it told that many lines, and returns everything it told."""
    told = directory / "told"
    if not told.exists():
        os.mkfifo(told)
    reader = os.open(told, os.O_RDONLY | os.O_NONBLOCK)
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    request = {"directory": str(directory), "script": str(script), "told": str(told)}
    zygote.stdin.write(json.dumps(request).encode() + b"\n")
    zygote.stdin.flush()
    pid = int(zygote.stdout.readline())
    heard = b""
    deadline = time.monotonic() + 20
    while heard.count(b"\n") < after and time.monotonic() < deadline:
        if select.select([reader], [], [], 0.5)[0]:
            chunk = os.read(reader, 1 << 16)
            heard += chunk
            if not chunk and heard:
                break  # it finished before we got to it
    time.sleep(jitter_s)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    assert zygote.stdout.readline() == b"gone\n"
    os.set_blocking(reader, True)  # a child between fork and exec may hold the other end for a moment
    while chunk := os.read(reader, 1 << 16):
        heard += chunk
    os.close(reader)
    lines = heard.split(b"\n")
    return [line for line in lines[:-1] if not line.startswith(b'{"thread"')]


def survivors(directory: Path) -> list[str]:
    """Processes that still work in the directory."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if str((entry / "cwd").readlink()).startswith(str(directory)):
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
    return found


async def check(directory: Path, thread_id: str, told: list[Record]) -> None:
    flags = {"cwd": str(directory / "work"), "model": "scripted/hello", "approval_policy": "never"}
    options = load(flags, {"HOME": str(directory), "PATH": os.environ["PATH"]})
    async with open_engine(options) as engine:
        watcher = await engine.watch(ThreadId(thread_id))
        with anyio.fail_after(60):
            await engine.wait(ThreadId(thread_id))
        watcher.close()
        state = await engine.execute(ReadThread(thread_id=ThreadId(thread_id)))
        assert isinstance(state, ThreadState)
        kept = [change.record for change in await engine.history(ThreadId(thread_id))]
    assert [record.seq for record in kept] == list(range(1, len(kept) + 1))
    by_seq = {record.seq: record for record in kept}
    texts: dict[tuple[int, str], str] = {}
    for record in told:
        event = record.event
        if isinstance(event, ItemDelta):
            texts[record.seq, event.item_id] = texts.get((record.seq, event.item_id), "") + event.text
        else:
            assert by_seq[record.seq] == record, "an event that was told is not in the log"
    for (seq, item_id), text in texts.items():
        bundle = by_seq[seq].event
        assert isinstance(bundle, ItemDelta)
        assert bundle.item_id == item_id
        assert bundle.text.startswith(text), "text that was told is not in the log"
    assert not state.foreign, "a log of ours that was torn by a kill is still ours"
    assert state.running is None
    assert all(item.status != "running" for turn in state.turns for item in turn.items)
    started = [r.event.item.id for r in kept if isinstance(r.event, ItemStarted)]
    completed = [r.event.item.id for r in kept if isinstance(r.event, ItemCompleted)]
    assert sorted(started) == sorted(completed)
    assert len(set(started)) == len(started)
    turns = [r.event.turn_id for r in kept if isinstance(r.event, TurnStarted)]
    assert turns == [r.event.turn_id for r in kept if isinstance(r.event, TurnEnded)]
    spoken = messages(state)
    assert [m.role for m in spoken] == [("user", "assistant")[n % 2] for n in range(len(spoken))]
    for asked, answered in zip(spoken, [*spoken[1:], None], strict=True):
        calls = [block.call.id for block in asked.blocks if isinstance(block, CallBlock)]
        results = [block.call.id for block in answered.blocks if isinstance(block, ResultBlock)] if answered else []
        assert calls == results
    executed = sum(isinstance(item, CommandExecution) for turn in state.turns for item in turn.items)
    ran = directory / "work" / "ran.txt"
    assert (len(ran.read_text().split()) if ran.exists() else 0) <= executed


@pytest.mark.needs("bash")
def test_kill_at_any_point_loses_nothing_that_was_told(tmp_path: Path, zygote: subprocess.Popen[bytes]) -> None:
    chance = random.Random(os.environ.get("HAMES_SEED", "hames"))
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"conversations": [], "otherwise": SCRIPT}))
    decode = msgspec.json.Decoder(Record).decode
    cut_short = 0
    for number in range(KILLS):
        directory = tmp_path / str(number // 4)  # every thread is killed a few times over
        (directory / "work").mkdir(parents=True, exist_ok=True)
        after, jitter_s = chance.randint(0, 40), chance.random() * 0.01
        told = [decode(line) for line in killed(zygote, directory, script, after=after, jitter_s=jitter_s)]
        threads = list((directory / "work" / ".harness" / "threads").glob("ses_*"))
        if not threads:
            assert not told
            continue
        cut_short += not any(isinstance(record.event, TurnEnded) for record in told)
        anyio.run(check, directory, threads[0].name, told)
    assert cut_short > KILLS // 3, "too few kills met a turn under way"


@pytest.mark.needs("bash")
def test_a_command_dies_with_its_harness(tmp_path: Path, zygote: subprocess.Popen[bytes]) -> None:
    chance = random.Random(os.environ.get("HAMES_SEED", "hames"))
    commands = (
        "sleep 60",
        "sleep 60 & sleep 60",
        "setsid sleep 60",
        "(setsid nohup sleep 60 >/dev/null 2>&1 &) ; sleep 60",
        "trap '' TERM HUP; sleep 60; sleep 60",
    )
    for number in range(max(10, KILLS // 4)):
        directory = tmp_path / str(number)
        (directory / "work").mkdir(parents=True)
        script = directory / "script.json"
        script.write_text(json.dumps([[{"call": "shell", "with": {"command": commands[number % len(commands)]}}]]))
        # Six lines: the turn, the prompt twice, the call, the bill, the command's start.
        killed(zygote, directory, script, after=7, jitter_s=chance.random() * 0.05)
        deadline = time.monotonic() + 2
        while (left := survivors(directory)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert left == [], commands[number % len(commands)]
