"""The laws of the fold: a log means one thing, however it is read."""

from collections import Counter
from typing import get_args

import hypothesis
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hames.domain.endings import endings
from hames.domain.events import (
    ApprovalResolved,
    Event,
    ItemCompleted,
    ItemDelta,
    ItemStarted,
    Noticed,
    Record,
    TurnEnded,
    TurnStarted,
)
from hames.domain.items import STREAMS, Stream
from hames.domain.policy import Grant
from hames.domain.state import Change, apply, blank
from hames.testing.generators import story
from hames.testing.generators.histories import (
    THREAD,
    changes,
    check_each_item_once,
    cut_histories,
    folded,
    histories,
    kept,
)
from hames.testing.generators.values import values


@given(histories())
def test_a_log_without_deltas_folds_to_the_same_state(history: list[Record]) -> None:
    assert folded(r for r in history if not isinstance(r.event, ItemDelta)) == folded(history)


@given(cut_histories())
def test_replaying_the_log_gives_the_live_state(history: list[Record]) -> None:
    log = b"\n".join(msgspec.json.encode(record) for record in kept(history))
    replayed = [msgspec.json.decode(line, type=Record) for line in log.split(b"\n")]
    assert folded(replayed) == folded(history)


@given(cut_histories())
def test_a_bundle_means_what_its_deltas_mean(history: list[Record]) -> None:
    assert folded(kept(history)) == folded(history)


@given(cut_histories())
def test_the_log_has_no_gap_and_no_repeat(history: list[Record]) -> None:
    assert [record.seq for record in kept(history)] == list(range(1, history[-1].seq + 1))


@given(histories(max_turns=8))
def test_every_grant_that_was_given_counts_from_then_on_and_once(history: list[Record]) -> None:
    given_so_far: list[Grant] = []
    for change in changes(history):
        event = change.record.event
        if isinstance(event, ApprovalResolved) and event.grant is not None and event.grant not in given_so_far:
            given_so_far.append(event.grant)
        assert list(change.after.grants) == given_so_far


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_there_is_a_history_with_every_event(kind: type[Event]) -> None:
    """A law proves nothing about an event that no history has."""
    settings = hypothesis.settings(max_examples=5000, database=None, phases=[hypothesis.Phase.generate])
    found = hypothesis.find(
        histories(), lambda history: any(isinstance(record.event, kind) for record in history), settings=settings
    )
    assert found


def test_an_event_that_the_generator_does_not_know_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "DRAWN", story.DRAWN - {Noticed})
    with pytest.raises(NotImplementedError, match="Noticed"):
        hypothesis.find(histories(), lambda _: True)


names = st.sampled_from(["a", "b", "c"])
"""Few enough that arbitrary events speak of the same turns and items."""


@given(st.lists(values(Record, words=names), max_size=30))
def test_any_record_can_be_applied_to_any_state(records: list[Record]) -> None:
    state = blank(THREAD)
    for record in records:
        state = apply(state, record)
        assert state.seq == record.seq


@given(cut_histories(), st.data())
@settings(max_examples=settings().max_examples // 3)
def test_nonsense_in_a_log_does_not_keep_it_from_being_read(history: list[Record], data: st.DataObject) -> None:
    state = folded(history)
    there = [name for turn in state.turns for name in (turn.id, *(item.id for item in turn.items))]
    nonsense = values(Event, words=st.sampled_from([*there, "nowhere"]))
    for event in data.draw(st.lists(nonsense, max_size=10)):
        record = Record(seq=state.seq + 1, at_ms=0, thread_id=THREAD, event=event)
        state = apply(state, record)
        assert state.seq == record.seq


@given(histories(), st.sampled_from(get_args(Stream)))
def test_a_stream_that_an_item_does_not_have_changes_nothing(history: list[Record], stream: Stream) -> None:
    state = folded(history)
    for turn in state.turns[-1:]:
        for item in turn.items:
            delta = ItemDelta(turn_id=turn.id, item_id=item.id, stream=stream, text="more")
            record = Record(seq=state.seq, at_ms=state.updated_at_ms, thread_id=THREAD, event=delta)
            assert (apply(state, record) == state) == (stream not in STREAMS[type(item)])


@given(cut_histories())
def test_the_state_before_a_change_is_left_alone(history: list[Record]) -> None:
    for change in changes(history):
        before = msgspec.json.encode(change.before)
        apply(change.before, change.record)
        assert msgspec.json.encode(change.before) == before


@given(cut_histories())
def test_what_did_not_change_is_shared(history: list[Record]) -> None:
    for change in changes(history):
        earlier = zip(change.before.turns[:-1], change.after.turns, strict=False)
        assert all(old is new for old, new in earlier)
        if isinstance(change.record.event, ItemDelta):
            untouched = change.record.event.item_id
            for old, new in zip(change.before.turns[-1].items, change.after.turns[-1].items, strict=True):
                assert old is new or old.id == untouched


@given(cut_histories())
def test_items_stand_in_the_order_they_started(history: list[Record]) -> None:
    started = [record.event.item.id for record in history if isinstance(record.event, ItemStarted)]
    assert [item.id for turn in folded(history).turns for item in turn.items] == started


@given(histories())
def test_nothing_is_left_open(history: list[Record]) -> None:
    state = folded(history)
    assert state.running is None
    assert state.approvals == ()
    assert all(item.status != "running" for turn in state.turns for item in turn.items)
    assert endings(state, "stopped") == []


@given(histories())
def test_a_history_cut_anywhere_can_be_ended(history: list[Record]) -> None:
    for change in changes(history):
        state = change.after
        for event in endings(state, "stopped"):
            state = apply(state, Record(seq=state.seq + 1, at_ms=0, thread_id=THREAD, event=event))
        assert state.running is None
        assert state.approvals == ()
        assert all(item.status != "running" for turn in state.turns for item in turn.items)


@given(histories())
def test_every_turn_and_every_item_starts_once_and_ends_once(history: list[Record]) -> None:
    events = [record.event for record in history]
    turns = [event.turn_id for event in events if isinstance(event, TurnStarted)]
    assert Counter(turns) == Counter(event.turn_id for event in events if isinstance(event, TurnEnded))
    assert len(set(turns)) == len(turns)

    check_each_item_once(
        history,
        lambda change: [change.record.event],
        started=lambda event: [event.item.id] if isinstance(event, ItemStarted) else [],
        completed=lambda event: [event.item.id] if isinstance(event, ItemCompleted) else [],
    )


@given(histories())
def test_completing_an_item_again_changes_nothing(history: list[Record]) -> None:
    state = folded(history)
    for turn in state.turns[-1:]:
        for item in turn.items:
            again = ItemCompleted(turn_id=turn.id, item=item)
            record = Record(seq=state.seq, at_ms=state.updated_at_ms, thread_id=THREAD, event=again)
            assert apply(state, record) == state


@given(cut_histories())
def test_a_late_joiner_who_has_the_state_needs_nothing_else(history: list[Record]) -> None:
    """Snapshot, then changes: from any position the rest leads to the same end."""
    told = list(changes(history))
    for position in range(0, len(told), max(1, len(told) // 4)):
        joined: list[Change] = list(changes(history[position:], start=told[position].before))
        assert joined[-1].after == told[-1].after
