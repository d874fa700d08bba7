"""What lies between two states of a thread: everything, once, to the character."""

from hypothesis import given
from hypothesis import strategies as st

from hames.core.history import changes_between
from hames.domain.events import ItemDelta, Record
from hames.domain.state import apply, blank
from hames.testing.generators.histories import THREAD, cut_histories, kept


@given(cut_histories(), st.data())
def test_the_changes_between_any_two_states_lead_from_one_to_the_other(
    history: list[Record], data: st.DataObject
) -> None:
    states = [blank(THREAD)]
    for record in history:
        states.append(apply(states[-1], record))
    start = data.draw(st.integers(0, len(history)))
    end = data.draw(st.integers(start, len(history)))
    written = data.draw(
        st.integers(end, len(history))
    )  # the log may be ahead of the later state, and may lack a bundle
    log = kept(history[:written])
    if log and isinstance(log[-1].event, ItemDelta) and data.draw(st.booleans()):
        log.pop()

    changes = list(changes_between(log, states[start], states[end]))

    told = states[start]
    for change in changes:
        assert change.before == told
        told = change.after
    assert told == states[end]
    assert _said(change.record for change in changes) == _said(history[start:end])
    assert [change.record.event for change in changes if not isinstance(change.record.event, ItemDelta)] == [
        record.event for record in history[start:end] if not isinstance(record.event, ItemDelta)
    ]


def _said(records) -> dict[tuple[str, str], str]:  # type: ignore[no-untyped-def]
    texts: dict[tuple[str, str], str] = {}
    for record in records:
        if isinstance(event := record.event, ItemDelta) and event.text:
            texts[event.item_id, event.stream] = texts.get((event.item_id, event.stream), "") + event.text
    return texts
