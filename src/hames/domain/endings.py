"""How a turn is closed in the log when it cannot go on: it was interrupted, it failed, or its process died."""

from hames.domain.approvals import is_about_running
from hames.domain.events import ApprovalResolved, Event, ItemCompleted, TurnEnded, TurnError
from hames.domain.items import closed, not_run
from hames.domain.state import ThreadState


def endings(state: ThreadState, why: str) -> list[Event]:
    """What closes a turn that can no longer go on: nothing stays open, nothing is lost."""
    turn = state.running
    if turn is None:
        return []
    waiting = {approval.item_id for approval in state.approvals if not is_about_running(approval.intent)}
    return [
        *(
            ApprovalResolved(turn_id=a.turn_id, approval_id=a.id, item_id=a.item_id, decision="void", ended="turnEnded")
            for a in state.approvals
        ),
        *(
            ItemCompleted(turn_id=turn.id, item=not_run(item) if item.id in waiting else closed(item, "interrupted"))
            for item in turn.items
            if item.id in turn.open
        ),
        TurnEnded(turn_id=turn.id, status="interrupted", error=TurnError(message=why)),
    ]
