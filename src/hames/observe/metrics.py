"""Metrics in the text format of Prometheus, which is simple enough to need no library."""

from collections import Counter
from collections.abc import Callable, Iterator

from hames.domain import events, items
from hames.domain.state import Change

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """An observer of every thread, and gauges that are read when somebody asks."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, float]] = {name: {} for name in _COUNTERS}
        self._seconds: Counter[float] = Counter()
        self._seconds_sum = 0.0
        self._turns_measured = 0
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        """Name to what it means and how to read it."""

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        values, key = self._counters[name], tuple(sorted(labels.items()))
        values[key] = values.get(key, 0.0) + amount

    def observe(self, change: Change) -> None:
        event = change.record.event
        if isinstance(event, events.ItemDelta):  # first, because a token is by far the most frequent event
            return
        match event:
            case events.ThreadCreated():
                self.count("hames_threads_created_total")
            case events.TurnStarted(kind=kind):
                self.count("hames_turns_started_total", kind=kind)
            case events.TurnEnded(turn_id=turn_id, status=status):
                self.count("hames_turns_ended_total", status=status)
                turn = change.after.turn(turn_id)
                if turn is not None and turn.duration_ms is not None:
                    self._measure(turn.duration_ms / 1000)
            case events.ItemCompleted(item=item) if not isinstance(
                item, items.UserMessage | items.AgentMessage | items.Reasoning
            ):
                self.count("hames_tool_calls_total", kind=type(item).__name__, status=item.status)
            case events.ApprovalRequested():
                self.count("hames_approvals_requested_total")
            case events.ApprovalResolved(decision=decision):
                self.count("hames_approvals_resolved_total", decision=decision)
            case events.UsageReported(model=model, usage=usage):
                for kind in ("input", "output", "cache_read", "cache_write"):
                    self.count("hames_tokens_total", getattr(usage, f"{kind}_tokens"), model=model, kind=kind)
            case _:
                pass

    def _measure(self, seconds: float) -> None:
        self._turns_measured += 1
        self._seconds_sum += seconds
        for bound in SECONDS:
            if seconds <= bound:
                self._seconds[bound] += 1

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for name, means in _COUNTERS.items():
            yield f"# HELP {name} {means}\n# TYPE {name} counter"
            for labels, value in sorted(self._counters[name].items()):
                yield f"{name}{format_labels(labels)} {value:g}"
        for name, (means, read) in self.gauges.items():
            yield f"# HELP {name} {means}\n# TYPE {name} gauge\n{name} {read():g}"
        name = "hames_turn_seconds"
        yield f"# HELP {name} How long turns took.\n# TYPE {name} histogram"
        for bound in SECONDS:
            yield f'{name}_bucket{{le="{bound:g}"}} {self._seconds[bound]}'
        yield f'{name}_bucket{{le="+Inf"}} {self._turns_measured}'
        yield f"{name}_sum {self._seconds_sum:g}"
        yield f"{name}_count {self._turns_measured}"


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def format_labels(labels: Labels) -> str:
    """
    >>> format_labels((("a", "x"), ("b", "y")))
    '{a="x",b="y"}'
    """
    pairs = [f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels]
    return "{" + ",".join(pairs) + "}" if pairs else ""


_COUNTERS = {
    "hames_threads_created_total": "Threads made.",
    "hames_turns_started_total": "Turns started, by kind.",
    "hames_turns_ended_total": "Turns ended, by status.",
    "hames_tool_calls_total": "Tool calls that ended, by kind and status.",
    "hames_approvals_requested_total": "Questions asked.",
    "hames_approvals_resolved_total": "Questions answered, by decision.",
    "hames_tokens_total": "Tokens, by model and kind.",
    "hames_http_requests_total": "Requests answered, by status.",
    "hames_refused_total": "Requests the guard refused, by status.",
}
