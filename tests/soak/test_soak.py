"""A server that works for a long time is as it was: no descriptor, process, thread or memory is left behind by a turn.

`make test` lives a few dozen lives, `make soak` (HAMES_LIVES=…) thousands.
"""

import os
import random
from pathlib import Path

import anyio
import httpx2
import pytest
from websockets.asyncio.client import connect

from hames.core.threads import IDLE_SECONDS, KEPT
from hames.domain.value import Value
from server_support import SyncFollower, serve_process

LIVES = int(os.environ.get("HAMES_LIVES", "48"))
AT_ONCE = 6
SCRIPT = {
    "conversations": [
        {"when": "hang", "replies": [[{"say": "Half of it", "pace_ms": 1}, {"hang": True}]]},
        {"when": "run", "replies": [[{"call": "shell", "with": {"command": "sleep 60"}}]]},
        {"when": "fail", "replies": [[{"say": "Well"}, {"fail": "no more", "status": 400}]]},
    ],
    "otherwise": [
        [{"think": "Hm."}, {"say": "A look. " * 40}, {"call": "shell", "with": {"command": "seq 1 2000"}}],
        [{"call": "write", "with": {"path": "new.txt", "content": "made\n"}}],
        [{"say": "Done. " * 40}],
    ],
}
# What a life may cost for ever: a row of the list of threads, and what the allocator does not give back.
KEPT_KIB = 16
SLACK_KIB = 12 * 1024


class Holdings(Value):
    """What the process holds, as the kernel counts it."""

    descriptors: int
    threads: int
    children: int
    memory_kib: int


def holdings(pid: int) -> Holdings:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return Holdings(
        descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        threads=int(status["Threads"]),
        children=len(children),
        memory_kib=int(status["VmRSS"].split()[0]),
    )


async def life(url: str, client: httpx2.AsyncClient, number: int, chance: random.Random) -> None:
    """One thread, from its making to its end, and one of the ways to leave it."""
    thread = (await client.post("/threads", json={})).json()["thread"]["id"]
    address = f"{url.replace('http', 'ws', 1)}/ws?thread={thread}"
    word = ("go", "hang", "run", "go", "fail", "go")[number % 6]
    async with connect(address, max_size=None, compression=None, proxy=None) as socket_:
        follower = SyncFollower(socket_)
        await follower.hear()
        await follower.send({"type": "submit", "prompt": word})
        if word in ("hang", "run"):
            await follower.until(lambda state: len(state["messages"]) > 1)
            await anyio.sleep(chance.random() / 50)
            await follower.send({"type": "cancel"})
        elif number % 4 == 3:
            await follower.until(lambda state: bool(state["messages"]))
            socket_.transport.abort()  # a client that vanishes in the middle
    with anyio.fail_after(60):
        while (await client.get(f"/threads/{thread}")).json()["state"]["status"] == "running":
            await anyio.sleep(0.02)
    if number % 5 == 0:
        await client.post(f"/threads/{thread}/fork", json={})
        await client.post(f"/threads/{thread}/archive", json={})


async def lives(url: str, numbers: range) -> None:
    chance = random.Random(numbers.start)
    limit = anyio.CapacityLimiter(AT_ONCE)
    async with (
        httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60) as client,
        anyio.create_task_group() as tasks,
    ):

        async def one(number: int) -> None:
            async with limit:
                await life(url, client, number, chance)

        for number in numbers:
            tasks.start_soon(one, number)


async def settled(pid: int) -> Holdings:
    """When nothing changes any more: connections close a moment after their clients."""
    before = holdings(pid)
    with anyio.move_on_after(10):
        while True:
            await anyio.sleep(0.3)
            now = holdings(pid)
            if (now.descriptors, now.children) == (before.descriptors, before.children):
                break
            before = now
    return holdings(pid)


@pytest.mark.needs("bwrap")
async def test_a_server_holds_no_more_after_many_turns_than_after_some(tmp_path: Path) -> None:
    lived = LIVES - LIVES // 3
    async with serve_process(tmp_path, SCRIPT, "--approval-policy", "never") as (process, url):
        pid = process.pid
        await lives(url, range(LIVES // 3))
        first = await settled(pid)
        await lives(url, range(LIVES // 3, LIVES))
        if lived > KEPT:
            await anyio.sleep(IDLE_SECONDS + 1)
            await lives(url, range(1))  # makes room
        last = await settled(pid)
    print(f"after {LIVES // 3} lives: {first}\nafter {LIVES}: {last}")
    loaded = min(lived + lived // 5 + 1, KEPT)  # every fifth was forked; each keeps its log locked
    assert last.descriptors <= first.descriptors + loaded + 2
    assert last.children <= first.children
    assert last.threads <= first.threads + 16  # workers come and go; one for each life would be more
    assert last.memory_kib - first.memory_kib <= SLACK_KIB + KEPT_KIB * lived
