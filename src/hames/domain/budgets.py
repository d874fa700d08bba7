"""Budgets: how much a turn, a thread and a day may use before somebody is asked. Pure.

Tokens are those that were sent and received; tokens that a service read from its cache are not counted, their price is.
Minutes are those of work, without the time that a question waited for its answer. Steps are model replies.
"""

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from msgspec.structs import replace

from hames.domain.cost import cost
from hames.domain.models import Price
from hames.domain.usage import Usage
from hames.domain.value import Value

BudgetScope = Literal["turn", "thread", "day"]
BudgetMeasure = Literal["usd", "tokens", "minutes", "steps"]
SCOPES: tuple[BudgetScope, ...] = get_args(BudgetScope)
MEASURES: tuple[BudgetMeasure, ...] = get_args(BudgetMeasure)
WORDS: dict[BudgetScope, str] = {"turn": "this turn", "thread": "this thread", "day": "today"}
NEARLY = 0.8
"""From this part on the model is told that a budget nears its end."""


class BudgetLimits(Value, omit_defaults=True):
    """0: no limit."""

    usd: float = 0.0
    tokens: int = 0
    minutes: float = 0.0
    steps: int = 0

    def of(self, measure: BudgetMeasure) -> float:
        return getattr(self, measure)


class Budgets(Value, omit_defaults=True):
    turn: BudgetLimits = BudgetLimits()
    thread: BudgetLimits = BudgetLimits()
    day: BudgetLimits = BudgetLimits()

    def of(self, scope: BudgetScope) -> BudgetLimits:
        return getattr(self, scope)

    def limits(self, measure: BudgetMeasure) -> bool:
        return any(self.of(scope).of(measure) for scope in SCOPES)

    def limited(self, scope: BudgetScope) -> bool:
        return any(map(self.of(scope).of, MEASURES))

    def without(self, measure: BudgetMeasure) -> "Budgets":
        return Budgets(**{scope: replace(self.of(scope), **{measure: 0}) for scope in SCOPES})

    def only(self, measure: BudgetMeasure) -> "Budgets":
        return Budgets(**{scope: BudgetLimits(**{measure: self.of(scope).of(measure)}) for scope in SCOPES})  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return any(map(self.limits, MEASURES))


def tightest(one: Budgets, other: Budgets) -> Budgets:
    """The lower of each two limits.

    >>> tightest(Budgets(turn=BudgetLimits(usd=2.0)), Budgets(turn=BudgetLimits(usd=1.0, steps=3))).turn
    BudgetLimits(usd=1.0, tokens=0, minutes=0.0, steps=3)
    """
    if not other or not one:
        return other or one

    def limits(scope: BudgetScope) -> BudgetLimits:
        pairs = {measure: (one.of(scope).of(measure), other.of(scope).of(measure)) for measure in MEASURES}
        return BudgetLimits(**{name: min(pair) or max(pair) for name, pair in pairs.items()})  # type: ignore[arg-type]

    return Budgets(**{scope: limits(scope) for scope in SCOPES})


class Spending(Value):
    """What was used. `usd` counts only models whose price is known."""

    usd: float = 0.0
    tokens: int = 0
    minutes: float = 0.0
    steps: int = 0

    def of(self, measure: BudgetMeasure) -> float:
        return getattr(self, measure)

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(
            usd=self.usd + other.usd,
            tokens=self.tokens + other.tokens,
            minutes=self.minutes + other.minutes,
            steps=self.steps + other.steps,
        )

    def __sub__(self, other: "Spending") -> "Spending":
        return Spending(
            usd=self.usd - other.usd,
            tokens=self.tokens - other.tokens,
            minutes=self.minutes - other.minutes,
            steps=self.steps - other.steps,
        )


class UsedUp(Value):
    """A budget that is reached."""

    scope: BudgetScope
    measure: BudgetMeasure
    limit: float
    """As it is configured, without what somebody added."""

    @property
    def amount(self) -> str:
        return shown_amount(self.measure, self.limit)


class DayTotal(Value):
    """What a user spent on one day, in all processes, and by how much the limits of that day were raised."""

    day: str = ""
    spent: Spending = Spending()
    raised: dict[str, float] = {}
    """By measure."""


def spending(
    spent: Mapping[str, Usage], price_of: Callable[[str], Price | None], *, minutes: float, steps: int
) -> Spending:
    """`spent` is the usage of each model."""
    known = {model: usage for model, usage in spent.items() if price_of(model) is not None}
    return Spending(
        usd=cost(known, price_of) or 0.0,
        tokens=sum(counted_tokens(usage) for usage in spent.values()),
        minutes=minutes,
        steps=steps,
    )


def counted_tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.cache_write_tokens + usage.output_tokens


def first_used_up(
    budgets: Budgets,
    spent: Mapping[BudgetScope, Spending],
    raised: Callable[[BudgetScope, BudgetMeasure], float],
) -> UsedUp | None:
    """The first budget that is reached. `raised`: by how much somebody raised a limit.

    >>> first_used_up(Budgets(turn=BudgetLimits(steps=2)), {"turn": Spending(steps=2)}, lambda scope, measure: 0).amount
    '2 model replies'
    """
    for scope in SCOPES:
        for measure in MEASURES:
            limit = budgets.of(scope).of(measure)
            if limit and spent.get(scope, Spending()).of(measure) >= limit + raised(scope, measure):
                return UsedUp(scope=scope, measure=measure, limit=limit)
    return None


def nearly_used_up(
    budgets: Budgets,
    spent: Mapping[BudgetScope, Spending],
    raised: Callable[[BudgetScope, BudgetMeasure], float],
) -> list[tuple[BudgetScope, BudgetMeasure, str]]:
    """The budgets that near their end, and a sentence for the model about each."""
    found: list[tuple[BudgetScope, BudgetMeasure, str]] = []
    for scope in SCOPES:
        for measure in MEASURES:
            limit = budgets.of(scope).of(measure)
            whole = limit + raised(scope, measure)
            used = spent.get(scope, Spending()).of(measure)
            if limit and used >= whole * NEARLY:
                left = shown_amount(measure, max(0.0, whole - used))
                words = f"The budget of {WORDS[scope]} ({shown_amount(measure, whole)}) is nearly used up: {left} left."
                found.append((scope, measure, words))
    return found


def question(used: UsedUp) -> str:
    """
    >>> question(UsedUp(scope="turn", measure="usd", limit=2.0))
    'The budget of this turn (2.00 USD) is used up: go on with another 2.00 USD?'
    """
    return f"The budget of {WORDS[used.scope]} ({used.amount}) is used up: go on with another {used.amount}?"


def refusal(used: UsedUp, why: str) -> str:
    return f"stopped: the budget of {WORDS[used.scope]} ({used.amount}) is used up, and {why}"


def shown_amount(measure: BudgetMeasure, amount: float) -> str:
    """
    >>> shown_amount("usd", 2), shown_amount("tokens", 50_000), shown_amount("minutes", 1), shown_amount("steps", 3)
    ('2.00 USD', '50,000 tokens', '1 minute', '3 model replies')
    """
    match measure:
        case "usd":
            return f"{amount:.2f} USD" if not amount or amount >= 0.01 else f"{amount:.4f} USD"
        case "tokens":
            return f"{amount:,.0f} tokens"
        case "minutes":
            return f"{amount:.3g} minute{'' if amount == 1 else 's'}"
        case "steps":
            return f"{amount:.0f} model repl{'y' if amount == 1 else 'ies'}"


def describe_use(budgets: Budgets, spent: Mapping[BudgetScope, Spending]) -> list[str]:
    """For people: how much of each budget is used.

    >>> describe_use(Budgets(thread=BudgetLimits(usd=5.0)), {"thread": Spending(usd=1.25)})
    ['1.25 USD of the 5.00 USD of this thread']
    """
    return [
        f"{shown_amount(measure, used.of(measure))} of the {shown_amount(measure, limit)} of {WORDS[scope]}"
        for scope, used in spent.items()
        for measure in MEASURES
        if (limit := budgets.of(scope).of(measure))
    ]
