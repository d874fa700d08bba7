"""Budgets: a turn that reached one waits for a person, or ends with the reason. No way leads past one."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hames.config.budgets import read_budgets
from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.approvals import Elicit
from hames.domain.budgets import BudgetLimits, Budgets, Spending
from hames.domain.commands import (
    CompactThread,
    CreateThread,
    ReadContext,
    ResolveApproval,
    ReviewTarget,
    StartReview,
    SteerTurn,
    SubmitPrompt,
)
from hames.domain.context_report import ContextReport
from hames.domain.errors import Misconfigured
from hames.domain.events import ApprovalRequested, ContextAdded, Noticed, TurnEnded, UsageReported
from hames.domain.ids import ThreadId
from hames.domain.items import TextInput, ToolCall, UserMessage
from hames.domain.models import ModelCard, Price
from hames.domain.options import Overrides
from hames.domain.servers import ServerStatus
from hames.domain.state import Change, ThreadState
from hames.domain.usage import Usage
from hames.ports import Ability, AgentThread, Prompt, Task, Tell, TurnHandle
from hames.store.spending import DaySpendingFile
from hames.testing.fakes.clock import FakeClock
from hames.testing.fakes.model import OneModel, ScriptedModel, Step, call, fail, say, usage
from situated_engine import texts
from support import ECHO, PlainTool, created, engine, events, question, started, turn_end, whole_turn

REPLY = 15
"""Tokens that the scripted model reports for a reply."""


def turn_limit(**limits: float) -> Budgets:
    return Budgets(turn=BudgetLimits(**limits))  # type: ignore[arg-type]


def ended(changes: list[Change]) -> TurnEnded:
    event = changes[-1].record.event
    assert isinstance(event, TurnEnded)
    return event


async def answer(house: Engine, watcher: Watcher, decision: str) -> Elicit:
    asked = await question(watcher)
    await house.execute(ResolveApproval(approval_id=asked.approval.id, decision=decision))  # type: ignore[arg-type]
    assert isinstance(asked.approval.intent, Elicit)
    return asked.approval.intent


async def test_a_turn_that_used_up_its_budget_asks_and_goes_on_with_as_much_again() -> None:
    model = ScriptedModel([call("echo")], [call("echo")], [call("echo")], [call("echo")], [say("done")])
    async with engine(model, ECHO, budgets=turn_limit(tokens=2 * REPLY)) as house:
        thread = await created(house)
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        first = await answer(house, watcher, "once")
        assert len(model.requests) == 2
        await answer(house, watcher, "once")
        assert len(model.requests) == 4
        changes = await turn_end(watcher)
    assert first.server == "Hames"
    assert first.message == "The budget of this turn (30 tokens) is used up: go on with another 30 tokens?"
    assert ended(changes).status == "completed"
    assert len(model.requests) == 5


@pytest.mark.parametrize(
    ("limits", "asked_for"),
    [({"tokens": REPLY}, "15 tokens"), ({"steps": 1}, "1 model reply"), ({"usd": 0.00001}, "0.0000 USD")],
)
async def test_a_turn_whose_budget_nobody_raises_ends_with_the_reason(limits: dict[str, float], asked_for: str) -> None:
    model = ScriptedModel([call("echo")], [say("done")])
    card = ModelCard(provider="scripted", model="test", display_name="Test", price=Price(input=1.0, output=2.0))
    async with engine(OneModel(model, card), ECHO, budgets=turn_limit(**limits)) as house:
        thread = await created(house)
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        asked = await answer(house, watcher, "reject")
        changes = await turn_end(watcher)
    assert f"({asked_for}) is used up" in asked.message
    end = ended(changes)
    assert end.error is not None
    assert (end.status, end.error.info) == ("failed", "BudgetReached")
    assert end.error.message == f"stopped: the budget of this turn ({asked_for}) is used up, and nobody allowed more"
    assert len(model.requests) == 1


async def test_where_nobody_is_asked_the_turn_ends_and_the_queue_waits() -> None:
    model = ScriptedModel([call("echo")], [say("never asked for")])
    async with engine(model, ECHO, policy="never", budgets=turn_limit(steps=1)) as house:
        thread = await created(house)
        changes = await whole_turn(house, thread.id)
    assert not any(isinstance(event, ApprovalRequested) for event in events(changes))
    assert "so nobody is asked" in (ended(changes).error or pytest.fail("no error")).message
    assert len(model.requests) == 1


async def test_a_budget_that_is_not_reached_changes_nothing_but_a_note_near_its_end() -> None:
    model = ScriptedModel([call("echo")], [call("echo")], [call("echo")], [call("echo")], [say("done")])
    async with engine(model, ECHO, budgets=turn_limit(steps=5)) as house:
        thread = await created(house)
        changes = await whole_turn(house, thread.id)
    assert ended(changes).status == "completed"
    told = [event.text for event in events(changes) if isinstance(event, ContextAdded)]
    assert len(told) == 1
    assert "The budget of this turn (5 model replies) is nearly used up: 1 model reply left." in told[0]
    assert any("Finish what matters most" in text for text in texts(model.requests[-1]))


async def test_a_thread_is_counted_over_its_turns_and_after_it_was_loaded_again() -> None:
    model = ScriptedModel([say("one")], [say("two")], [say("three")])
    budgets = Budgets(thread=BudgetLimits(tokens=2 * REPLY))
    async with engine(model, policy="never", budgets=budgets) as house:
        thread = await created(house)
        for status in ("completed", "completed", "failed"):
            assert ended(await whole_turn(house, thread.id)).status == status
    assert len(model.requests) == 2


async def test_minutes_count_work_and_not_the_time_that_a_question_waits() -> None:
    clock = FakeClock()

    async def slow(arguments: dict[str, object], tell: Tell) -> str:
        clock.advance(40)
        return "slow"

    model = ScriptedModel([call("slow")], [call("slow")], [call("slow")], [say("done")])
    async with engine(model, PlainTool("slow", slow), clock=clock, budgets=turn_limit(minutes=1)) as house:
        thread = await created(house)
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        asked = await question(watcher)
        assert len(model.requests) == 2
        clock.advance(3600)
        await house.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
        await answer(house, watcher, "once")
        changes = await turn_end(watcher)
    assert ended(changes).waited_ms == 3_600_000
    assert changes[-1].after.turns[-1].waited_ms == 3_600_000


async def test_an_unknown_price_is_said_once_and_other_budgets_still_hold() -> None:
    model = ScriptedModel([call("echo")], [say("done")])
    async with engine(model, ECHO, policy="never", budgets=turn_limit(usd=0.01, steps=9)) as house:
        thread = await created(house)
        changes = await whole_turn(house, thread.id)
    said = [event.message for event in events(changes) if isinstance(event, Noticed) and "price" in event.name]
    assert len(said) == 1
    assert said[0].startswith("The price of scripted/test is not known")


# The day


async def test_a_day_is_counted_over_threads_and_processes(tmp_path: Path) -> None:
    budgets = Budgets(day=BudgetLimits(steps=3))
    files = [DaySpendingFile(tmp_path / "state" / "spending.json", today=lambda: "2026-01-01") for _ in range(2)]
    statuses: list[str] = []
    for file in (*files, *files):
        model = ScriptedModel([say("done")])
        async with engine(model, policy="never", budgets=budgets, day_spending=file) as house:
            thread = await created(house)
            statuses.append(ended(await whole_turn(house, thread.id)).status)
    assert statuses == ["completed", "completed", "completed", "failed"]


async def test_a_raised_day_is_raised_for_every_process_and_the_next_day_begins_anew(tmp_path: Path) -> None:
    budgets, days = Budgets(day=BudgetLimits(steps=1)), ["2026-01-01"]
    one, other = (DaySpendingFile(tmp_path / "spending.json", today=lambda: days[-1]) for _ in range(2))
    model = ScriptedModel(*([say("done")] for _ in range(5)))
    async with engine(model, budgets=budgets, day_spending=one) as house:
        thread = await created(house)
        watcher = await house.watch(thread.id)
        await whole_turn(house, thread.id)
        await started(house, thread.id)
        asked = await answer(house, watcher, "once")
        assert asked.message.startswith("The budget of today (1 model reply)")
        await turn_end(watcher)
    async with engine(model, policy="never", budgets=budgets, day_spending=other) as house:
        thread = await created(house)
        assert ended(await whole_turn(house, thread.id)).status == "failed"
        days.append("2026-01-02")
        assert ended(await whole_turn(house, thread.id)).status == "completed"


def test_processes_that_count_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path, children = tmp_path / "spending.json", list[int]()
    for _ in range(4):
        child = os.fork()
        if child == 0:
            file = DaySpendingFile(path, today=lambda: "2026-01-01")
            for _ in range(25):
                file.add(Spending(tokens=3, steps=1))
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    total = DaySpendingFile(path, today=lambda: "2026-01-01").add(Spending())
    assert (total.spent.tokens, total.spent.steps) == (300, 100)


@pytest.mark.parametrize("content", [b"", b"{", b'{"day":"2026-01-01","spent":{"steps":-9}}', b"\xff" * 99])
def test_a_damaged_file_does_not_forget_what_this_process_spent(tmp_path: Path, content: bytes) -> None:
    file = DaySpendingFile(tmp_path / "spending.json", today=lambda: "2026-01-01")
    file.add(Spending(steps=2))
    (tmp_path / "spending.json").write_bytes(content)
    assert file.add(Spending(steps=1)).spent.steps == 3


def test_a_state_directory_that_cannot_be_written_still_counts_in_this_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = DaySpendingFile(tmp_path / "file" / "spending.json", today=lambda: "2026-01-01")
    file.add(Spending(steps=2))
    assert file.add(Spending(steps=1)).spent.steps == 3


# Other agents


class CountingAgent:
    """An agent that never asks before it goes on: after each reply comes the next."""

    name = "other"
    abilities: frozenset[Ability] = frozenset()

    def __init__(self, replies: int) -> None:
        self.replies = replies
        self.runs: list[str] = []

    @asynccontextmanager
    async def open(self, state: ThreadState) -> AsyncGenerator[AgentThread]:
        yield self

    async def run(self, task: Task, turn: TurnHandle) -> str:
        assert isinstance(task, Prompt)
        self.runs.append(task.message.content[0].text if isinstance(task.message.content[0], TextInput) else "")
        while self.replies:
            self.replies -= 1
            used = Usage(input_tokens=10, output_tokens=5)
            await turn.emit(UsageReported(turn_id=turn.turn_id, model=turn.settings.model, usage=used))
            await anyio.lowlevel.checkpoint()
        return "done"

    async def steer(self, message: UserMessage) -> None:
        raise AssertionError

    def servers(self) -> Mapping[str, ServerStatus]:
        return {}


async def test_another_agent_is_stopped_after_the_reply_that_reached_the_budget_and_may_go_on() -> None:
    agent = CountingAgent(5)
    async with engine(ScriptedModel(), agents={"scripted": agent}, budgets=turn_limit(tokens=2 * REPLY)) as house:
        thread = await created(house)
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        await answer(house, watcher, "once")
        assert agent.replies == 3
        await answer(house, watcher, "reject")
        changes = await turn_end(watcher)
    assert agent.replies == 1
    assert agent.runs == ["go", "Go on with the task where you were stopped."]
    assert (ended(changes).error or pytest.fail("no error")).info == "BudgetReached"


# No way around


CUT = [say("half", cut=True), fail("the connection was lost", retryable=True)]
REPLIES: dict[str, list[Step]] = {
    "answer": [say("done")],
    "call": [call("echo")],
    "two calls": [call("echo"), call("broken")],
    "empty": [],
    "broken off": CUT,
    "broken off after tokens": [usage(input_tokens=400, output_tokens=100), *CUT],
    "failed": [fail("no such thing")],
    "long": [usage(input_tokens=40, output_tokens=60), call("echo")],
    "too long": [fail("too long", info="ContextWindowExceeded")],
}


@settings(max_examples=60, deadline=None)
@given(
    script=st.lists(st.sampled_from(sorted(REPLIES)), min_size=4, max_size=14),
    tasks=st.lists(st.sampled_from(["prompt", "queue", "steer", "review", "compact"]), min_size=1, max_size=5),
    scope=st.sampled_from(["turn", "thread", "day"]),
    measure=st.sampled_from(["tokens", "steps"]),
    size=st.integers(1, 4),
    agrees=st.integers(0, 2),
)
def test_no_path_leads_past_a_budget_by_more_than_one_reply(
    *, script: list[str], tasks: list[str], scope: str, measure: str, size: int, agrees: int
) -> None:
    limit = size * (REPLY if measure == "tokens" else 1)
    seen = anyio.run(_run_tasks, script, tasks, Budgets(**{scope: BudgetLimits(**{measure: limit})}), agrees)
    allowed, spent = dict[str, float](), dict[str, float]()
    for change in seen:
        event = change.record.event
        key = getattr(event, "turn_id", "") if scope == "turn" else ""
        if isinstance(event, UsageReported):
            assert spent.get(key, 0) < allowed.get(key, limit), (scope, measure, limit, script, tasks)
            spent[key] = spent.get(key, 0) + (
                event.usage.input_tokens + event.usage.output_tokens if measure == "tokens" else 1
            )
        elif isinstance(event, Noticed) and event.name == "budget_raised":
            allowed[key] = allowed.get(key, limit) + limit


async def _run_tasks(script: list[str], tasks: list[str], budgets: Budgets, agrees: int) -> list[Change]:
    model = ScriptedModel(*(REPLIES[name] for name in script * 3), *([say("done")] for _ in range(40)))
    seen: list[Change] = []
    spending = _OneDay()
    policy = "onRequest" if agrees else "never"
    async with engine(model, policy=policy, budgets=budgets, day_spending=spending, max_steps=12) as house:
        thread = await created(house)
        watcher = await house.watch(thread.id)
        async with anyio.create_task_group() as group:
            group.start_soon(_follow, house, watcher, agrees, seen)
            with anyio.fail_after(60):
                for task in tasks:
                    await _do(house, thread.id, task)
            watcher.close()
    return seen


async def _follow(house: Engine, watcher: Watcher, agrees: int, seen: list[Change]) -> None:
    while changes := await watcher.next():
        seen += changes
        for change in changes:
            event = change.record.event
            if isinstance(event, ApprovalRequested):
                agrees -= 1
                decision = "once" if agrees >= 0 else "reject"
                await house.execute(ResolveApproval(approval_id=event.approval.id, decision=decision))


async def _do(house: Engine, thread_id: ThreadId, task: str) -> None:
    said = (TextInput(text="go"),)
    match task:
        case "review":
            await house.execute(StartReview(thread_id=thread_id, target=ReviewTarget(kind="uncommittedChanges")))
        case "compact":
            await house.execute(CompactThread(thread_id=thread_id))
        case "queue":
            for _ in range(3):
                await house.execute(SubmitPrompt(thread_id=thread_id, content=said))
        case "steer":
            await started(house, thread_id)
            await house.execute(SteerTurn(thread_id=thread_id, content=said))
        case _:
            await started(house, thread_id)
    while (state := house.loaded(thread_id)) is not None and (
        state.running is not None or (state.queue and not state.queue_held)
    ):
        await house.wait(thread_id)
        await anyio.lowlevel.checkpoint()


class _OneDay:
    def __init__(self) -> None:
        from hames.domain.budgets import DayTotal

        self.total = DayTotal()

    def add(self, spent: Spending):
        self.total = replace(self.total, spent=self.total.spent + spent)
        return self.total

    def raise_limit(self, measure: str, amount: float):
        raised = {**self.total.raised, measure: self.total.raised.get(measure, 0.0) + amount}
        self.total = replace(self.total, raised=raised)
        return self.total


# Configuration


@pytest.mark.parametrize(
    "value",
    [
        {"week": {"usd": 1}},
        {"turn": {"eur": 1}},
        {"turn": 3},
        {"turn": {"usd": "1"}},
        {"turn": {"usd": -1}},
        {"turn": {"steps": 1.5}},
        {"turn": {"tokens": True}},
        {"day": {"usd": float("nan")}},
        {"day": {"minutes": float("inf")}},
    ],
)
def test_a_budget_that_is_not_understood_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(Misconfigured, match="budgets"):
        read_budgets(value, "config.toml")


def test_budgets_are_read() -> None:
    found = read_budgets({"turn": {"usd": 2, "steps": 50}, "day": {"usd": 20.5}}, "config.toml")
    assert found == Budgets(turn=BudgetLimits(usd=2.0, steps=50), day=BudgetLimits(usd=20.5))
    assert not read_budgets({}, "config.toml")


async def test_the_report_of_a_thread_says_how_much_of_its_budgets_is_used() -> None:
    budgets = Budgets(thread=BudgetLimits(tokens=100), turn=BudgetLimits(steps=9))
    async with engine(ScriptedModel([say("done")]), budgets=budgets) as house:
        thread = await created(house)
        await whole_turn(house, thread.id)
        report = await house.execute(ReadContext(thread_id=thread.id))
    assert isinstance(report, ContextReport)
    assert report.budgets == ("15 tokens of the 100 tokens of this thread",)


async def test_budgets_of_a_thread_hold_beside_those_of_the_configuration_and_the_lower_one_counts() -> None:
    own = Overrides(budgets=Budgets(turn=BudgetLimits(steps=1), thread=BudgetLimits(steps=9)))
    model = ScriptedModel([call("echo")], [call("echo")], [say("done")])
    async with engine(model, ECHO, budgets=turn_limit(steps=5)) as house:
        thread = await house.execute(CreateThread(overrides=own))
        assert isinstance(thread, ThreadState)
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        asked = await answer(house, watcher, "reject")
        await turn_end(watcher)
        report = await house.execute(ReadContext(thread_id=thread.id))
    assert "(1 model reply) is used up" in asked.message
    assert isinstance(report, ContextReport)
    assert "1 model reply of the 9 model replies of this thread" in report.budgets


@pytest.mark.parametrize("limits", [{"tokens": REPLY}, {"usd": 0.001}])
@pytest.mark.parametrize("scope", ["turn", "thread"])
async def test_the_calls_of_a_reply_that_used_up_the_budget_are_not_carried_out(
    limits: dict[str, float], scope: str
) -> None:
    ran: list[str] = []

    async def run(_: dict[str, object], __: Tell) -> str:
        ran.append("ran")
        return "done"

    model = ScriptedModel([call("count"), call("count")], [say("done")])
    card = ModelCard(provider="scripted", model="test", display_name="Test", price=Price(input=1_000.0, output=1_000.0))
    budgets = Budgets(**{scope: BudgetLimits(**limits)})  # type: ignore[arg-type]
    async with engine(OneModel(model, card), PlainTool("count", run), budgets=budgets) as house:
        thread = await created(house)
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        await answer(house, watcher, "reject")
        changes = await turn_end(watcher)
    assert ended(changes).status == "failed"
    assert ran == []
    assert len(model.requests) == 1
    state = changes[-1].after
    skipped = [item for item in state.turns[-1].items if isinstance(item, ToolCall)]
    assert [item.status for item in skipped] == ["skipped", "skipped"]  # every call has a result the model can read


async def test_a_budget_of_steps_lets_the_calls_of_its_last_step_run() -> None:
    model = ScriptedModel([call("echo")], [say("done")])
    async with engine(model, ECHO, budgets=turn_limit(steps=1)) as house:
        thread = await created(house)
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        await answer(house, watcher, "reject")
        state = (await turn_end(watcher))[-1].after
    [item] = [item for item in state.turns[-1].items if isinstance(item, ToolCall)]
    assert item.status == "completed"
