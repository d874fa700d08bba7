"""The budgets of a running turn: counted from the log, and a question where one is reached.

Our own loop waits at `hold` before every request to a model. Other agents go on by themselves: they are stopped after
the reply that reached a budget, and started again when somebody allows more. Minutes run out in the middle of a reply
or a call as well: `limited` watches the time.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol

import anyio
from anyio import to_thread
from msgspec.structs import replace

from hames.core.engine_rules import EngineRules, ThreadBudget
from hames.domain.approvals import Elicit
from hames.domain.budgets import (
    SCOPES,
    BudgetMeasure,
    Budgets,
    BudgetScope,
    DayTotal,
    Spending,
    UsedUp,
    describe_use,
    first_used_up,
    nearly_used_up,
    question,
    refusal,
    spending,
    tightest,
)
from hames.domain.continuing import last_step
from hames.domain.errors import BudgetReached, UnknownModel
from hames.domain.events import ContextAdded, ItemCompleted, ItemStarted, Noticed
from hames.domain.forms import HARNESS
from hames.domain.items import TextInput, UserMessage
from hames.domain.models import Price
from hames.domain.servers import ServerStatus
from hames.domain.situation import note
from hames.domain.state import ThreadState, Turn
from hames.ports import Ability, AgentThread, Clock, DaySpending, Models, Prompt, Task, TurnHandle

GO_ON = "Go on with the task where you were stopped."
FINISH = "Finish what matters most, and say what is left."

LOOK_AGAIN_S = 30.0
"""How often it is looked whether minutes are used up: other processes use those of the day."""


class TurnBudget:
    """Of one running turn. `memory` outlives it; `day` is None where the day has no budget."""

    def __init__(
        self,
        handle: TurnHandle,
        budgets: Budgets,
        *,
        price_of: Callable[[str], Price | None],
        clock: Clock,
        waited: Callable[[], float],
        memory: ThreadBudget,
        day: DaySpending | None,
        worked_before_s: float = 0.0,
    ) -> None:
        """`waited`: the seconds that questions of this turn waited for their answers. `worked_before_s`: how long the
        turn ran in processes that stopped.
        """
        self._handle = handle
        self._budgets = budgets
        self._price_of = price_of
        self._clock = clock
        self._waited = waited
        self._memory = memory
        self._raised = memory.raised
        self._day = day if budgets.limited("day") else None
        self._today = DayTotal()
        self._started = clock.monotonic() - worked_before_s
        self._requests = handle.step
        """How many requests our own loop made for this turn."""
        self._told: set[tuple[BudgetScope, BudgetMeasure]] = set()
        self._warned = False
        self._turn = anyio.Lock()
        self.stop: Callable[[], None] | None = None
        """Stops an agent that asks nobody before it goes on."""
        self._refusal: BudgetReached | None = None
        self._raised.update({key: 0.0 for key in self._raised if key[0] == "turn"})
        self._in_day = self._of_turn() if handle.continued else Spending()
        """What of this turn is in the day's total."""

    async def limited(self, work: Callable[[], Awaitable[str]]) -> str:
        """Runs the work of the turn. Raises `BudgetReached` if its minutes ran out and nobody allows more."""
        try:
            if not self._budgets.limits("minutes"):
                return await work()
            ended: list[str | Exception] = []

            async def run() -> None:
                try:
                    ended.append(await work())
                except Exception as failure:  # raised below, where no task group wraps it
                    ended.append(failure)
                tasks.cancel_scope.cancel()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                tasks.start_soon(self._watch_minutes, tasks.cancel_scope)
            if self._refusal is not None:
                raise self._refusal
            [outcome] = ended
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        finally:
            with anyio.CancelScope(shield=True):  # the last reply or call is a part of the day as well
                await self._count_day()

    async def _watch_minutes(self, scope: anyio.CancelScope) -> None:
        """Asks beside the work when the minutes are used up, and cancels it if nobody allows more."""
        while True:
            await anyio.sleep(min(LOOK_AGAIN_S, max(0.05, self._seconds_left())))
            await self._count_day()
            if self._used_up("minutes") is None:
                continue
            if self.stop is not None:
                self.stop()
                continue
            async with self._turn:
                try:
                    while (used := self._used_up("minutes")) is not None:
                        await self._ask(used)
                except BudgetReached as refusal:
                    self._refusal = refusal
                    scope.cancel()
                    return

    def _seconds_left(self) -> float:
        limits = {scope: self._budgets.of(scope).minutes for scope in SCOPES}
        spent = self.spent()
        return min(
            (limit + self._raised_by(scope, "minutes") - spent[scope].minutes) * 60
            for scope, limit in limits.items()
            if limit and scope in spent
        )

    async def before_request(self) -> None:
        """As `hold`, and counts the request."""
        await self.hold()
        self._requests += 1
        self._memory.requests[self._handle.turn_id] = self._requests

    async def hold(self) -> None:
        """Before a request to a model: asks where a budget is used up. Raises `BudgetReached` if nobody allows more."""
        async with self._turn:
            await self._count_day()
            while (used := self._used_up()) is not None:
                await self._ask(used)
            await self._warn_unknown_price()
            await self._tell_nearly()

    async def hold_tools(self) -> None:
        """Before the calls of a reply. They belong to its step, so a budget of steps does not stop them."""
        async with self._turn:
            await self._count_day()
            while (used := first_used_up(self._budgets.without("steps"), self.spent(), self._raised_by)) is not None:
                await self._ask(used)

    async def counted(self) -> None:
        """After tokens were reported."""
        await self._count_day()
        self.check()

    def check(self) -> None:
        """Stops an agent that asks nobody, if a budget is used up."""
        if self.stop is not None and self._used_up() is not None:
            self.stop()

    def spent(self) -> dict[BudgetScope, Spending]:
        """So far, by scope. Pure but for the clock: everything else is in the log."""
        state, now = self._handle.state, self._of_turn()
        spent: dict[BudgetScope, Spending] = {"turn": now, "thread": self._earlier(state) + now}
        if self._day is not None:
            spent["day"] = self._today.spent + (now - self._in_day)
        return spent

    def _of_turn(self) -> Spending:
        running = self._handle.state.turn(self._handle.turn_id)
        assert running is not None
        minutes = (self._clock.monotonic() - self._started - self._waited()) / 60
        steps = max(running.replies, self._handle.step, self._requests)
        return spending(running.spent, self._price_of, minutes=max(0.0, minutes), steps=steps)

    def _earlier(self, state: ThreadState) -> Spending:
        earlier = (turn for turn in state.turns if turn.id != self._handle.turn_id)
        return sum((_of_ended(turn, self._memory, self._price_of) for turn in earlier), Spending())

    def _raised_by(self, scope: BudgetScope, measure: BudgetMeasure) -> float:
        if scope == "day":
            return self._today.raised.get(measure, 0.0)
        return self._raised.get((scope, measure), 0.0)

    def _used_up(self, measure: BudgetMeasure | None = None) -> UsedUp | None:
        """`measure`: of this one alone."""
        budgets = self._budgets if measure is None else self._budgets.only(measure)
        return first_used_up(budgets, self.spent(), self._raised_by)

    async def _count_day(self) -> None:
        if self._day is not None:
            now = self._of_turn()
            self._today = await to_thread.run_sync(self._day.add, now - self._in_day)
            self._in_day = now

    async def _ask(self, used: UsedUp) -> None:
        running = self._handle.state.turn(self._handle.turn_id)
        assert running is not None and running.items  # a prompt, a review or a compaction has begun with one
        asked = Elicit(server=HARNESS, message=question(used), schema={"type": "object", "properties": {}})
        answer = await self._handle.ask(running.items[-1].id, asked)
        if answer.decision not in ("once", "always"):
            raise BudgetReached(refusal(used, answer.note or "nobody allowed more"))
        if used.scope == "day":
            assert self._day is not None
            self._today = await to_thread.run_sync(self._day.raise_limit, used.measure, used.limit)
        else:
            key = (used.scope, used.measure)
            self._raised[key] = self._raised.get(key, 0.0) + used.limit
        self._told.discard((used.scope, used.measure))
        words = f"The budget was raised by {used.amount}"
        await self._notice("budget_raised", words)

    async def _tell_nearly(self) -> None:
        found = nearly_used_up(self._budgets, self.spent(), self._raised_by)
        fresh = [one for one in found if one[:2] not in self._told]
        if fresh and self._handle.step:  # before the first reply there is nothing to finish
            self._told.update(one[:2] for one in fresh)
            text = note(*(words for _, _, words in fresh), FINISH)
            await self._handle.emit(ContextAdded(turn_id=self._handle.turn_id, step=self._handle.step, text=text))

    async def _warn_unknown_price(self) -> None:
        model = self._handle.settings.model
        if not self._warned and self._budgets.limits("usd") and self._price_of(model) is None:
            self._warned = True
            words = f"The price of {model} is not known, so budgets in USD do not count it. Set one in tokens or steps"
            await self._notice("budget_unknown_price", words, warning=True)

    async def _notice(self, name: str, words: str, *, warning: bool = False) -> None:
        severity = "warning" if warning else "info"
        turn_id = self._handle.turn_id
        await self._handle.emit(Noticed(source="hames", name=name, severity=severity, message=words, turn_id=turn_id))


class BudgetedTurn(TurnHandle, Protocol):
    """A running turn that knows the time."""

    @property
    def clock(self) -> Clock: ...

    @property
    def worked_before_s(self) -> float: ...

    def waited(self) -> float: ...


def turn_budget(turn: BudgetedTurn, rules: EngineRules, models: Models, memory: ThreadBudget) -> TurnBudget | None:
    """None: nothing is limited."""
    budgets = tightest(rules.budgets, turn.settings.budgets)
    if not budgets:
        return None

    return TurnBudget(
        turn,
        budgets,
        price_of=partial(_price_of, models),
        clock=turn.clock,
        waited=turn.waited,
        memory=memory,
        day=rules.day_spending,
        worked_before_s=turn.worked_before_s,
    )


async def within(budget: TurnBudget | None, work: Callable[[], Awaitable[str]]) -> str:
    return await (work() if budget is None else budget.limited(work))


def used_of_budgets(
    rules: EngineRules, models: Models, state: ThreadState, memory: ThreadBudget, running: TurnBudget | None
) -> tuple[str, ...]:
    """For people: how much of each budget is used. The day is known only while a turn runs."""
    budgets = tightest(rules.budgets, state.settings.budgets)
    if not budgets:
        return ()
    whole = sum((_of_ended(turn, memory, partial(_price_of, models)) for turn in state.turns), Spending())
    spent: dict[BudgetScope, Spending] = running.spent() if running is not None else {"thread": whole}
    return tuple(describe_use(budgets, spent))


def _price_of(models: Models, model: str) -> Price | None:
    with suppress(UnknownModel):
        return models.find(model).price
    return None


def _of_ended(turn: Turn, memory: ThreadBudget, price_of: Callable[[str], Price | None]) -> Spending:
    took = (turn.ended_at_ms or turn.started_at_ms) - turn.started_at_ms - turn.waited_ms
    steps = max(turn.replies, last_step(turn), memory.requests.get(turn.id, 0))
    return spending(turn.spent, price_of, minutes=max(0, took) / 60_000, steps=steps)


class BudgetedAgent:
    """Another agent, stopped after the reply that reached a budget. Implements `ports.AgentThread`."""

    def __init__(self, agent: AgentThread, budget: TurnBudget) -> None:
        self._agent = agent
        self._budget = budget

    @property
    def abilities(self) -> frozenset[Ability]:
        return self._agent.abilities

    async def run(self, task: Task, turn: TurnHandle) -> str:
        while True:
            await self._budget.hold()
            with anyio.CancelScope() as scope:
                self._budget.stop = scope.cancel
                try:
                    return await self._agent.run(task, turn)
                finally:
                    self._budget.stop = None
            task = await self._again(task, turn)

    async def _again(self, task: Task, turn: TurnHandle) -> Task:
        """What the agent is asked for once more was allowed."""
        await self._budget.hold()
        message = UserMessage(id=turn.new_item_id(), step=turn.step, content=(TextInput(text=GO_ON),))
        await turn.emit(
            ItemStarted(turn_id=turn.turn_id, item=message), ItemCompleted(turn_id=turn.turn_id, item=message)
        )
        return replace(task, message=message) if isinstance(task, Prompt) else Prompt(message=message)

    async def steer(self, message: UserMessage) -> None:
        await self._agent.steer(message)

    def servers(self) -> Mapping[str, ServerStatus]:
        return self._agent.servers()
