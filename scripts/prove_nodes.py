"""Kills and freezes workers of a shared store at random moments, and checks what the others make of it.

  .venv/bin/python scripts/prove_nodes.py --kills 1000 --seed 7

A private PostgreSQL, workers as processes of their own, and a gateway in this process that starts turns and watches
every thread. Workers are killed with SIGKILL, or stopped with SIGSTOP for longer than their lease and then let go. At
the end every thread is read:

- every turn was started once and ended once, completed, although its nodes died (at most twice for one turn),
- what the gateway's watchers heard goes on from change to change: nothing that was seen is missing or came twice,
- every turn has exactly the replies of the model, each once and in order, and no call twice,
- no command ran twice, and each that is said to have ended ran; one that is said not to have begun did not,
- no process of a worker that was killed is left.

Exit code 1 with the seed and whatever failed.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from hames.app.nodes import NodeOptions, open_node  # noqa: E402
from hames.config.load import load  # noqa: E402
from hames.core.engine import Engine  # noqa: E402
from hames.domain.commands import CreateThread, SubmitPrompt  # noqa: E402
from hames.domain.continuing import NOT_BEGUN  # noqa: E402
from hames.domain.events import TurnEnded, TurnStarted  # noqa: E402
from hames.domain.ids import ThreadId  # noqa: E402
from hames.domain.items import AgentMessage, CommandExecution, TextInput, ToolCall  # noqa: E402
from hames.domain.options import Overrides  # noqa: E402
from hames.domain.state import ThreadState, Turn, apply  # noqa: E402
from hames.testing.services.postgres import Cluster  # noqa: E402

LEASE_SECONDS = 2.5
STUCK_SECONDS = 240.0
MOST_TURNS = 1000
"""Of one lane: so many have their own words."""


def prompt_of(turn: int) -> str:
    return f"go turn {turn:06}."


def commands_of(turn: int) -> list[str]:
    """Each leaves its own word in `ran.txt`."""
    return [
        f"echo {turn}.a >> ran.txt; sleep 0.1; echo more",
        f"sleep 0.05; echo {turn}.b >> ran.txt",
        f"echo {turn}.c >> ran.txt",
    ]


def texts_of(turn: int) -> list[str]:
    return [
        f"A first look at everything that is here, in some detail, in turn {turn}.",
        f"Then more words, slowly, in turn {turn}.",
        f"And the end of turn {turn}, which takes a while to say.",
    ]


def script() -> str:
    """Every reply of every turn is different, and the history alone says which one is next: one that is asked for
    again after its node died has the same words, and one that is played twice is seen twice."""

    def replies(turn: int) -> list[object]:
        first, second, last = ({"say": text, "pace_ms": 4} for text in texts_of(turn))
        a, b, c = ({"call": "shell", "with": {"command": command}} for command in commands_of(turn))
        return [[{"think": f"I wonder about turn {turn}.", "pace_ms": 4}, first, a, b], [second, c], [last]]

    conversations = [{"when": prompt_of(turn), "replies": replies(turn)} for turn in range(MOST_TURNS)]
    return json.dumps({"remembers": False, "conversations": conversations})


@dataclass
class Lane:
    """One thread, turn after turn."""

    directory: Path
    thread_id: ThreadId
    turns: int = 0
    state: ThreadState | None = None
    problems: list[str] = field(default_factory=list[str])
    resumed: list[float] = field(default_factory=list[float])


class Workers:
    """Processes that a zygote forks."""

    def __init__(self, address: str, home: Path, slots: int) -> None:
        script = ROOT / "tests" / "scale" / "node_zygote.py"
        command = [sys.executable, str(script)]
        self.zygote = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.address, self.home, self.slots = address, home, slots
        self.pids: dict[str, int] = {}
        self.started = 0

    def start(self) -> str:
        self.started += 1
        name = f"w{self.started}"
        assert self.zygote.stdin is not None
        assert self.zygote.stdout is not None
        request = {
            "address": self.address,
            "name": name,
            "directory": str(self.home),
            "slots": self.slots,
            "lease": LEASE_SECONDS,
        }
        self.zygote.stdin.write(json.dumps(request).encode() + b"\n")
        self.zygote.stdin.flush()
        self.pids[name] = int(self.zygote.stdout.readline())
        return name

    def close(self) -> None:
        for pid in self.pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
        assert self.zygote.stdin is not None
        self.zygote.stdin.close()
        self.zygote.wait(20)


class Proof:
    def __init__(self, engine: Engine, workers: Workers, cluster: Cluster, args: argparse.Namespace) -> None:
        self.engine = engine
        self.workers = workers
        self.cluster = cluster
        self.args = args
        self.random = random.Random(args.seed)
        self.lanes: list[Lane] = []
        self.kills = self.freezes = self.refused = 0
        self.done = False
        self.database = args.database

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(self.args.lanes):
                directory = self.workers.home / f"lane{number}"
                directory.mkdir()
                (directory / "script.json").write_text(script())
                lane = Lane(directory, ThreadId(""))
                self.lanes.append(lane)
                tasks.start_soon(self.drive, lane)
            await self.disturb()
            self.done = True

    async def drive(self, lane: Lane) -> None:
        overrides = Overrides(cwd=str(lane.directory), model=f"scripted/{lane.directory / 'script.json'}")
        made = await self.engine.execute(CreateThread(overrides=overrides))
        assert isinstance(made, ThreadState)
        lane.thread_id = made.id
        while not self.done and lane.turns < MOST_TURNS:
            try:
                with anyio.fail_after(STUCK_SECONDS):
                    await self.turn(lane)
            except TimeoutError:
                lane.problems.append(
                    f"turn {lane.turns + 1} is stuck: {lane.state and lane.state.running}, {self.row(lane)}"
                )
                return
            except Exception as problem:
                lane.problems.append(f"turn {lane.turns + 1}: " + "".join(traceback.format_exception(problem)))
                return

    def row(self, lane: Lane) -> str:
        """What the database knows of the thread."""
        thread = f"select row_to_json(t) from hames.thread t where id = '{lane.thread_id}'"
        letters = f"select count(*) from hames.inbox where thread = '{lane.thread_id}' and answer is null"
        nodes = "select count(*) from hames.node where until > now()"
        return self.cluster.psql(thread, letters, nodes, database=self.database)

    async def turn(self, lane: Lane) -> None:
        watcher = await self.engine.watch(lane.thread_id)
        known = lane.state
        if known is not None and watcher.state.seq < known.seq:
            lane.problems.append("the thread is shorter than it was")
        state = watcher.state
        name = f"{lane.thread_id}-{lane.turns}"
        content = (TextInput(text=prompt_of(lane.turns)),)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                self.engine.execute, SubmitPrompt(thread_id=lane.thread_id, content=content, client_id=name)
            )
            ended = False
            while not ended:
                changes = await watcher.next()
                if not changes:
                    if not watcher.cut_off:
                        lane.problems.append("the watcher was closed")
                        return
                    watcher = await self.engine.follow(lane.thread_id, since=state)
                    state = watcher.state
                    continue
                for change in changes:
                    if change.before != state:
                        lane.problems.append(f"a change at {change.record.seq} does not go on from what was heard")
                    state = lane.state = change.after
                    if apply(change.before, change.record) != change.after:
                        lane.problems.append(f"the change at {change.record.seq} is not what its record says")
                    ended = ended or isinstance(change.record.event, TurnEnded)
        watcher.close()
        lane.turns += 1

    async def disturb(self) -> None:
        next_report = 50
        while self.kills + self.freezes < self.args.kills and any(not lane.problems for lane in self.lanes):
            await anyio.sleep(self.random.uniform(0.05, 0.5))
            victims = await anyio.to_thread.run_sync(self._victims)
            if not victims:
                continue
            name = self.random.choice(victims)
            pid = self.workers.pids.pop(name)
            if self.random.random() < self.args.freezes:
                self.freezes += 1
                os.kill(pid, signal.SIGSTOP)
                self.workers.start()
                await anyio.sleep(LEASE_SECONDS + self.random.uniform(0.0, 1.5))
                os.kill(pid, signal.SIGCONT)
                await anyio.sleep(self.random.uniform(0.2, 1.0))
                with suppress(ProcessLookupError):  # it may go on: it is one worker more
                    os.kill(pid, signal.SIGKILL)
            else:
                self.kills += 1
                os.kill(pid, signal.SIGKILL)
                self.workers.start()
            if self.kills + self.freezes >= next_report:
                next_report += 50
                turns = sum(lane.turns for lane in self.lanes)
                print(f"{self.kills} kills, {self.freezes} freezes, {turns} turns", flush=True)

    def _victims(self) -> list[str]:
        """Workers none of whose turns has lost two nodes already: the third death ends a turn, by rule."""
        running = json.loads(
            self.cluster.psql(
                "select coalesce(json_agg(json_build_array(n.name, t.id, t.deaths)), '[]') from hames.node n"
                " join hames.thread t on t.owner = n.id where t.running",
                database=self.database,
            )
        )
        crashes = {
            lane.thread_id: lane.state.running.crashes
            for lane in self.lanes
            if lane.state is not None and lane.state.running is not None
        }
        spent = {name for name, thread, deaths in running if deaths or crashes.get(thread, 0) >= 1}
        busy = {name for name, _, _ in running}
        return [name for name in self.workers.pids if name in busy and name not in spent]

    async def check(self) -> list[str]:
        problems = [f"{lane.directory.name}: {one}" for lane in self.lanes for one in lane.problems]
        for lane in self.lanes:
            history = list(await self.engine.history(lane.thread_id))
            state = history[-1].after
            events = [change.record.event for change in history]
            started = sum(isinstance(event, TurnStarted) for event in events)
            over = sum(isinstance(event, TurnEnded) for event in events)
            bad = [
                f"{turn.status} after {turn.crashes} crashes: {turn.error.message if turn.error else ''}"
                for turn in state.turns
                if turn.status != "completed"
            ]
            if not (started == over == len(state.turns) == lane.turns):
                problems.append(f"{lane.directory.name}: {lane.turns} turns, {started} starts, {over} ends")
            if bad:
                problems.append(f"{lane.directory.name}: turns that did not complete: {bad}")
            seqs = [change.record.seq for change in history]
            if seqs != list(range(1, len(seqs) + 1)):
                problems.append(f"{lane.directory.name}: the log has gaps")
            path = lane.directory / "ran.txt"
            ran = Counter(path.read_text().split() if path.exists() else [])
            problems += [
                f"{lane.directory.name}, turn {number}: {one}"
                for number, turn in enumerate(state.turns)
                for one in check_turn(number, turn, ran)
            ]
        return problems


def check_turn(number: int, turn: Turn, ran: Counter[str]) -> list[str]:
    """What is wrong with a turn that was completed; `ran` says what its commands left on the disk."""
    problems: list[str] = []
    said = [item.text for item in turn.items if isinstance(item, AgentMessage) and item.step not in turn.void_steps]
    if said != texts_of(number):
        problems.append(f"the replies are {said}")
    asked = [item for item in turn.items if isinstance(item, CommandExecution | ToolCall)]
    wanted = dict(zip(commands_of(number), "abc", strict=True))
    commands = [command_of(item) for item in asked]
    # Of a reply that was cut off behind its first call the second was never asked for.
    if commands != [one for one in wanted if one in commands]:
        problems.append(f"the calls are {[(command_of(item), item.status) for item in asked]}")
        return problems
    for command, letter in wanted.items():
        times = ran[f"{number}.{letter}"]
        item = next((one for one in asked if command_of(one) == command), None)
        begun = item is not None and not (item.result is not None and item.result.text.startswith(NOT_BEGUN))
        least, most = int(item is not None and item.status == "completed"), int(begun)
        if not least <= times <= most:
            problems.append(f"{letter!r} ran {times} times: {item}")
    return problems


def command_of(item: CommandExecution | ToolCall) -> object:
    """A call that did not begin is no command yet."""
    if isinstance(item, CommandExecution):
        return item.command
    return item.arguments.get("command") if isinstance(item.arguments, dict) else None


async def prove(args: argparse.Namespace) -> int:
    cluster = Cluster().start()
    home = Path(tempfile.mkdtemp(prefix="hames-nodes-"))
    began = time.monotonic()
    try:
        address = cluster.new_database()
        args.database = address.partition("?")[0].rpartition("/")[2]
        flags = {"cwd": str(home), "model": "scripted/hello", "approval_policy": "never", "sandbox": "dangerFullAccess"}
        options = load(flags, {"HOME": str(home), "PATH": os.environ["PATH"]})
        async with AsyncExitStack() as stack:
            gateway = NodeOptions(store=address, name="gateway", slots=0, lease_s=10.0)
            engine = await stack.enter_async_context(open_node(options, gateway))
            workers = Workers(address, home, slots=max(4, args.lanes // args.workers + 2))
            stack.callback(workers.close)
            for _ in range(args.workers):
                workers.start()
            proof = Proof(engine, workers, cluster, args)
            await proof.run()
            problems = await proof.check()
        turns = sum(lane.turns for lane in proof.lanes)
        seconds = time.monotonic() - began
        print(f"{proof.kills} kills, {proof.freezes} freezes, {turns} turns, {len(problems)} problems, {seconds:.0f} s")
        for problem in problems[:200]:
            print(f"  seed {args.seed}: {problem}")
        return 1 if problems else 0
    finally:
        cluster.stop()
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--freezes", type=float, default=0.2, metavar="SHARE", help="of the kills (default: 0.2)")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--lanes", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    return anyio.run(prove, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
