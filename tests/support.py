"""An engine in the test's own hands: real core, real or memory store, a model that plays a script."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec.structs import replace

from hames.clock_and_ids import RandomIds, SystemClock
from hames.core.engine import Engine
from hames.core.engine_rules import EngineRules
from hames.core.outcome import Outcome
from hames.core.watcher import Watcher
from hames.domain.approvals import Harmless, Intent, UseTool
from hames.domain.budgets import Budgets
from hames.domain.commands import Command, CreateThread, StartTurn
from hames.domain.errors import InvalidCommand
from hames.domain.events import ApprovalRequested, Event, TurnEnded
from hames.domain.ids import ThreadId
from hames.domain.items import AgentMessage, TextInput, ToolCall, ToolResult, UserMessage
from hames.domain.options import Overrides, Settings
from hames.domain.policy import ApprovalPolicy, SandboxPolicy
from hames.domain.servers import ServerStatus
from hames.domain.state import Change, ThreadState, Turn, apply
from hames.ports import (
    Ability,
    Agent,
    AgentThread,
    Clock,
    DaySpending,
    Ids,
    Job,
    Models,
    Nodes,
    Peers,
    Place,
    Prompt,
    Provider,
    Report,
    RuleBook,
    Store,
    Task,
    Tell,
    Tool,
    ToolSpec,
    Trust,
    TurnHandle,
    Verdict,
    Workspace,
)
from hames.server.peers.sockets import PeerSockets
from hames.store.jsonl import JsonlStore
from hames.store.memory import MemoryLog, MemoryStore
from hames.store.places import Places
from hames.testing.fakes.clock import CountingIds, FakeClock
from hames.testing.fakes.model import OneModel, ScriptedModel
from hames.tools.files.workspace import LocalWorkspace

Run = Callable[[dict[str, object], Tell], Awaitable[str]]


class PlainTool:
    """A tool from a coroutine. `intent` decides whether it is asked about."""

    def __init__(self, name: str, run: Run, *, intent: Intent | None = None, schema: object = None) -> None:
        self.spec = ToolSpec(name=name, description=f"The tool {name}.", schema=schema or {"type": "object"})
        self.intent = intent or Harmless()
        self.run = run

    async def prepare(self, job: Job) -> "PlainWork":
        return PlainWork(self, job)


class PlainWork:
    def __init__(self, tool: PlainTool, job: Job) -> None:
        self.tool = tool
        self.job = job
        self.intent = tool.intent
        self.item = ToolCall(
            id=job.item_id, step=job.step, call_id=job.call.id, name=job.call.name, arguments=job.arguments
        )

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolCall:
        text = await self.tool.run(self.job.arguments, tell)
        return replace(self.item, status="completed", result=ToolResult(text=text))


async def echo(arguments: dict[str, object], tell: Tell) -> str:
    await tell(str(arguments))
    return f"echo {arguments}"


async def stuck(arguments: dict[str, object], tell: Tell) -> str:
    await tell("begun")
    await anyio.sleep_forever()
    return "never"


async def broken(arguments: dict[str, object], tell: Tell) -> str:
    raise ValueError("it broke")


ECHO, STUCK, BROKEN = PlainTool("echo", echo), PlainTool("stuck", stuck), PlainTool("broken", broken)
ASKING = PlainTool("asking", echo, intent=UseTool(name="asking"))


class TheseTools:
    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    @asynccontextmanager
    async def open(self, place: Place, report: Report) -> AsyncGenerator[Sequence[Tool]]:
        yield self._tools


class NoTrust:
    def judge(self, command: str, *, cwd: str, workspace: str) -> Verdict:
        return Verdict(trusted=False, reason="not known to be harmless")


def engine(
    model: Provider | Models,
    *tools: Tool,
    store: Store | None = None,
    cwd: Path | str = "/",
    policy: ApprovalPolicy = "unlessTrusted",
    clock: Clock | None = None,
    trust: Trust | None = None,
    patience_s: float = 600.0,
    max_steps: int = 20,
    agents: Mapping[str, Agent] | None = None,
    compacts: bool = True,
    ids: Ids | None = None,
    peers: Peers | None = None,
    nodes: Nodes | None = None,
    rulebook: RuleBook | None = None,
    budgets: Budgets | None = None,
    day_spending: DaySpending | None = None,
    workspace: Workspace | None = None,
    **rules: object,
) -> Engine:
    models = model if hasattr(model, "cards") else OneModel(model)
    return Engine(
        store=store or MemoryStore(),
        models=models,
        workspace=workspace or LocalWorkspace(),
        tools=TheseTools(tools or (ECHO, STUCK, BROKEN, ASKING)),
        trust=trust or NoTrust(),
        clock=clock or FakeClock(),
        ids=ids or CountingIds(),
        rules=EngineRules(
            defaults=Settings(model=models.default, cwd=str(cwd), approval_policy=policy),
            patience_s=patience_s,
            max_steps=max_steps,
            compacts=compacts,
            budgets=budgets or Budgets(),
            day_spending=day_spending,
            **rules,
        ),
        agents=agents,
        peers=peers,
        nodes=nodes,
        rulebook=rulebook,
    )


def shared_engine(
    place: Path,
    model: ScriptedModel | None = None,
    *,
    data: Path | None = None,
    patience_s: float = 600.0,
    alone: bool = False,
) -> Engine:
    """What a process of ours is to the others: an engine with its own store and, unless it is `alone`, a socket."""
    store = JsonlStore(data or place / ".harness", places=Places(place / "state"))
    return engine(
        model or ScriptedModel(),
        store=store,
        cwd=place,
        clock=SystemClock(),
        ids=RandomIds(),
        peers=None if alone else PeerSockets(store.private_directory),
        patience_s=patience_s,
    )


def create_in(owner: Engine, engine: Engine) -> None:
    """Threads that the engine is asked for are created by another one on the same directory."""
    execute = engine.execute

    async def route(command: Command) -> Outcome:
        return await (owner.execute(command) if isinstance(command, CreateThread) else execute(command))

    engine.execute = route  # type: ignore[method-assign] - the tests' own wiring


async def created(engine: Engine, **overrides: object) -> ThreadState:
    outcome = await engine.execute(CreateThread(overrides=Overrides(**overrides)))
    assert isinstance(outcome, ThreadState)
    return outcome


async def started(engine: Engine, thread_id: ThreadId, text: str = "go") -> Turn:
    outcome = await engine.execute(StartTurn(thread_id=thread_id, content=(TextInput(text=text),)))
    assert isinstance(outcome, Turn)
    return outcome


async def until(watcher: Watcher, wanted: Callable[[Event], bool]) -> list[Change]:
    """Everything up to the change that was wanted, which is the last. Whatever else came with it is kept for later."""
    heard: list[Change] = []
    with anyio.fail_after(60):
        while True:
            changes = await watcher.next()
            assert changes, f"the watcher was closed: {watcher.cut_off or 'no reason'}"
            for number, change in enumerate(changes):
                heard.append(change)
                if wanted(change.record.event):
                    rest = changes[number + 1 :]
                    if rest:
                        watcher.precede(rest)
                    return heard


async def turn_end(watcher: Watcher) -> list[Change]:
    return await until(watcher, lambda event: isinstance(event, TurnEnded))


async def question(watcher: Watcher) -> ApprovalRequested:
    event = (await until(watcher, lambda event: isinstance(event, ApprovalRequested)))[-1].record.event
    assert isinstance(event, ApprovalRequested)
    return event


def blocks(model: ScriptedModel, request: int = -1) -> list[object]:
    """What the model was shown in one of its requests."""
    return [block for message in model.requests[request].messages for block in message.blocks]


def events(changes: list[Change]) -> list[Event]:
    return [change.record.event for change in changes]


def names(changes: list[Change]) -> list[str]:
    return [type(change.record.event).__name__ for change in changes]


async def whole_turn(engine: Engine, thread_id: ThreadId, text: str = "go") -> list[Change]:
    watcher = await engine.watch(thread_id)
    await started(engine, thread_id, text)
    changes = await turn_end(watcher)
    watcher.close()
    return changes


def check_continuous(snapshot: ThreadState, changes: list[Change]) -> None:
    """Every change goes on from the one before: nothing is missing and nothing came twice."""
    state = snapshot
    for change in changes:
        assert change.before == state
        state = apply(state, change.record)
        assert change.after == state


class BareAgent:
    """An agent that runs prompts, and has no other ability. Implements `ports.Agent` and `ports.AgentThread`."""

    name = "bare"
    abilities: frozenset[Ability] = frozenset()

    def __init__(self, *replies: str) -> None:
        self.prompts: list[UserMessage] = []
        self._replies = list(replies)

    @asynccontextmanager
    async def open(self, state: ThreadState) -> AsyncGenerator[AgentThread]:
        yield self

    async def run(self, task: Task, turn: TurnHandle) -> str:
        assert isinstance(task, Prompt)
        self.prompts.append(task.message)
        item = AgentMessage(id=turn.new_item_id(), step=turn.step)
        await turn.start(item)
        await turn.append(item.id, self._replies.pop(0), "text")
        await turn.complete(replace(item, status="completed"))
        return "done"

    async def steer(self, message: UserMessage) -> None:
        raise InvalidCommand("it does not listen")

    def servers(self) -> Mapping[str, ServerStatus]:
        return {}


def copied(store: MemoryStore, *, until_seq: int | None = None) -> MemoryStore:
    """What a kill at this moment would leave."""
    copy = MemoryStore()
    copy.marked = set(store.marked)
    for thread_id, log in store._logs.items():
        left = copy._logs[thread_id] = MemoryLog(copy, thread_id, foreign=log.foreign)
        left._records = [one for one in log.everything() if until_seq is None or one.seq <= until_seq]
    return copy
