"""Decodes the bodies of HTTP + SSE requests into commands. Raises `InvalidCommand` and nothing else."""

from hames.domain.commands import ResolveApproval, StartTurn
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ApprovalId, ThreadId
from hames.domain.items import TextInput
from hames.domain.json import NOTHING
from hames.domain.options import Overrides
from hames.protocols.approvals import ApprovalAnswer
from hames.protocols.body import decode_body
from hames.protocols.instructions import with_instructions
from hames.protocols.sse.messages import Prompt


def decode_prompt(body: bytes) -> Prompt:
    prompt = decode_body(body, Prompt)
    if not prompt.content.strip():
        raise InvalidCommand("the prompt is empty")
    return prompt


def start_turn(prompt: Prompt, thread_id: ThreadId) -> StartTurn:
    overrides = with_instructions(Overrides(), prompt)
    return StartTurn(
        thread_id=thread_id,
        content=(TextInput(text=prompt.content),),
        overrides=overrides,
        output_schema=NOTHING if prompt.output_schema is None else prompt.output_schema,
    )


def resolve_approval(body: bytes, approval_id: str) -> ResolveApproval:
    answer = decode_body(body, ApprovalAnswer)
    return ResolveApproval(
        approval_id=ApprovalId(approval_id),
        decision=answer.decision,
        note=answer.note,
        content=answer.content,
        scope=answer.scope,
    )
