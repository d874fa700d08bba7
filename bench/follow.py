"""Threads of another process: how long a piece of text takes to be seen here, and what following costs at rest.

    python bench/follow.py

The writer is a process of its own. Times are wall time, so machines that do something else show more.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

import anyio

from hames.domain.events import ItemDelta, Noticed, Record, ThreadCreated
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.options import Settings
from hames.store.jsonl import JsonlStore
from hames.store.places import Places

PIECES, PAUSE_SECONDS = 300, 0.02
THREADS, REST_SECONDS = 100, 5.0


def say(name: str, **figures: object) -> None:
    print(json.dumps({"bench": name, **figures}), flush=True)


def store(directory: Path) -> JsonlStore:
    return JsonlStore(directory / ".harness", places=Places(directory / "state"))


def name(number: int) -> ThreadId:
    return ThreadId(f"ses_{number}")


async def write(directory: Path) -> None:
    """The other process: jots the time, and appends a bundle every fifth time."""
    log = await store(directory).open(name(0))
    print("ready", flush=True)
    sys.stdin.readline()
    seq, bundle = 2, ""
    for number in range(PIECES):
        piece = f"{time.monotonic()} "
        bundle += piece
        log.jot(_delta(seq, piece))
        if number % 5 == 4:
            await log.append([_delta(seq, bundle)])
            seq, bundle = seq + 1, ""
        await anyio.sleep(PAUSE_SECONDS)
    await log.append([Record(seq=seq, at_ms=0, thread_id=name(0), event=Noticed(source="bench", name="end"))])


def _delta(seq: int, text: str) -> Record:
    event = ItemDelta(turn_id=TurnId("turn"), item_id=ItemId("item"), stream="text", text=text)
    return Record(seq=seq, at_ms=0, thread_id=name(0), event=event)


async def latency(directory: Path) -> None:
    command = [sys.executable, __file__, "write", str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        writer.stdout.readline()
        took: list[float] = []
        cpu = time.process_time()
        async with aclosing(store(directory).follow(name(0))) as news:
            await anext(news)
            writer.stdin.write(b"\n")
            writer.stdin.flush()
            async for one in news:
                now = time.monotonic()
                texts = [record.event.text for record in one.records if isinstance(record.event, ItemDelta)]
                took += [(now - float(stamp)) * 1e3 for stamp in "".join(texts).split()]
                if any(isinstance(record.event, Noticed) for record in one.records):
                    break
        cpu = time.process_time() - cpu
    assert len(took) == PIECES, f"{len(took)} of {PIECES} pieces were seen"
    took.sort()
    say(
        "seen_in_another_process",
        p50_ms=round(statistics.median(took), 2),
        p99_ms=round(took[PIECES * 99 // 100], 2),
        cpu_us_per_piece=round(cpu / PIECES * 1e6, 1),
    )


async def rest(directory: Path) -> None:
    kept = store(directory)
    async with anyio.create_task_group() as tasks:
        for number in range(THREADS):
            tasks.start_soon(_follow, kept, name(number))
        await anyio.sleep(1)
        cpu = time.process_time()
        await anyio.sleep(REST_SECONDS)
        used = (time.process_time() - cpu) / REST_SECONDS
        say("follow_100_idle_threads", cpu_percent=round(used * 100, 2))
        tasks.cancel_scope.cancel()


async def _follow(kept: JsonlStore, thread_id: ThreadId) -> None:
    async with aclosing(kept.follow(thread_id)) as news:
        async for _ in news:
            pass


async def main(directory: Path) -> None:
    made = store(directory)
    for number in range(THREADS):
        log = await made.create(name(number))
        first = ThreadCreated(settings=Settings(model="a/b", cwd="/"))
        await log.append([Record(seq=1, at_ms=0, thread_id=name(number), event=first)])
        await log.close()
    await latency(directory)
    await rest(directory)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        anyio.run(write, Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as base:
            anyio.run(main, Path(base))
