"""Histories: what could happen to a thread, drawn at random, and what must hold for every protocol.

A history is told live: the deltas of one bundle come one by one and share its
number. `kept` gives the same history as the log has it. Needs hypothesis.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from hames.domain.events import ItemDelta, ItemStarted, Record
from hames.domain.items import Item
from hames.domain.state import Change, ThreadState, apply, blank
from hames.testing.generators.story import THREAD, HistoryGenerator

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

Message = TypeVar("Message")


def histories(*, max_turns: int = 3) -> "SearchStrategy[list[Record]]":
    """Whole histories: everything that was started has ended."""
    from hypothesis import strategies as st

    def history(draw: "DrawFn") -> list[Record]:
        return HistoryGenerator(draw).history(max_turns)

    return st.composite(history)()


def cut_histories(*, max_turns: int = 3) -> "SearchStrategy[list[Record]]":
    """Histories that stop anywhere, as a client that joins late or a crash would see them."""
    from hypothesis import strategies as st

    def cut(draw: "DrawFn") -> list[Record]:
        whole = draw(histories(max_turns=max_turns))
        return whole[: draw(st.integers(1, len(whole)))]

    return st.composite(cut)()


def changes(history: Iterable[Record], *, start: ThreadState | None = None) -> Iterator[Change]:
    """A history as projections are given it."""
    state = start or blank(THREAD)
    for record in history:
        before, state = state, apply(state, record)
        yield Change(record=record, before=before, after=state)


def folded(history: Iterable[Record]) -> ThreadState:
    state = blank(THREAD)
    for record in history:
        state = apply(state, record)
    return state


def kept(history: Iterable[Record]) -> list[Record]:
    """A history as the log has it: each bundle of deltas is one record."""
    log: list[Record] = []
    for record in history:
        if log and log[-1].seq == record.seq:
            last, more = log[-1].event, record.event
            assert isinstance(last, ItemDelta)
            assert isinstance(more, ItemDelta)
            log[-1] = replace(log[-1], event=replace(last, text=last.text + more.text))
        else:
            log.append(record)
    return log


def check_each_item_once(
    history: Iterable[Record],
    project: Callable[[Change], Iterable[Message]],
    *,
    started: Callable[[Message], Iterable[str]],
    completed: Callable[[Message], Iterable[str]],
    shown: Callable[[Item], bool] = lambda _: True,
) -> None:
    """The law of every protocol: it can tell any whole history, each item started once and then completed once.

    `started` and `completed` give the item ids that one message starts or completes. `shown` says
    which items of ours the protocol has; it may also tell of items of its own making.
    """
    opened: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    wanted: set[str] = set()
    for change in changes(history):
        if isinstance(change.record.event, ItemStarted) and shown(change.record.event.item):
            wanted.add(change.record.event.item.id)
        for message in project(change):
            opened.update(started(message))
            for item_id in completed(message):
                assert opened[item_id], f"{item_id} was completed and never started"
                ended[item_id] += 1
    assert not {item_id: times for item_id, times in opened.items() if times != 1}
    assert not {item_id: times for item_id, times in ended.items() if times != 1}
    assert not opened.keys() - ended.keys(), "started and never completed"
    assert not wanted - opened.keys(), "never told"
