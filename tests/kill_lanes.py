"""A server of any protocol that is killed over and over, and what must be true of its log afterwards.

A lane is one protocol with one approval policy: a thread in a directory of its own, turn after turn. After every turn
the log is read:

- the turn was started once and ended once, completed, although its processes died,
- an approval that was open when the process died was asked again with the same id, and its answer counted,
- no command ran more often than the log says, and none that may have run was run again,
- every text that a client was told is in the log.
"""

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import httpx2
from anyio.abc import Process
from websockets.asyncio.client import connect

from hames.domain.events import ApprovalRequested, ApprovalResolved, ItemStarted, Record, TurnEnded, TurnStarted
from hames.domain.ids import ThreadId
from hames.domain.items import AgentMessage, CommandExecution, Reasoning
from hames.domain.json import Json
from hames.domain.state import ThreadState, apply, blank
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from lane_clients import GONE, POLL_SECONDS, STDIO, Client, Failed, SseClient, SyncClient, until
from server_support import SyncFollower, events

PROTOCOLS = ("flint", "bootstrap", "acp", "acp2", "sse", "sync")
STUCK_SECONDS = 90.0
SCRIPT = [
    [
        {"think": "I wonder what is here.", "pace_ms": 4},
        {"say": "A first look at everything that is here, in some detail.", "pace_ms": 4},
        {"call": "shell", "with": {"command": "echo a >> ran.txt; sleep 0.05; echo more"}},
        {"call": "shell", "with": {"command": "sleep 0.02; echo b >> ran.txt"}},
    ],
    [{"say": "Then more words, slowly.", "pace_ms": 5}, {"call": "shell", "with": {"command": "echo c >> ran.txt"}}],
    [{"say": "And the end of it, which takes a while to say.", "pace_ms": 5}],
]


class Lane:
    """A protocol, a policy, and the thread that is killed over and over."""

    def __init__(self, protocol: str, *, asks: bool, directory: Path, seed: str = "", script: Json = SCRIPT) -> None:
        self.name = f"{protocol}{' with approvals' if asks else ''}"
        self.protocol, self.asks, self.directory = protocol, asks, directory
        self.chance = random.Random(seed)
        self.thread_id = ""
        self.kills = self.turns = self.reopened = 0
        self.where: Counter[str] = Counter()
        self.told: list[tuple[str, str]] = []
        self.records: list[Record] = []
        self.open: set[str] = set()
        """Approvals that waited when the last process died."""
        (directory / "work").mkdir(parents=True)
        (directory / "script.json").write_text(json.dumps({"conversations": [{"when": "go", "replies": script}]}))

    def command(self) -> list[str]:
        name = {"flint": "app-server", "bootstrap": "harness", "acp": "acp", "acp2": "acp"}.get(self.protocol, "serve")
        words = [name, "--cwd", str(self.directory / "work")]
        words += ["--model", f"scripted/{self.directory / 'script.json'}"]
        words += ["--approval-policy", "always" if self.asks else "never", "--sandbox", "dangerFullAccess"]
        return words + (["--port", "0"] if name == "serve" else [])

    def environment(self) -> dict[str, str]:
        found = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "NO_PROXY": "127.0.0.1"}
        return found | {"HAMES_STATE": str(self.directory / "state"), "HAMES_CONFIG": str(self.directory / "none")}

    async def open_process(self) -> Process:
        program = [sys.executable, "-c", "import sys; from hames.cli.main import main; sys.exit(main())"]
        errors = None if "-v" in sys.argv else -3
        return await anyio.open_process([*program, *self.command()], env=self.environment(), stderr=errors)

    @asynccontextmanager
    async def process(self) -> AsyncGenerator[tuple[Process, Client]]:
        async with await self.open_process() as process, AsyncExitStack() as stack:
            try:
                client = await self.make_client(process, stack)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.hear_all)
                    await client.start()
                    yield process, client
                    # A socket of anyio whose receive is cancelled just when something arrives raises in the event loop.
                    _kill(process)
                    with anyio.move_on_after(5):
                        await client.gone.wait()
                    tasks.cancel_scope.cancel()
            finally:
                _kill(process)

    async def make_client(self, process: Process, stack: AsyncExitStack) -> Client:
        assert process.stdin is not None
        assert process.stdout is not None
        if self.protocol in STDIO:
            return STDIO[self.protocol](self, process.stdin, process.stdout)
        said = b""
        while b"Ctrl+C" not in said:
            said += await process.stdout.receive()
        url = said.split()[3].decode()
        if self.protocol == "sse":
            http = await stack.enter_async_context(httpx2.AsyncClient(base_url=url, trust_env=False))
            return SseClient(self, http, await stack.enter_async_context(events(http)))
        socket = await stack.enter_async_context(
            connect(url.replace("http", "ws", 1) + "/ws", max_size=None, compression=None, proxy=None)
        )
        return SyncClient(self, SyncFollower(socket))

    async def state(self) -> ThreadState | None:
        """What the log says, without touching it."""
        store = JsonlStore(self.directory / "work" / ".harness", places=Places(self.directory / "state"))
        try:
            # A process that dies while it makes a thread leaves an empty log; ids sort by time.
            logs = self.directory.glob("work/.harness/threads/ses_*/events.jsonl")
            found = self.thread_id or max((log.parent.name for log in logs if log.stat().st_size), default="")
            if not found:
                return None
            self.thread_id = found if self.protocol in ("sse", "sync") else self.thread_id
            self.records = (await store.examine(ThreadId(found))).records
        finally:
            await store.close()
        state = blank(ThreadId(found))
        for record in self.records:
            state = apply(state, record)
        return state

    async def run(self, kills: int) -> None:
        attempts = 0
        while True:
            async with self.process() as (process, client):
                before = await self.state()
                if before is not None and before.running is not None:
                    # Our predecessor died in this turn. Sometimes so do we, in the middle of going on.
                    if attempts < 2 and self.kills < kills and self.chance.random() < 0.25:
                        attempts += await self._kill(process, client)
                        continue
                    await self.finish(client)
                await self.check(client)
                attempts = 0
                if self.kills >= kills:
                    return
                # The log says that the turn has ended a moment before the server does.
                if before is not None and before.running is not None:
                    with anyio.move_on_after(1):
                        await until(lambda: client.ended)
                client.ended = False
                await client.prompt()
                attempts += await self._kill(process, client)

    async def _kill(self, process: Process, client: Client) -> int:
        """Kills the process after some messages and some time. Returns 1 if it died in a turn."""
        messages, pause = self.chance.randint(0, 45), self.chance.random() * 0.08
        answers = self.chance.random() < 0.7
        deadline = time.monotonic() + self.chance.random() * 2
        with contextlib.suppress(*GONE):
            while client.messages < messages and not client.ended and time.monotonic() < deadline:
                await anyio.sleep(POLL_SECONDS / 5)
                if answers:
                    await client.answer_all()
        await anyio.sleep(pause)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        with anyio.move_on_after(5):
            await client.gone.wait()
        self.kills += 1
        self.told += client.texts.items()
        state = await self.state()
        running = state.running if state is not None else None
        self.where[_place(state)] += 1
        self.open = {approval.id for approval in state.approvals} if state is not None else set()
        return 1 if running is not None else 0

    async def finish(self, client: Client) -> None:
        """Lets the turn that was cut off come to its end."""
        waiting = set(self.open)
        with anyio.fail_after(STUCK_SECONDS):
            while True:
                now = await self.state()
                if now is not None and now.running is None:
                    break
                if client.gone.is_set():
                    raise Failed("the server ended by itself")
                await anyio.sleep(0.1)
                await client.answer_all()
        if waiting - set(client.asked):
            raise Failed(f"the approvals {sorted(waiting - set(client.asked))} were not asked again")
        self.reopened += len(waiting)

    async def check(self, client: Client) -> None:
        state = await self.state()
        if state is None:
            return
        kept = [record.event for record in self.records]
        if [record.seq for record in self.records] != list(range(1, len(self.records) + 1)):
            raise Failed("the log has gaps")
        started = [event.turn_id for event in kept if isinstance(event, TurnStarted)]
        ended = [event for event in kept if isinstance(event, TurnEnded)]
        if started != [event.turn_id for event in ended]:
            raise Failed("a turn was not started once and ended once")
        if bad := [event for event in ended if event.status != "completed"]:
            raise Failed(f"a turn ended {bad[0].status}: {bad[0].error}")
        if state.approvals or any(turn.open for turn in state.turns):
            raise Failed("something is open behind the last turn")
        asked = Counter(event.approval.id for event in kept if isinstance(event, ApprovalRequested))
        answered = Counter(event.approval_id for event in kept if isinstance(event, ApprovalResolved))
        if asked != answered:
            raise Failed("an approval was not asked once and answered once")
        ran = self.directory / "work" / "ran.txt"
        lines = Counter(ran.read_text().split()) if ran.exists() else Counter()
        begun = [e.item.command for e in kept if isinstance(e, ItemStarted) and isinstance(e.item, CommandExecution)]
        for letter, count in lines.items():
            if count > sum(f"echo {letter} " in command for command in begun):
                raise Failed(f"{letter!r} was written {count} times")
        items = [item for turn in state.turns for item in turn.items]
        said = {item.id: item.text for item in items if isinstance(item, AgentMessage | Reasoning)}
        said |= {item.id: item.output for item in items if isinstance(item, CommandExecution)}
        for item_id, text in self.told:
            whole = [said[item_id]] if item_id in said else list(said.values())
            if not any(one.startswith(text) for one in whole):
                raise Failed(f"the text {text!r} was told and is not in the log")
        self.told = list(client.texts.items())
        self.turns = len(started)


def _kill(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)


def _place(state: ThreadState | None) -> str:
    """Where the process died, in a word."""
    turn = state.running if state is not None else None
    if turn is None or state is None:
        return "no turn"
    if state.approvals:
        return "approval"
    last = [item for item in turn.items if item.id in turn.open]
    if last:
        return "tool" if isinstance(last[-1], CommandExecution) else type(last[-1]).__name__
    return "between"
