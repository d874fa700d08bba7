"""From the body of a request to the engine's words. Pure."""

from hames.domain.commands import ResolveApproval, StartTurn
from hames.domain.ids import ApprovalId, ThreadId
from hames.domain.items import TextInput
from hames.protocols.sse.messages import ApprovalAnswer, Prompt


def start_turn(prompt: Prompt, thread_id: ThreadId) -> StartTurn:
    return StartTurn(thread_id=thread_id, content=(TextInput(text=prompt.content),))


def resolve_approval(answer: ApprovalAnswer, approval_id: str) -> ResolveApproval:
    return ResolveApproval(
        approval_id=ApprovalId(approval_id), decision=answer.decision, note=answer.note, content=answer.content
    )
