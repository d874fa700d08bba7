"""Turns whose process was killed: a second engine is given a copy of what the first had written so far."""

from hames.core.engine import Engine
from hames.domain.approvals import UseTool
from hames.domain.events import (
    TURN_CONTINUED,
    ApprovalRequested,
    ApprovalResolved,
    ItemCompleted,
    ItemStarted,
    Noticed,
    Record,
    TurnEnded,
    TurnStarted,
)
from hames.domain.ids import ThreadId
from hames.domain.state import ThreadState
from hames.ports import Tell
from hames.store.memory import MemoryStore
from hames.testing.fakes.clock import CountingIds
from hames.testing.fakes.model import ScriptedModel, call_raw
from support import PlainTool, engine, turn_end

APPEND_A = call_raw("append", '{"word": "a"}', call_id="a")


APPEND_B = call_raw("append", '{"word": "b"}', call_id="b")


def records(store: MemoryStore, thread_id: ThreadId) -> list[Record]:
    return store._logs[thread_id].everything()


def next_engine(model: ScriptedModel, *tools: object, store: MemoryStore, number: int = 1, **more: object) -> Engine:
    """Another process: its names are others."""
    return engine(model, *tools, store=store, ids=CountingIds(1000 * number), **more)


def blocks(model: ScriptedModel, request: int = -1) -> list[object]:
    return [block for message in model.requests[request].messages for block in message.blocks]


def notices(store: MemoryStore, thread_id: ThreadId, name: str = TURN_CONTINUED) -> list[str]:
    kept = [record.event for record in records(store, thread_id)]
    return [event.message for event in kept if isinstance(event, Noticed) and event.name == name]


def one_turn(store: MemoryStore, thread_id: ThreadId) -> TurnEnded:
    """The end of the only turn: it was started once and ended once, and nothing is open."""
    kept = [record.event for record in records(store, thread_id)]
    assert [record.seq for record in records(store, thread_id)] == list(range(1, len(kept) + 1))
    started_ids = [event.turn_id for event in kept if isinstance(event, TurnStarted)]
    ended = [event for event in kept if isinstance(event, TurnEnded)]
    assert len(started_ids) == 1
    assert [event.turn_id for event in ended] == started_ids
    items = [event.item.id for event in kept if isinstance(event, ItemStarted)]
    assert len(set(items)) == len(items)
    assert sorted(items) == sorted(event.item.id for event in kept if isinstance(event, ItemCompleted))
    asked = [event.approval.id for event in kept if isinstance(event, ApprovalRequested)]
    assert sorted(asked) == sorted(event.approval_id for event in kept if isinstance(event, ApprovalResolved))
    return ended[0]


async def finished(again: Engine, thread_id: ThreadId) -> ThreadState:
    watcher = await again.watch(thread_id)
    if watcher.state.running is not None:
        await turn_end(watcher)
    state = again.loaded(thread_id)
    assert state is not None
    return state


class Lines:
    """A tool that appends a line, and how often each call did."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.tool = PlainTool("append", self._append)
        self.asking = PlainTool("append", self._append, intent=UseTool(name="append"))

    async def _append(self, arguments: dict[str, object], tell: Tell) -> str:
        self.ran.append(str(arguments["word"]))
        await tell("done")
        return "appended"


def again_state(store: MemoryStore, thread_id: ThreadId) -> ThreadState:
    from hames.domain.state import apply, blank

    state = blank(thread_id)
    for record in records(store, thread_id):
        state = apply(state, record)
    return state
