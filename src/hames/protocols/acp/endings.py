"""How a turn and a question ended, in the words of ACP: stop reasons, errors and `_meta` of an answered question."""

from hames.domain.events import ApprovalResolved
from hames.domain.json import Json
from hames.domain.state import Turn
from hames.protocols.acp.messages.v1 import StopReason

APPROVAL = "_hames/approval"
"""The member of `_meta` of a tool call's update that says how the question about it ended."""


def stop_reason(turn: Turn) -> StopReason | None:
    """None: the turn failed."""
    if turn.status == "interrupted":
        return "cancelled"
    if turn.status == "failed":
        match turn.error.info if turn.error else "Other":
            case "StepLimitReached":
                return "max_turn_requests"
            case "Refusal":
                return "refusal"
            case "ReplyCutOff":
                return "max_tokens"
            case _:
                return None
    match turn.stop_reason:
        case "max_tokens" | "length":
            return "max_tokens"
        case "refusal" | "content_filter":
            return "refusal"
        case _:
            return "end_turn"


def turn_failure(turn: Turn) -> str:
    return turn.error.message if turn.error is not None else "the turn failed"


def approval_end(event: ApprovalResolved) -> dict[str, Json]:
    """How an approval ended, for clients that show it: it may have been answered elsewhere, or by nobody."""
    told: dict[str, Json] = {"id": event.approval_id, "decision": event.decision, "ended": event.how}
    if event.note:
        told["note"] = event.note
    if event.by is not None:
        told["by"] = str(event.by)
    return {APPROVAL: told}
