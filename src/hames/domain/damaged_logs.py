"""What a log means from which lines are missing: whatever they left open is closed where that shows. Pure.

A damaged line costs what it said and nothing else: no turn runs for ever, no question is asked again at every start.
It may have taken a permission back, so what was allowed before it does not hold behind it (see `withdrawn`).
"""

from collections.abc import Collection, Iterable

from hames.domain import events
from hames.domain.authority import withdrawn
from hames.domain.endings import endings
from hames.domain.state import ThreadState, apply, blank

END_MISSING = "the end of this turn is missing: the log was damaged there"


def close_what_is_open(records: Iterable[events.Record], gaps: Collection[int] = ()) -> list[events.Record]:
    """The records, and between them those that must have been there. Each of these has the number before it.

    `gaps` are the numbers of the records before which lines are missing.
    """
    found: list[events.Record] = []
    state: ThreadState | None = None
    for record in records:
        state = state or blank(record.thread_id)
        lost = [withdrawn(state.settings)] if record.seq in gaps and state.format else []
        for event in (*lost, *_missing(state, record.event)):
            seq = found[-1].seq if found else record.seq
            added = events.Record(seq=seq, at_ms=record.at_ms, thread_id=record.thread_id, event=event)
            state = apply(state, added)
            found.append(added)
        state = apply(state, record)
        found.append(record)
    return found


def _missing(state: ThreadState, event: events.Event) -> list[events.Event]:
    """What must have happened before this event."""
    match event:
        case events.TurnStarted():
            return endings(state, END_MISSING)
        case (
            events.ItemStarted()
            | events.ItemDelta()
            | events.ItemCompleted()
            | events.ToolCalled()
            | events.StepVoided()
            | events.UsageReported()
            | events.TurnEnded()
        ):
            turn_id = event.turn_id
        case events.ApprovalRequested(approval=approval):
            turn_id = approval.turn_id
        case _:
            return []
    if state.turn(turn_id) is None:
        return [*endings(state, END_MISSING), events.TurnStarted(turn_id=turn_id)]
    if state.running is None or state.running.id != turn_id:
        return []
    if isinstance(event, events.TurnEnded):
        return endings(state, END_MISSING)[:-1]
    if isinstance(event, events.ItemCompleted):  # it is over, so it was decided
        decision = "reject" if event.item.status == "declined" else "once"
        return [
            events.ApprovalResolved(turn_id=turn_id, approval_id=asked.id, item_id=asked.item_id, decision=decision)
            for asked in state.approvals
            if asked.item_id == event.item.id
        ]
    return []
