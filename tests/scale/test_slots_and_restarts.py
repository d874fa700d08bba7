"""Slots limit the turns of a node; nodes are restarted one by one while turns run; deadlines outlive a node."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import anyio
import pytest

from hames.app.nodes import NodeOptions, open_node
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.commands import CreateThread, SubmitPrompt
from hames.domain.events import ApprovalResolved, TurnEnded
from hames.domain.items import TextInput
from hames.domain.options import Overrides
from hames.domain.policy import WorkspaceWrite
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn
from hames.testing.fakes.model import ScriptedModel, call, say, wait_for
from hames.testing.services.postgres import Cluster
from node_support import cluster, database, end_lease, node
from support import created, events, question, turn_end, until

__all__ = ["cluster", "database"]
TEXT = (TextInput(text="go"),)


async def submitted(engine: Engine, thread_id: str, client_id: str = "one") -> object:
    return await engine.execute(SubmitPrompt(thread_id=thread_id, content=TEXT, client_id=client_id))


async def status_of(engine: Engine, thread_id: str) -> str:
    """Of the only turn of a thread, once it is over."""
    watcher = await engine.watch(thread_id, answers=False)
    state = watcher.state
    with anyio.fail_after(60):
        while state.running is not None or not state.turns:
            if changes := await watcher.next():
                state = changes[-1].after
            else:
                watcher = await engine.watch(thread_id, answers=False)
                state = watcher.state
    watcher.close()
    return state.turns[0].status


@pytest.mark.slow
async def test_a_prompt_sent_to_a_full_node_waits_for_a_slot(database: str) -> None:
    go = anyio.Event()
    model = ScriptedModel([say("One", cut=True), wait_for(go), say(".")], [say("Two.")])
    async with node(database, model, name="a", slots=1) as a:
        first, second = await created(a), await created(a)
        watchers = [await a.watch(first.id), await a.watch(second.id)]
        assert isinstance(await submitted(a, first.id), Turn)
        assert isinstance(await submitted(a, second.id), QueuedPrompt)
        assert a.loaded(second.id).running is None
        go.set()
        for watcher in watchers:
            assert (await turn_end(watcher))[-1].after.turns[0].status == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True])
async def test_a_prompt_that_waits_for_a_slot_goes_to_a_node_that_has_one(
    cluster: Cluster, database: str, dies: bool
) -> None:
    go = anyio.Event()
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(node(database, slots=0, name="gate"))
        model = ScriptedModel([say("One", cut=True), wait_for(go), say(".")], [say("Two.")])
        a = await stack.enter_async_context(node(database, model, name="a", slots=1))
        first, second = await created(a), await created(a)
        watcher = await a.watch(second.id) if dies else None  # while it is watched there it stays
        assert isinstance(await submitted(a, first.id), Turn)
        assert isinstance(await submitted(a, second.id), QueuedPrompt)
        if dies:
            end_lease(cluster, database, "a")
        await stack.enter_async_context(node(database, ScriptedModel([say("There.")], [say("There.")]), name="b"))
        assert await status_of(gate, second.id) == "completed"
        go.set()
        assert await status_of(gate, first.id) == "completed"
        if watcher is not None:
            watcher.close()


@pytest.mark.slow
async def test_the_deadline_of_an_approval_outlives_its_node(cluster: Cluster, database: str) -> None:
    rules = {"approval_deadline_s": 2.0}
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(node(database, slots=0, name="gate"))
        asks = ScriptedModel([call("asking", text="x")])
        a = await stack.enter_async_context(node(database, asks, name="a", **{**rules, "approval_deadline_s": 600.0}))
        thread = await created(gate)
        watcher = await gate.watch(thread.id)
        await submitted(gate, thread.id)
        await question(watcher)
        assert a.loaded(thread.id) is not None
        end_lease(cluster, database, "a")
        await stack.enter_async_context(node(database, ScriptedModel([say("Fine.")]), name="b", **rules))
        changes = await turn_end(watcher)
        assert changes[-1].after.turns[0].status == "completed"
        assert [one.ended for one in events(changes) if isinstance(one, ApprovalResolved)] == ["timedOut"]


class Processes:
    """Workers as processes of their own, which a zygote forks."""

    def __init__(self, address: str, home: Path, **options: object) -> None:
        script = Path(__file__).parent / "node_zygote.py"
        self.zygote = subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.request = {"address": address, "directory": str(home), "slots": 20, "lease": 30.0, **options}
        self.pids: dict[str, int] = {}

    def start(self, name: str) -> None:
        assert self.zygote.stdin is not None
        assert self.zygote.stdout is not None
        self.zygote.stdin.write(json.dumps({**self.request, "name": name}).encode() + b"\n")
        self.zygote.stdin.flush()
        self.pids[name] = int(self.zygote.stdout.readline())

    async def stop(self, name: str) -> None:
        """As a service manager does, and waits until it has gone."""
        pid = self.pids.pop(name)
        os.kill(pid, signal.SIGTERM)
        with anyio.fail_after(60):
            while Path(f"/proc/{pid}").exists():
                await anyio.sleep(0.05)

    def close(self) -> None:
        for pid in self.pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert self.zygote.stdin is not None
        self.zygote.stdin.close()
        self.zygote.wait(60)


REPLIES = [
    [
        {"say": "A first look at all that is here.", "pace_ms": 10},
        {"call": "shell", "with": {"command": "echo x"}},
    ],
    [{"say": "And the end of it, which takes a while to say.", "pace_ms": 10}],
]


@pytest.mark.slow
async def test_nodes_are_restarted_one_by_one_and_no_turn_is_lost(database: str, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"conversations": [{"when": "", "replies": REPLIES}]}))
    flags = {"cwd": str(tmp_path), "model": "scripted/hello", "approval_policy": "never", "sandbox": "dangerFullAccess"}
    options = load(flags, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    done = False
    turns: list[Turn] = []
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(open_node(options, NodeOptions(store=database, name="gate", slots=0)))
        workers = Processes(database, tmp_path)
        stack.callback(workers.close)
        for name in "abc":
            workers.start(name)

        async def drive(lane: int) -> None:
            overrides = Overrides(cwd=str(tmp_path), model=f"scripted/{tmp_path / 'script.json'}")
            thread = await gate.execute(CreateThread(overrides=overrides))
            assert isinstance(thread, ThreadState)
            count = 0
            while not done:
                watcher = await gate.watch(thread.id)
                await submitted(gate, thread.id, f"{lane}-{count}")
                changes = await until(watcher, lambda event: isinstance(event, TurnEnded))
                watcher.close()
                count += 1
                assert len(changes[-1].after.turns) == count
                turns.append(changes[-1].after.turns[-1])

        async with anyio.create_task_group() as tasks:
            for lane in range(6):
                tasks.start_soon(drive, lane)
            for again in range(2):
                for name in "abc":
                    seen = len(turns)
                    with anyio.fail_after(60):
                        while len(turns) < seen + 6:  # turns run while nodes come and go
                            await anyio.sleep(0.05)
                    await workers.stop(name if not again else f"{name}2")
                    workers.start(f"{name}{again + 2}")
            done = True
    assert {turn.status for turn in turns} == {"completed"}, [turn.error for turn in turns]
    assert {turn.crashes for turn in turns} == {0}, "a restart is no crash"


@pytest.mark.slow
@pytest.mark.needs("bwrap")
async def test_a_command_in_the_sandbox_ends_with_its_node_and_is_not_run_again(database: str, tmp_path: Path) -> None:
    command = f"echo ran >> ran.txt; exec -a {tmp_path.name}-marker sleep 1000"
    replies = [[{"call": "shell", "with": {"command": command}}], [{"say": "Done."}]]
    (tmp_path / "script.json").write_text(json.dumps({"conversations": [{"when": "", "replies": replies}]}))
    flags = {"cwd": str(tmp_path), "model": "scripted/hello", "approval_policy": "never"}
    options = load(flags, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(open_node(options, NodeOptions(store=database, name="gate", slots=0)))
        workers = Processes(database, tmp_path, sandbox="workspaceWrite", lease=3.0)
        stack.callback(workers.close)
        workers.start("a")
        overrides = Overrides(cwd=str(tmp_path), model=f"scripted/{tmp_path / 'script.json'}", sandbox=WorkspaceWrite())
        thread = await gate.execute(CreateThread(overrides=overrides))
        assert isinstance(thread, ThreadState)
        watcher = await gate.watch(thread.id)
        await submitted(gate, thread.id)
        with anyio.fail_after(60):
            while not (tmp_path / "ran.txt").exists() or not running(f"{tmp_path.name}-marker"):
                await anyio.sleep(0.05)
        os.kill(workers.pids.pop("a"), signal.SIGKILL)
        workers.start("b")
        changes = await turn_end(watcher)
        with anyio.fail_after(60):
            while running(f"{tmp_path.name}-marker"):
                await anyio.sleep(0.05)
        assert changes[-1].after.turns[0].status == "completed", changes[-1].after.turns[0].error
        assert (tmp_path / "ran.txt").read_text().split() == ["ran"]


def running(marker: str) -> list[str]:
    """The processes with this word in their command line, other than shells that were told of it."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = one.read_bytes().split(b"\0")
            if words[0] == marker.encode():
                found.append(one.parent.name)
    return found


def memory_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


THREADS = int(os.environ.get("HAMES_THREADS", "200"))


@pytest.mark.slow
async def test_thousands_of_threads_run_once_each_on_four_nodes(database: str) -> None:
    ended: list[tuple[str, str, str]] = []
    before = memory_kb()
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(node(database, slots=0, name="gate"))
        workers: list[Engine] = []
        for name in "abcd":
            model = ScriptedModel(*([say(f"Done by {name}.")] for _ in range(THREADS)))
            worker = await stack.enter_async_context(node(database, model, name=name, slots=50))

            def observe(change: Change, name: str = name) -> None:
                if isinstance(change.record.event, TurnEnded):
                    ended.append((change.after.id, name, change.after.turns[-1].status))

            worker.observers.append(observe)
            workers.append(worker)
        at_once = anyio.Semaphore(200)
        most = 0

        async def drive() -> None:
            nonlocal most
            async with at_once:
                thread = await created(gate)
                await submitted(gate, thread.id)
                assert await status_of(gate, thread.id) == "completed"
                most = max([most, *(one.node.busy for one in workers if one.node is not None)])

        with anyio.fail_after(max(60, THREADS)):
            async with anyio.create_task_group() as tasks:
                for _ in range(THREADS):
                    tasks.start_soon(drive)
        grown = memory_kb() - before
    assert len(ended) == THREADS
    assert len({thread for thread, _, _ in ended}) == THREADS, "a turn ran twice"
    assert {status for _, _, status in ended} == {"completed"}
    assert most <= 50, "more turns than slots"
    if THREADS >= 1000:
        assert grown < 250_000, f"five nodes and what the test itself remembers of {THREADS} threads: {grown} kB"
        for name, count in Counter(name for _, name, _ in ended).items():
            assert abs(count - THREADS / 4) <= THREADS / 4 * 0.2, f"{name} ran {count} of {THREADS} turns"
