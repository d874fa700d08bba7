"""What the core costs, in CPU time: a delta, opening a long thread, listing many, an idle thread, importing.

    python bench/core.py

CPU seconds rather than wall time, and the best of several runs: machines are shared.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

from hames.clock_and_ids import RandomIds, SystemClock
from hames.core.context import messages
from hames.core.thread import Thread
from hames.domain.commands import ThreadSummary
from hames.domain.events import Event, ItemCompleted, ItemStarted, ThreadCreated, TurnEnded, TurnStarted
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import AgentMessage, TextInput, UserMessage
from hames.domain.options import Settings
from hames.domain.state import blank
from hames.store.jsonl import JsonlStore
from hames.store.places import Places

SETTINGS = Settings(model="a/b", cwd="/")


def say(name: str, **figures: object) -> None:
    print(json.dumps({"bench": name, **figures}), flush=True)


def store(directory: Path) -> JsonlStore:
    return JsonlStore(directory / ".harness", places=Places(directory / "state"))


async def a_thread(directory: Path, name: str = "ses_bench") -> Thread:
    thread_id = ThreadId(name)
    thread = Thread(await store(directory).create(thread_id), blank(thread_id), SystemClock())
    await thread.emit(ThreadCreated(settings=SETTINGS))
    return thread


async def deltas(directory: Path, count: int = 20_000) -> None:
    """Kept, folded and put into a watcher's queue."""
    thread = await a_thread(directory)
    turn_id, item_id = TurnId("turn_1"), ItemId("item_1")
    await thread.emit(TurnStarted(turn_id=turn_id), ItemStarted(turn_id=turn_id, item=AgentMessage(id=item_id, step=1)))
    watcher = thread.watch()
    best = 1e9
    for _ in range(5):
        start = time.process_time()
        for number in range(count // 5):
            await thread.delta(turn_id, item_id, "text", "tok ")
            if number % 100 == 0:
                await watcher.next()
        best = min(best, (time.process_time() - start) / (count // 5))
    say("delta", cpu_us=round(best * 1e6, 2))
    await thread.close()


async def long_thread(directory: Path, items: int = 10_000) -> None:
    thread = await a_thread(directory)
    ids = RandomIds()
    for _ in range(10):
        turn_id = TurnId(ids.new("turn"))
        events: list[Event] = [TurnStarted(turn_id=turn_id)]
        for number in range(items // 10):
            item_id = ItemId(ids.new("item"))
            if number == 0:
                said = UserMessage(id=item_id, step=0, content=(TextInput(text="go"),))
                events += [ItemStarted(turn_id=turn_id, item=said), ItemCompleted(turn_id=turn_id, item=said)]
                continue
            item = AgentMessage(id=item_id, step=number)
            done = AgentMessage(id=item_id, step=number, text="lorem ipsum " * 20, status="completed")
            events += [ItemStarted(turn_id=turn_id, item=item), ItemCompleted(turn_id=turn_id, item=done)]
        await thread.emit(*events, TurnEnded(turn_id=turn_id, status="completed"))
    await thread.close()
    best = request = 1e9
    for _ in range(5):
        kept = store(directory)
        wall, start = time.perf_counter(), time.process_time()
        again = await Thread.opened(await kept.open(ThreadId("ses_bench")), SystemClock(), SETTINGS)
        best = min(best, time.process_time() - start)
        wall = time.perf_counter() - wall
        start = time.process_time()
        messages(again.state)
        request = min(request, time.process_time() - start)
        await again.close()
        await kept.close()
    say(
        "open_10k_items",
        cpu_ms=round(best * 1000, 1),
        last_wall_ms=round(wall * 1000, 1),
        context_cpu_ms=round(request * 1000, 2),
    )


async def listing(directory: Path, threads: int = 10_000) -> None:
    kept = store(directory)
    log = await kept.create(ThreadId("ses_0"))
    await kept.page(limit=1, cursor=None, archived=False, search="")  # makes the index
    for number in range(threads):
        summary = ThreadSummary(
            id=ThreadId(f"ses_{number}"), title="t", preview="p", cwd="/", model="a/b",
            created_at_ms=number, updated_at_ms=number,
        )  # fmt: skip
        path = directory / ".harness" / "threads" / f"ses_{number}"
        path.mkdir(exist_ok=True)
        kept.put_in_index(summary, path.stat().st_mtime_ns, new=False)
    await kept.page(limit=1, cursor=None, archived=False, search="")
    await log.close()
    await kept.close()
    again = store(directory)
    start = time.perf_counter()
    page = await again.page(limit=25, cursor=None, archived=False, search="")
    first = time.perf_counter() - start
    start, seen = time.perf_counter(), 0
    cursor: str | None = None
    while True:
        page = await again.page(limit=100, cursor=cursor, archived=False, search="")
        seen += len(page.threads)
        if (cursor := page.next_cursor) is None:
            break
    walk = time.perf_counter() - start
    await again.close()
    say("list_10k", first_page_ms=round(first * 1000, 2), walk_ms=round(walk * 1000, 1), seen=seen)


async def idle(directory: Path, threads: int = 500) -> None:
    kept = store(directory)
    opened: list[Thread] = []

    async def one(number: int) -> None:
        thread_id = ThreadId(f"ses_{number}")
        thread = Thread(await kept.create(thread_id), blank(thread_id), SystemClock())
        turn_id = TurnId("turn_1")
        said = UserMessage(id=ItemId("item_1"), step=0, content=(TextInput(text="go"),))
        await thread.emit(
            ThreadCreated(settings=SETTINGS),
            TurnStarted(turn_id=turn_id),
            ItemCompleted(turn_id=turn_id, item=said),
            TurnEnded(turn_id=turn_id, status="completed"),
        )
        opened.append(thread)

    for number in range(20):
        await one(number)
    before = _rss()
    for number in range(20, 20 + threads):
        await one(number)
    say("idle_thread", kib=round((_rss() - before) / threads, 1), descriptors=len(os.listdir("/proc/self/fd")))
    for thread in opened:
        await thread.close()


def _rss() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1024


def imports() -> None:
    def best(code: str) -> float:
        times: list[float] = []
        for _ in range(10):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - start)
        return min(times) * 1000

    bare = best("pass")
    say("import", pass_ms=round(bare, 1), hames_ms=round(best("import hames") - bare, 1),
        harness_ms=round(best("from hames import Harness") - bare, 1))  # fmt: skip


async def main() -> None:
    for work in (idle, deltas, long_thread, listing):
        with tempfile.TemporaryDirectory() as directory:
            await work(Path(directory))
    imports()


anyio.run(main)
