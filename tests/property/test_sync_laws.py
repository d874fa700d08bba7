"""sync is a view: whatever happens, a client that followed every operation holds the server's state."""

from collections.abc import Sequence
from functools import cache

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.core.watcher import Watcher
from hames.domain.errors import UnknownModel
from hames.domain.events import Event, ItemDelta, ItemStarted, Record, TurnStarted
from hames.domain.ids import CallId, ItemId, TurnId
from hames.domain.items import (
    STREAMS,
    AgentMessage,
    CommandExecution,
    Compaction,
    FileChange,
    Item,
    McpToolCall,
    Plan,
    Reasoning,
    ToolCall,
    ToolResult,
)
from hames.domain.json import Json
from hames.domain.models import ModelCard, Price
from hames.domain.options import Choice, Selector
from hames.domain.state import Change, ThreadState, apply, blank
from hames.ports import Provider
from hames.protocols.sync.messages import Model, Operation
from hames.protocols.sync.outbound import Projector, diff, project
from hames.protocols.sync.tails import CAP, STEP
from hames.protocols.sync.view import Offer, view
from hames.testing.generators.histories import changes, cut_histories, histories
from hames.testing.generators.story import THREAD
from hames.testing.generators.values import values
from sync_apply import applied


class TwoModels:
    """Two models with prices and a selector for one of them."""

    default = "anthropic/claude"

    def find(self, name: str) -> ModelCard:
        if name not in ("anthropic/claude", "openai/gpt", "claude"):
            raise UnknownModel(f"no model {name!r}")
        provider = "openai" if name == "openai/gpt" else "anthropic"
        price = Price(input=3.0, output=15.0) if provider == "anthropic" else None
        return ModelCard(provider=provider, model=name, display_name=name, price=price, context_window=1000)

    def cards(self) -> Sequence[ModelCard]:
        return []

    def selectors(self) -> Sequence[Selector]:
        effort = Selector(
            id="effort",
            name="Effort",
            choices=(Choice(id="low", name="Low"),),
            default="low",
            models=("anthropic/claude",),
        )
        return [effort]

    def provider(self, card: ModelCard) -> Provider:
        raise NotImplementedError


LISTED = Model(
    id="anthropic/claude",
    name="Claude",
    provider="anthropic",
    description="",
    context_window=1000,
    images=True,
    reasoning=False,
    available=True,
    problem="",
)
OFFER = Offer(models=TwoModels(), listed=(LISTED,))


def wire(value: object) -> Json:
    """As it crosses the wire."""
    return msgspec.json.decode(msgspec.json.encode(value))


def seen(state: ThreadState) -> Json:
    return wire(view(state, OFFER))


def follow(before: Json, operations: Sequence[Operation]) -> Json:
    return applied(before, wire(operations))


@pytest.mark.spec("sync/deltas-reach-snapshot", "sync/delta-patches-state", "sync/state-single")
@given(histories())
def test_deltas_bring_any_client_to_the_snapshot(history: list[Record]) -> None:
    for change in changes(history):
        assert follow(seen(change.before), project(change, OFFER)) == seen(change.after)


@given(histories())
def test_a_projector_that_saw_everything_says_the_same(history: list[Record]) -> None:
    projector = Projector(OFFER)
    for change in changes(history):
        assert projector.project(change) == project(change, OFFER)


@given(histories(), st.data())
def test_a_client_that_comes_and_goes_ends_where_everyone_is(history: list[Record], data: st.DataObject) -> None:
    projector, held = Projector(OFFER), None
    for change in changes(history):
        operations = projector.project(change)
        if held is not None:
            held = follow(held, operations)
        if data.draw(st.integers(0, 9)) == 0:
            held = seen(change.after)  # a broken connection: a whole state, and no question about the past
    assert held is None or held == seen(change.after)


@given(histories(), st.data())
def test_a_client_behind_a_slow_watcher_gets_just_as_far(history: list[Record], data: st.DataObject) -> None:
    """A watcher joins the deltas of one stream while nobody takes them."""

    async def follow_slowly() -> Json:
        watcher, projector = Watcher(blank(THREAD)), Projector(OFFER)
        held = seen(blank(THREAD))
        for change in changes(history):
            watcher.put(change)
            if data.draw(st.integers(0, 3)) == 0:
                for late in await watcher.next():
                    held = follow(held, projector.project(late))
        watcher.close()  # what is left can still be taken
        for late in await watcher.next():
            held = follow(held, projector.project(late))
        return held

    *_, change = changes(history)
    assert anyio.run(follow_slowly) == seen(change.after)


@pytest.mark.spec("sync/messages-ordered", "sync/message-id-unique")
@given(cut_histories())
def test_messages_only_grow_and_keep_their_names(history: list[Record]) -> None:
    names: list[str] = []
    for change in changes(history):
        now = [message.id for message in view(change.after, OFFER).messages]
        assert now[: len(names)] == names
        assert len(set(now)) == len(now)
        names = now


@pytest.mark.spec(
    "sync/state-status",
    "sync/message-status",
    "sync/message-id",
    "sync/message-content",
    "sync/message-role",
    "sync/tool-call-status",
    "sync/status-idle",
    "sync/status-running",
    "sync/error-when-status-error",
)
@given(cut_histories())
def test_the_status_is_that_of_the_last_turn(history: list[Record]) -> None:
    for change in changes(history):
        state, shown = change.after, view(change.after, OFFER)
        assert (shown.status == "running") == (state.running is not None)
        assert (shown.status == "error") == bool(shown.error)
        assert shown.status in ("idle", "running", "error")
        assert all(message.id and isinstance(message.content, str) for message in shown.messages)
        assert {message.role for message in shown.messages} <= {"user", "assistant"}
        assert {message.status for message in shown.messages} <= {"pending", "streaming", "complete", "error"}
        calls = [call for message in shown.messages for call in message.tool_calls]
        assert {call.status for call in calls} <= {"running", "complete", "error"}
        if shown.status != "running":
            assert all(message.status in ("complete", "error") for message in shown.messages)
            assert all(call.status != "running" for message in shown.messages for call in message.tool_calls)


@cache
def _events() -> st.SearchStrategy[Event]:
    return values(Event, words=st.sampled_from(["a", "b", "/w/a", "/w", "x" * 9]))


@given(st.lists(_events(), max_size=12))
def test_even_a_log_that_makes_no_sense_is_followed(events: list[Event]) -> None:
    state, projector = blank(THREAD), Projector(OFFER)
    for number, event in enumerate(events, start=1):
        record = Record(seq=number, at_ms=number, thread_id=THREAD, event=event)
        before, state = state, apply(state, record)
        change = Change(record=record, before=before, after=state)
        assert follow(seen(before), projector.project(change)) == seen(state)


TOOLS = (
    CommandExecution(id=ItemId("i"), step=1, call_id=CallId("c"), command="yes", cwd="/w"),
    FileChange(id=ItemId("i"), step=1, call_id=CallId("c"), changes=()),
    McpToolCall(id=ItemId("i"), step=1, call_id=CallId("c"), server="s", tool="t"),
    ToolCall(id=ItemId("i"), step=1, call_id=CallId("c"), name="t", result=ToolResult(text="shown until it streams")),
    Plan(id=ItemId("i"), step=1, call_id=CallId("c")),
    Compaction(id=ItemId("i"), step=1),
    Reasoning(id=ItemId("i"), step=1, summary="short"),
    AgentMessage(id=ItemId("i"), step=1),
)
FLOODS = st.lists(st.tuples(st.sampled_from(["x", "é", "😀"]), st.integers(1, STEP)), max_size=12)


@given(st.sampled_from(TOOLS), FLOODS)
def test_a_flood_of_output_is_followed_and_bounded(item: Item, floods: list[tuple[str, int]]) -> None:
    turn = TurnId("turn")
    events: list[Event] = [TurnStarted(turn_id=turn), ItemStarted(turn_id=turn, item=item)]
    for stream in sorted(STREAMS[type(item)]):
        events += [ItemDelta(turn_id=turn, item_id=item.id, stream=stream, text=c * n) for c, n in floods]
    state, projector = blank(THREAD), Projector(OFFER)
    held = seen(state)
    for number, event in enumerate(events, start=1):
        record = Record(seq=number, at_ms=number, thread_id=THREAD, event=event)
        before, state = state, apply(state, record)
        held = follow(held, projector.project(Change(record=record, before=before, after=state)))
        assert held == seen(state)
    for message in held["messages"]:
        for call in message["toolCalls"]:
            assert len(call["output"].encode("utf-16-le")) // 2 <= CAP


@given(cut_histories(), cut_histories())
def test_the_difference_of_any_two_views_leads_from_one_to_the_other(one: list[Record], other: list[Record]) -> None:
    before, after = blank(THREAD), blank(THREAD)
    for record in one:
        before = apply(before, record)
    for record in other:
        after = apply(after, record)
    operations = list(diff(view(before, OFFER), view(after, OFFER)))
    assert follow(seen(before), operations) == seen(after)
