"""Threads in PostgreSQL, side by side with files in the same run.

    python bench/scale.py

Kept: from the call to the moment at which the store says so. Seen: until another process has read it. Both are also
given beyond the database's own commit, which is measured first with the same driver. The server is a private one with
`fsync` on. Times are wall time, so machines that do something else show more; CPU is of this process alone.
"""

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import anyio

from hames.domain.events import ItemDelta, Noticed, Record
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.ports import Log, Store
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.store.postgres.connection import connect
from hames.store.postgres.store import PostgresStore
from hames.testing.services.postgres import Cluster

SINGLE, PAUSE_SECONDS = 200, 0.01
THREADS, PIECES, FACTS = 100, 400, 20
RESTING, REST_SECONDS = 10_000, 5.0
MODELS, TOKENS_PER_SECOND, SPREAD_SECONDS = 200, 30, 5
"""So many turns get text at the pace of a model: 6,000 tokens each second, one here and one there."""


def say(name: str, **figures: object) -> None:
    print(json.dumps({"bench": name, **figures}), flush=True)


def open_store(place: str) -> Store:
    if place.startswith("postgresql:"):
        return PostgresStore(place)
    return JsonlStore(Path(place) / ".harness", places=Places(Path(place) / "state"))


def thread(number: int) -> ThreadId:
    return ThreadId(f"ses_{number}")


def delta(number: int, seq: int, text: str) -> Record:
    event = ItemDelta(turn_id=TurnId("turn"), item_id=ItemId("item"), stream="text", text=text)
    return Record(seq=seq, at_ms=0, thread_id=thread(number), event=event)


def fact(number: int, seq: int) -> Record:
    return Record(seq=seq, at_ms=0, thread_id=thread(number), event=Noticed(source="bench", name="fact"))


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ms(seconds: list[float]) -> float:
    return round(statistics.median(seconds) * 1000, 2)


async def commit_times(address: str) -> dict[str, float]:
    """What one row costs with the driver alone."""
    connection = await connect(address, "bench")
    await connection.execute("create table if not exists bench (n integer)")
    found: dict[str, float] = {}
    for name in ("on", "off"):
        await connection.execute(f"set synchronous_commit = {name}")
        times: list[float] = []
        for number in range(SINGLE):
            began = time.perf_counter()
            await connection.execute("insert into bench values ($1)", number)
            times.append(time.perf_counter() - began)
            await asyncio.sleep(PAUSE_SECONDS)
        found[name] = ms(times)
    await connection.close()
    return found


async def kept(log: Log, number: int) -> dict[str, list[float]]:
    """One fact, and one piece of text, at a time."""
    facts: list[float] = []
    text: list[float] = []
    seq = 0
    for _ in range(SINGLE):
        seq += 1
        began = time.perf_counter()
        await log.append([fact(number, seq)], sync=True)
        facts.append(time.perf_counter() - began)
        done = anyio.Event()
        seq += 1
        began = time.perf_counter()

        def told(began: float = began, done: anyio.Event = done) -> None:
            text.append(time.perf_counter() - began)
            done.set()

        log.jot(delta(number, seq, "piece"), told)
        await done.wait()
        await log.append([delta(number, seq, "piece")])
        await asyncio.sleep(PAUSE_SECONDS)
    return {"facts": facts, "text": text}


async def read(place: str) -> None:
    """The other process: says how old each piece of text was when it came."""
    store = open_store(place)
    ages: list[float] = []
    async with aclosing(store.follow(thread(0))) as news:
        async for one in news:
            if one.whole:
                print("ready", flush=True)
                continue
            now = time.monotonic()
            for record in one.records:
                if isinstance(record.event, ItemDelta):
                    ages += [now - float(word) for word in record.event.text.split()]
                elif isinstance(record.event, Noticed) and record.event.name == "end":
                    print(json.dumps(ages), flush=True)
                    await store.close()
                    return


async def seen(store: Store, log: Log, place: str, seq: int) -> list[float]:
    reader = subprocess.Popen([sys.executable, __file__, "read", place], stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    await anyio.to_thread.run_sync(reader.stdout.readline)
    for _ in range(SINGLE // 5):
        seq += 1
        bundle = ""
        for _ in range(5):
            piece = f"{time.monotonic()} "
            bundle += piece
            log.jot(delta(0, seq, piece))
            await asyncio.sleep(PAUSE_SECONDS * 2)
        await log.append([delta(0, seq, bundle)])
    end = Record(seq=seq + 1, at_ms=0, thread_id=thread(0), event=Noticed(source="bench", name="end"))
    await log.append([end])
    ages = json.loads(await anyio.to_thread.run_sync(reader.stdout.readline))
    reader.wait()
    return ages


async def flood(store: Store) -> dict[str, float]:
    """Many threads write text as fast as they can; then facts, each of them safe."""
    logs = [await store.create(thread(1000 + number)) for number in range(THREADS)]

    async def write(log: Log, number: int) -> None:
        seq = 0
        for _ in range(PIECES // 20):
            seq += 1
            for _ in range(20):
                log.jot(delta(number, seq, "some text "))
                await asyncio.sleep(0)
            await log.append([delta(number, seq, "some text " * 20)])

    async def state(log: Log, number: int) -> None:
        for seq in range(PIECES // 20 + 1, PIECES // 20 + 1 + FACTS):
            await log.append([fact(number, seq)], sync=True)

    found: dict[str, float] = {}
    works: tuple[tuple[str, Callable[[Log, int], object], int], ...] = (
        ("delta", write, THREADS * PIECES),
        ("fact", state, THREADS * FACTS),
    )
    for name, work, count in works:
        began, used = time.perf_counter(), cpu()
        async with anyio.create_task_group() as tasks:
            for number, log in enumerate(logs):
                tasks.start_soon(work, log, 1000 + number)
        found |= {
            f"{name}s_per_second": round(count / (time.perf_counter() - began)),
            f"{name}s_per_cpu_second": round(count / (cpu() - used)),
            f"cpu_us_per_{name}": round((cpu() - used) / count * 1e6, 1),
        }
    for log in logs:
        await log.close()
    return found


async def spread(store: Store) -> dict[str, float]:
    """Tokens as models send them: of many threads in turn, each on its own. A second of text is one record."""
    logs = [await store.create(thread(2000 + number)) for number in range(MODELS)]
    told: list[float] = []

    async def write(log: Log, number: int) -> None:
        began = time.perf_counter()
        await asyncio.sleep(number % TOKENS_PER_SECOND / TOKENS_PER_SECOND / MODELS)
        for token in range(TOKENS_PER_SECOND * SPREAD_SECONDS):
            seq = token // TOKENS_PER_SECOND + 1
            sent = time.perf_counter()
            log.jot(delta(number, seq, "token "), lambda sent=sent: told.append(time.perf_counter() - sent))
            if token % TOKENS_PER_SECOND == TOKENS_PER_SECOND - 1:
                await log.append([delta(number, seq, "token " * TOKENS_PER_SECOND)])
            due = began + (token + 1) / TOKENS_PER_SECOND
            await asyncio.sleep(max(0.0, due - time.perf_counter()))

    began, used = time.perf_counter(), cpu()
    async with anyio.create_task_group() as tasks:
        for number, log in enumerate(logs):
            tasks.start_soon(write, log, 2000 + number)
    took, spent = time.perf_counter() - began, cpu() - used
    for log in logs:
        await log.close()
    return {
        "offered_per_second": MODELS * TOKENS_PER_SECOND,
        "kept_per_second": round(len(told) / took),
        "kept_p50_ms": ms(told),
        "tokens_per_cpu_second": round(len(told) / spent),
    }


async def resting(store: Store, log: Log) -> dict[str, float]:
    """A process that has the store open and does nothing, while there are many threads."""
    before = cpu()
    await asyncio.sleep(REST_SECONDS)
    return {"cpu_percent": round((cpu() - before) / REST_SECONDS * 100, 2)}


async def measure(name: str, place: str, commit: dict[str, float]) -> None:
    store = open_store(place)
    log = await store.create(thread(0))
    times = await kept(log, 0)
    for what, setting in (("facts", "on"), ("text", "off")):
        beyond = {"beyond_commit_ms": round(ms(times[what]) - commit[setting], 2)} if commit else {}
        say(f"{what} kept", store=name, p50_ms=ms(times[what]), **beyond)
    ages = await seen(store, log, place, 2 * SINGLE)
    beyond = {"beyond_commit_ms": round(ms(ages) - commit["off"], 2)} if commit else {}
    say("text seen by another process", store=name, p50_ms=ms(ages), **beyond)
    say(f"{THREADS} threads at once", store=name, **await flood(store))
    say(f"tokens of {MODELS} turns, spread out", store=name, **await spread(store))
    if isinstance(store, PostgresStore):
        await store.connections.execute(
            "insert into hames.thread (id, head) select 'rest_' || n, 0 from generate_series(1, $1::integer) n", RESTING
        )
        async with aclosing(store.follow(thread(0))) as news:
            await anext(news)
            say(f"{RESTING} resting threads", store=name, **await resting(store, log))
    await log.close()
    await store.close()


async def main() -> None:
    cluster = Cluster(fsync=True).start()
    try:
        address = cluster.new_database()
        commit = await commit_times(address)
        say("one commit of the database", p50_ms_on=commit["on"], p50_ms_off=commit["off"])
        with tempfile.TemporaryDirectory() as place:
            await measure("files", place, {})
        await measure("postgresql", address, commit)
    finally:
        cluster.stop()


if __name__ == "__main__":
    anyio.run(read, sys.argv[2]) if sys.argv[1:2] == ["read"] else anyio.run(main)
