"""From the body of a request to commands. Raises `InvalidCommand` and nothing else."""

from hames.domain.commands import ResolveApproval, StartTurn
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ApprovalId, ThreadId
from hames.domain.items import TextInput
from hames.domain.options import Overrides
from hames.protocols.body import decode_body
from hames.protocols.runner.messages import ApprovalAnswer, RunRequest


def decode_run(body: bytes) -> RunRequest:
    run = decode_body(body, RunRequest)
    if not run.prompt.strip():
        raise InvalidCommand("the prompt is empty")
    return run


def start_turn(run: RunRequest, thread_id: ThreadId, *, asks: bool) -> StartTurn:
    """`asks`: whoever starts the run says whether it is asked; nothing said means that it is not."""
    policy = run.approval_policy or "never" if asks else None
    return StartTurn(
        thread_id=thread_id,
        content=(TextInput(text=run.prompt),),
        overrides=Overrides(approval_policy=policy),
    )


def resolve_approval(body: bytes, approval_id: str) -> ResolveApproval:
    answer = decode_body(body, ApprovalAnswer)
    return ResolveApproval(
        approval_id=ApprovalId(approval_id), decision=answer.decision, note=answer.note, content=answer.content
    )
