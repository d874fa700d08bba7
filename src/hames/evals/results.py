"""What came out of an evaluation: one result per trial, a table for people, JSON for programs."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from hames.domain.display import visible
from hames.domain.value import Value

Ending = Literal["completed", "failed", "timeLimit", "budget", "notRun", "broken"]
"""How a trial ended, whatever its check said: the agent was done, its turn failed, its time or the money was used up,
it was never started because the money was, or the task itself does not work."""


class TrialResult(Value, rename="camel"):
    """One run of one task. What cannot be known of an agent program is None."""

    task: str
    number: int
    passed: bool
    ending: Ending
    category: str = ""
    why: str = ""
    """Why it did not pass, in a line."""
    steps: int | None = None
    """Replies of the model."""
    calls: int | None = None
    input_tokens: int | None = None
    """With what was read from a cache."""
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 0.0


class EvalReport(Value, rename="camel"):
    """Everything that `results.json` has."""

    agent: str
    hames: str
    repeat: int
    passed: int
    trials: int
    seconds: float
    cost_usd: float | None
    results: tuple[TrialResult, ...]


def report(agent: str, version: str, results: Sequence[TrialResult], *, repeat: int, seconds: float) -> EvalReport:
    return EvalReport(
        agent=agent,
        hames=version,
        repeat=repeat,
        passed=sum(one.passed for one in results),
        trials=len(results),
        seconds=round(seconds, 2),
        cost_usd=_total([one.cost_usd for one in results if one.ending != "notRun"]),
        results=tuple(results),
    )


HEAD = ("task", "passed", "steps", "calls", "tokens in", "out", "cost", "time")


def table(found: EvalReport) -> str:
    """A row per task, with means over its trials; the last row has the sums."""
    names = list(dict.fromkeys(one.task for one in found.results))
    rows = [_row(name, [one for one in found.results if one.task == name], mean=True) for name in names]
    rows.append(_row(f"{len(names)} tasks", found.results, mean=False))
    widths = [max(len(row[column]) for row in (HEAD, *rows)) for column in range(len(HEAD))]
    lines = [_line(HEAD, widths), *(_line(row, widths) for row in rows[:-1])]
    return "\n".join([*lines, "-" * len(lines[0]), _line(rows[-1], widths)])


def failures(found: EvalReport) -> list[str]:
    """A line for each trial that did not pass."""
    return [visible(f"{one.task} ({one.number}): {one.why or one.ending}") for one in found.results if not one.passed]


def as_json(found: EvalReport) -> str:
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def _row(name: str, trials: Sequence[TrialResult], *, mean: bool) -> tuple[str, ...]:
    share = max(1, sum(one.ending != "notRun" for one in trials)) if mean else 1
    ran = [one for one in trials if one.ending != "notRun"]
    dollars = _total([one.cost_usd for one in ran])
    return (
        name,
        f"{sum(one.passed for one in trials)}/{len(trials)}",
        _number(_total([one.steps for one in ran]), share),
        _number(_total([one.calls for one in ran]), share),
        _number(_total([one.input_tokens for one in ran]), share),
        _number(_total([one.output_tokens for one in ran]), share),
        "-" if dollars is None else f"${dollars / share:.4f}",
        f"{sum(one.seconds for one in trials) / share:.1f} s",
    )


def _total(counts: "Sequence[float | None]") -> float | None:
    """None: one of them is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _number(total: float | None, share: int) -> str:
    return "-" if total is None else f"{round(total / share):,}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = [
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join([first, *rest])
