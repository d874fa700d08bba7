"""No path leads past a budget: what is counted is what the model's service charges and what happens, not our own sums.

A budget may be exceeded by the one reply that reaches it, never by what comes behind it: no request to a model, and
(for tokens and money) no call of that reply. Minutes hold in the middle of whatever runs.
"""

import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from flint_support import talking
from hames.agents.acp.agent import AcpAgent
from hames.agents.acp.models import AcpModels, CatalogFile
from hames.app import open_engine
from hames.clock_and_ids import SystemClock
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.approvals import Elicit
from hames.domain.budgets import BudgetLimits, Budgets
from hames.domain.commands import (
    ChangeSettings,
    Command,
    CompactThread,
    CreateThread,
    ForkThread,
    InterruptTurn,
    ResolveApproval,
    ResumeThread,
    ReviewTarget,
    StartReview,
    StartTurn,
    SteerTurn,
    SubmitPrompt,
)
from hames.domain.errors import HarnessError
from hames.domain.events import ApprovalRequested
from hames.domain.ids import ThreadId
from hames.domain.items import TextInput
from hames.domain.models import ModelCard, Price
from hames.domain.options import Overrides
from hames.domain.request import ModelEvent, ModelRequest, TextDelta, UsageSeen
from hames.domain.state import ThreadState
from hames.providers.catalogue import Catalogue
from hames.testing.fakes.model import OneModel, ScriptedModel, Step, call, fail, hang, say, usage
from trust_world import house, make_world

HERE = Path(__file__).parent
AGENTS = HERE / "budget_agents.py"
MCP = f'[mcp_servers.hands]\ncommand = "{sys.executable}"\nargs = ["{HERE / "mcp_hands.py"}"]\n'
CARD = ModelCard(provider="scripted", model="test", display_name="Test", price=Price(input=1.0, output=1.0))
USD = 1e-6
"""Of a token."""
HUGE = BudgetLimits(usd=1e6, tokens=10**9, minutes=1e6, steps=10**6)
SAID = (TextInput(text="go"),)


# -- what is charged, and what a person allowed


class World:
    """The service's own account."""

    def __init__(self, scope: str, measure: str, limit: float, agrees: int) -> None:
        self.scope, self.measure, self.limit, self.agrees = scope, measure, limit, agrees
        self.spent: dict[str, float] = defaultdict(float)
        self.raised: Counter[str] = Counter()
        self.engine: Engine | None = None
        self.after: list[tuple[str, float]] = []
        """For each request: whose account it is on, and how much was on it after the reply."""
        self.past: list[object] = []
        """Requests that were made although the budget was used up."""

    @property
    def toml(self) -> str:
        number = f"{self.limit:.9f}" if self.measure in ("usd", "minutes") else str(int(self.limit))
        return f"[budgets]\n{self.scope} = {{ {self.measure} = {number} }}\n"

    def account(self, thread_id: str, turn_id: str) -> str:
        return {"turn": turn_id, "thread": thread_id, "day": "today"}[self.scope]

    def allowed(self, account: str) -> float:
        return self.limit * (1 + self.raised[account]) - 1e-12

    def asked(self, thread_id: str) -> str:
        assert self.engine is not None
        state = self.engine.loaded(ThreadId(thread_id))
        assert state is not None and state.running is not None
        account = self.account(thread_id, state.running.id)
        if self.spent[account] >= self.allowed(account):
            self.past.append((account, self.spent[account], self.allowed(account)))
        return account

    def charge(self, account: str, tokens: float) -> None:
        self.spent[account] += {"tokens": tokens, "usd": tokens * USD, "steps": 1.0, "minutes": 0.0}[self.measure]
        self.after.append((account, self.spent[account]))


class ChargingModel(ScriptedModel):
    """Writes down what each reply cost, whether or not it told anybody."""

    def __init__(self, world: World, draw: random.Random, names: Sequence[str]) -> None:
        super().__init__()
        self.world, self.draw, self.names = world, draw, names

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        account, number = self.world.asked(request.cache_key), len(self.requests)
        self.requests.append(request)
        name = self.draw.choice(self.names) if number < 40 else "answer"
        told, chars, anything = 0, 0, False
        try:
            async for event in self._play(number, make_reply(name, number)):
                anything = True
                if isinstance(event, TextDelta):
                    chars += len(event.text)
                elif isinstance(event, UsageSeen):
                    told = event.usage.input_tokens + event.usage.output_tokens
                yield event
        finally:
            # Of a reply that was cut off only an estimate can be asked for.
            if anything:
                self.world.charge(account, told or chars / 10)
            else:
                self.world.after.append((account, self.world.spent[account]))


LONG = "word " * 400


def make_reply(name: str, number: int) -> list[Step]:
    ran = f"touch ran-{number}"
    lost = fail("the connection was lost", retryable=True)
    return {
        "answer": [say("done")],
        "shell": [call("shell", command=ran)],
        "two": [call("shell", command=ran), call("shell", command=ran)],
        "mcp": [call("mcp__hands__run", command=ran)],
        "background": [call("shell", command=f"{ran}; sleep 20", background=True)],
        "dear": [usage(input_tokens=400, output_tokens=300), call("shell", command=ran)],
        "lost": [say(LONG, cut=True), lost],
        "lost after tokens": [usage(input_tokens=300, output_tokens=9), say(LONG, cut=True), lost],
        "refused": [fail("no such thing")],
        "too long": [fail("too long", info="ContextWindowExceeded")],
        "hangs": [say(LONG, cut=True), hang()],
    }[name]


REPLIES = ("answer", "shell", "two", "mcp", "background", "dear", "lost", "lost after tokens", "refused", "too long")
MOVES = ("prompt", "queue", "steer", "review", "compact", "fork", "resume", "interrupt", "restart", "loosen", "other")


# -- our own loop, over every command that a client has


async def loop_story(draw: random.Random, folder: Path) -> None:
    scope, measure = draw.choice(("turn", "thread", "day")), draw.choice(("tokens", "usd", "steps"))
    limit = {"tokens": draw.choice((15, 40, 600)), "usd": draw.choice((15, 600)) * USD, "steps": draw.randint(1, 3)}
    world = World(scope, measure, limit[measure], agrees=draw.randrange(3))
    workspace = make_world(folder)
    model = ChargingModel(world, draw, draw.sample(REPLIES, 5))
    policy = "onRequest" if world.agrees else draw.choice(("never", "onRequest", "always"))
    moves = [draw.choice(MOVES) for _ in range(6)]
    story = [world.toml, policy, model.names, moves]
    thread_id = ""
    while moves:
        async with house(
            workspace, model, (), more=world.toml + MCP, models=OneModel(model, CARD), leaves_turns=True
        ) as engine:
            world.engine = engine
            if not thread_id:
                given = Overrides(approval_policy=policy, after_crash="go_on")
                thread = await engine.execute(CreateThread(overrides=given))
                assert isinstance(thread, ThreadState)
                thread_id = thread.id
            while moves:
                thread_id = await move(engine, draw, model, thread_id, moves.pop(0))
                if moves and moves[0] == "restart":
                    moves.pop(0)
                    break
    assert not world.past, (story, world.past)
    assert_no_call_of_a_reply_too_many(workspace, world, story)


def assert_no_call_of_a_reply_too_many(workspace: Path, world: World, story: object) -> None:
    if world.measure == "steps":  # calls belong to their step
        return
    for number, (account, spent) in enumerate(world.after):
        if (workspace / f"ran-{number}").exists():
            assert spent < world.allowed(account), (story, number, account, spent)


async def move(engine: Engine, draw: random.Random, model: ChargingModel, thread_id: str, name: str) -> str:
    thread, world = ThreadId(thread_id), model.world
    match name:
        case "fork" | "other":
            made = ForkThread(thread_id=thread) if name == "fork" else CreateThread(overrides=Overrides())
            forked = await engine.execute(made)
            assert isinstance(forked, ThreadState)
            thread = forked.id
            if name == "fork":  # what was spent before belongs to both
                world.spent[thread] += world.spent[thread_id]
            await carry_on(engine, world, StartTurn(thread_id=thread, content=SAID))
        case "resume" | "loosen":
            given = Overrides(budgets=Budgets(turn=HUGE, thread=HUGE))
            command = draw.choice((ChangeSettings, ResumeThread))(thread_id=thread, overrides=given)
            await engine.execute(command)
            await carry_on(engine, world, StartTurn(thread_id=thread, content=SAID, overrides=given))
        case "review":
            await carry_on(engine, world, StartReview(thread_id=thread, target=ReviewTarget(kind="uncommittedChanges")))
        case "compact":
            await carry_on(engine, world, CompactThread(thread_id=thread))
        case "queue":
            submits = [SubmitPrompt(thread_id=thread, content=SAID) for _ in range(3)]
            await carry_on(engine, world, *submits)
        case "steer":
            await carry_on(
                engine, world, StartTurn(thread_id=thread, content=SAID), SteerTurn(thread_id=thread, content=SAID)
            )
        case "interrupt":
            names, model.names = model.names, ("hangs",)
            await carry_on(engine, world, StartTurn(thread_id=thread, content=SAID), model=model)
            model.names = names
        case _:
            await carry_on(engine, world, StartTurn(thread_id=thread, content=SAID))
    return thread


async def carry_on(engine: Engine, world: World, *commands: Command, model: ChargingModel | None = None) -> None:
    """Until nothing runs. `model`: it hangs, and is interrupted."""
    thread_id: ThreadId = commands[0].thread_id  # type: ignore[union-attr]
    watcher = await engine.watch(thread_id)
    with anyio.fail_after(60):
        for command in commands:
            with suppress(HarnessError):  # the turn may be over, or another one run
                await engine.execute(command)
        while (state := engine.loaded(thread_id)) is not None:
            if state.running is None and (not state.queue or state.queue_held):
                break
            for approval in state.approvals:
                await answer(engine, world, thread_id, approval.id, approval.intent)
            if model is not None and state.running is not None and model.hanging.is_set():
                model.hanging = anyio.Event()
                await engine.execute(InterruptTurn(thread_id=thread_id))
            with anyio.move_on_after(0.05):
                await watcher.next()
    watcher.close()


async def answer(engine: Engine, world: World, thread_id: ThreadId, approval_id: Any, intent: object) -> None:
    state = engine.loaded(thread_id)
    assert state is not None
    decision = "once"
    if isinstance(intent, Elicit):
        assert intent.server == "Hames", intent
        account = world.account(thread_id, state.running.id if state.running is not None else "")
        world.agrees -= 1
        decision = "once" if world.agrees >= 0 else "reject"
        world.raised[account] += world.agrees >= 0
    with suppress(HarnessError):
        await engine.execute(ResolveApproval(approval_id=approval_id, decision=decision))  # type: ignore[arg-type]


# -- minutes, in the middle of whatever takes long

SECONDS = 0.8
SLOW: dict[str, list[Step]] = {
    "model": [say("half", cut=True), hang()],
    "shell": [call("shell", command="sleep 61; touch late")],
    "outside": [call("shell", command="sleep 61; touch late", unsandboxed=True, justification="w")],
    "mcp": [call("mcp__hands__run", command="sleep 61; touch late")],
    "client": [call("act")],
    "process": [call("shell", command="sleep 61", background=True), call("process", action="wait", process=1)],
    "summary": [say("half", cut=True), hang()],
}


async def minutes_story(draw: random.Random, folder: Path, what: str = "") -> None:
    """The time is up while something runs that takes a minute and more."""
    what, workspace = what or draw.choice(sorted(SLOW)), make_world(folder)
    world = World(draw.choice(("turn", "thread", "day")), "minutes", SECONDS / 60, agrees=draw.randrange(2))
    model = ScriptedModel(*([[say("done")]] if what == "summary" else []), SLOW[what], *([[say("done")]] * 3))
    tool = {"type": "function", "name": "act", "description": "Acts", "inputSchema": {"type": "object"}}
    policy = "onRequest" if world.agrees else draw.choice(("never", "onRequest"))
    more = world.toml + MCP
    async with (
        house(workspace, model, (), more=more, models=OneModel(model, CARD)) as engine,
        talking(engine, "test") as flint,
    ):
        thread = ThreadId(await flint.start(cwd=str(workspace), approvalPolicy=policy, dynamicTools=[tool]))
        given = Overrides(sandbox=None)
        await engine.execute(ChangeSettings(thread_id=thread, overrides=given))
        if what == "summary":
            await carry_on(engine, world, StartTurn(thread_id=thread, content=SAID))
        began = time.monotonic()
        command = CompactThread(thread_id=thread) if what == "summary" else StartTurn(thread_id=thread, content=SAID)
        await carry_on(engine, world, command)
        took = time.monotonic() - began
    assert took < SECONDS * (1 + world.raised.total()) + 30, (what, policy, took)
    assert not (workspace / "late").exists(), what


# -- agents with a loop of their own


async def agent_story(draw: random.Random, folder: Path) -> None:
    """A program that goes on and on: it is stopped near its budget, whatever it tells about itself."""
    kind, measure = draw.choice(("acp", "codex")), draw.choice(("steps", "tokens", "minutes"))
    tells = "window" if measure == "tokens" and kind == "acp" else draw.choice(("window", "nothing"))
    if kind == "codex" and measure != "minutes":
        tells = "window"  # Codex always tells its tokens
    limit = {"steps": 4.0, "tokens": 400.0, "minutes": 1 / 60}[measure]  # a reply: 0.1 s and 100 tokens
    world = World(draw.choice(("turn", "thread", "day")), measure, limit, agrees=draw.randrange(2))
    workspace, policy = make_world(folder), "onRequest" if world.agrees else draw.choice(("never", "onRequest"))
    replies = folder / "replies"
    program = [sys.executable, str(AGENTS), kind, tells, str(replies)]
    if kind == "acp":
        catalog = CatalogFile(folder / "catalog.json")
        small = AcpAgent("small", program, memory=lambda: folder / "memory", environment={}, catalog=catalog)
        source = AcpModels("small", small.command, file=catalog, start=small.start)
        models = Catalogue({}, clock=SystemClock(), default="small/default", sources=[source])
        engines = house(workspace, None, (), more=world.toml, models=models, agents={"small": small})  # type: ignore[arg-type]
    else:
        engines = codex_engine(folder, workspace, world, program)
    async with engines as engine:
        thread = await engine.execute(CreateThread(overrides=Overrides(approval_policy=policy)))
        assert isinstance(thread, ThreadState)
        await carry_on(engine, world, StartTurn(thread_id=thread.id, content=SAID))
    made, allowed = len(replies.read_text().split()), 4 * (1 + world.raised.total())
    if measure == "minutes":
        allowed = 10 * (1 + world.raised.total()) + 60  # programs start slowly on a busy machine
    assert made <= allowed + 4 * (1 + world.raised.total()), (kind, tells, measure, policy, made)


def codex_engine(folder: Path, workspace: Path, world: World, program: list[str]) -> Any:
    file, starter = folder / "config.toml", folder / "codex"
    file.write_text(world.toml)
    starter.write_text("#!/bin/sh\nexec " + " ".join(program) + "\n")
    starter.chmod(0o755)
    environment = {
        "HOME": str(folder / "home"),
        "HAMES_CONFIG": str(file),
        "HAMES_STATE": str(folder / "state"),
        "HAMES_CODEX": str(starter),
        "PATH": os.environ["PATH"],
    }
    return open_engine(load({"cwd": str(workspace), "model": "codex/default"}, environment))


# -- a process that stops while a budget is used up


async def death_story(draw: random.Random, folder: Path) -> None:
    """The process stops while somebody is asked. The next one asks again; what the reply called waits as well."""
    world = World(draw.choice(("turn", "thread", "day")), "tokens", 30, agrees=0)
    workspace, when = make_world(folder), draw.choice(("at the budget", "at the call"))
    model = ChargingModel(world, draw, ("dear",))
    policy = "onRequest" if when == "at the budget" else "always"
    before = World(world.scope, "tokens", 10**6, agrees=0) if when == "at the call" else world
    async with house(workspace, model, (), more=before.toml, models=OneModel(model, CARD), leaves_turns=True) as engine:
        world.engine = engine
        given = Overrides(approval_policy=policy, after_crash="go_on")
        thread = await engine.execute(CreateThread(overrides=given))
        assert isinstance(thread, ThreadState)
        watcher = await engine.watch(thread.id)
        await engine.execute(StartTurn(thread_id=thread.id, content=SAID))
        await until_asked(watcher)
    assert not (workspace / "ran-0").exists()
    async with house(workspace, model, (), more=world.toml, models=OneModel(model, CARD)) as engine:
        world.engine = engine
        await carry_on(engine, world, ResumeThread(thread_id=thread.id))
    assert not world.past, (world.scope, when, world.past)
    assert not (workspace / "ran-0").exists(), (world.scope, when)


async def until_asked(watcher: Any) -> None:
    with anyio.fail_after(60):
        while True:
            for change in await watcher.next():
                if isinstance(change.record.event, ApprovalRequested):
                    return


STORIES: dict[str, Callable[[random.Random, Path], Awaitable[None]]] = {
    "our own loop": loop_story,
    "minutes": minutes_story,
    "other agents": agent_story,
    "a process that stops": death_story,
}


@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("story", STORIES)
async def test_no_path_leads_past_a_budget(story: str, tmp_path: Path) -> None:
    await STORIES[story](random.Random(1), tmp_path)


@pytest.mark.slow
@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("what", SLOW)
async def test_minutes_hold_in_the_middle_of(what: str, tmp_path: Path) -> None:
    await minutes_story(random.Random(2), tmp_path, what)


@pytest.mark.slow
@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("seed", range(200))
async def test_no_path_leads_past_a_budget_in_two_hundred_stories(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    await STORIES[draw.choice(("our own loop", "our own loop", *sorted(STORIES)))](draw, tmp_path)
