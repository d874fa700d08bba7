"""What HTTP + SSE carries: whole blocks as events, and the bodies of the requests.

`approval`, `approval_resolved`, `tool_skipped` and `notice` are additions of ours; a client that does not know the
first two loses only the right to answer. Timestamps are Unix seconds, as in the specification's own examples.
"""

from typing import Literal

from msgspec import UNSET, UnsetType

from hames.domain.actors import Actor
from hames.domain.events import Severity
from hames.domain.items import Citation
from hames.domain.json import Json
from hames.domain.policy import ApprovalEnd
from hames.domain.value import Value
from hames.protocols.approvals import Question
from hames.protocols.instructions import Instructions

RunState = Literal["thinking", "running_tool", "idle"]


class User(Value, tag_field="type", tag="user"):
    """`by` is an addition: who wrote it, left out where the log does not say."""

    content: str
    timestamp: int
    by: Actor | UnsetType = UNSET


class Text(Value, tag_field="type", tag="text"):
    """`citations` is an addition: the sources that the text names, left out where there are none."""

    content: str
    timestamp: int
    citations: tuple[Citation, ...] | UnsetType = UNSET


class ToolCall(Value, tag_field="type", tag="tool_call"):
    id: str
    name: str
    input: Json
    timestamp: int


class ToolResult(Value, tag_field="type", tag="tool_result", rename="camel"):
    id: str
    result: str
    is_error: bool
    timestamp: int


class ToolSkipped(Value, tag_field="type", tag="tool_skipped"):
    """A call that was not executed because an earlier one of the same reply failed. It gets no `tool_result`."""

    id: str
    reason: str
    timestamp: int


class Reasoning(Value, tag_field="type", tag="reasoning"):
    content: str
    timestamp: int


class Status(Value, tag_field="type", tag="status"):
    """`outcome` is an addition: with `idle`, how the turn ended."""

    state: RunState
    message: str
    timestamp: int
    outcome: str = ""


class Notice(Value, tag_field="type", tag="notice"):
    """A warning: something does not work from now on. `message` says what, why, and what to do."""

    message: str
    severity: Severity
    source: str
    name: str
    timestamp: int


class Approval(Question, tag_field="type", tag="approval", rename="camel", kw_only=True):
    """A question that shows exactly what would happen. Answer with `POST /approvals/{id}`."""

    timestamp: int


class ApprovalResolved(Value, tag_field="type", tag="approval_resolved"):
    """`ended` says how: `answered`, `timedOut`, `noClient`, `withdrawn`, or `turnEnded`."""

    id: str
    decision: str
    timestamp: int
    ended: ApprovalEnd = "answered"
    by: Actor | UnsetType = UNSET
    """Who answered."""


SseEvent = User | Text | ToolCall | ToolResult | ToolSkipped | Reasoning | Status | Notice | Approval | ApprovalResolved


class Prompt(Instructions, rename="camel", kw_only=True):
    """The body of `POST /prompt`."""

    content: str
    output_schema: dict[str, Json] | None = None
    """The JSON Schema that the final answer has to match."""
