"""What an MCP client answers: decisions about approvals, and calls that are sent again with them."""

from hames.domain.approvals import Approval, Elicit
from hames.domain.commands import ResolveApproval
from hames.domain.errors import InvalidCommand
from hames.domain.forms import misfit
from hames.domain.ids import ApprovalId, ThreadId, TurnId
from hames.domain.json import Json


def read_retry(params: Json) -> tuple[ThreadId, TurnId, dict[str, Json]] | None:
    """The thread and turn that a repeated call goes on with, and the answers in it. Raises `InvalidCommand`."""
    state, answers = params.get("requestState"), params.get("inputResponses")
    if state is None:
        return None
    thread_id, _, turn_id = state.partition(" ") if isinstance(state, str) else ("", "", "")
    if not thread_id or not turn_id or not isinstance(answers, dict | None):
        raise InvalidCommand("requestState or inputResponses is not what was sent with input_required")
    return ThreadId(thread_id), TurnId(turn_id), answers or {}


def read_decision(approval_id: ApprovalId, approval: Approval | None, answer: Json) -> ResolveApproval:
    """Only what was offered agrees: an error, another word, another type is a rejection."""
    reject = ResolveApproval(approval_id=approval_id, decision="reject")
    match answer:
        case {"action": "accept"} if approval is not None and isinstance(approval.intent, Elicit):
            content = answer.get("content")
            if complaint := misfit(approval.intent, content):
                note = f"declined: the form is not valid: {complaint}"
                return ResolveApproval(approval_id=approval_id, decision="reject", note=note)
            return ResolveApproval(approval_id=approval_id, decision="once", content=content)
        case {"action": "accept", "content": {"decision": "once" | "always" as decision}}:
            return ResolveApproval(approval_id=approval_id, decision=decision)
        case {"action": "error"}:
            note = "rejected: the client could not ask the user"
            return ResolveApproval(approval_id=approval_id, decision="reject", note=note)
        case _:
            return reject
