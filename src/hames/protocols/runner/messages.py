"""What a sandbox runner says while it runs: named events, each with one JSON object.

`run.started`, `assistant.delta`, `tool.started`, `run.completed` and `run.error` are the specification's; the
rest are additions that a reader may skip.
"""

from typing import Literal

from hames.domain.approvals import CallMcp, ChangeFiles, Elicit, RunCommand, UseTool
from hames.domain.grants import AlwaysCovers
from hames.domain.items import FileUpdate
from hames.domain.json import Json
from hames.domain.policy import ApprovalPolicy, Decision
from hames.domain.usage import Usage
from hames.domain.value import Value

ToolKind = Literal["command", "file", "tool"]


class RunStarted(Value, rename="camel"):
    run_id: str
    prompt: str


class AssistantDelta(Value):
    text: str


class ReasoningDelta(Value):
    text: str


class ToolStarted(Value):
    """`input` is the tool's arguments; a command is also in `command` and `cwd`."""

    id: str
    name: str
    kind: ToolKind = "tool"
    input: Json = None
    command: str = ""
    cwd: str = ""
    changes: tuple[FileUpdate, ...] = ()


class ToolOutput(Value):
    id: str
    text: str


class ToolCompleted(Value, rename="camel"):
    id: str
    result: str
    exit_code: int | None = None
    duration_ms: int | None = None
    changes: tuple[FileUpdate, ...] = ()


class ToolFailed(Value, rename="camel"):
    id: str
    error: str
    outcome: Literal["failed", "declined", "interrupted", "skipped"] = "failed"
    exit_code: int | None = None
    duration_ms: int | None = None


class ApprovalRequested(Value, rename="camel"):
    """The tool call `item` waits for `POST /approvals/{id}`. `intent` is exactly what it would do."""

    id: str
    item: str
    intent: RunCommand | ChangeFiles | CallMcp | UseTool | Elicit
    reason: str = ""
    always_covers: AlwaysCovers | None = None
    """What `always` would allow; null: nothing."""


class ApprovalResolved(Value):
    id: str
    decision: Decision


class RunCompleted(Value, rename="camel"):
    stop_reason: str = ""
    usage: Usage = Usage()


class RunError(Value):
    message: str
    info: str = "Other"


RunnerEvent = (
    RunStarted
    | AssistantDelta
    | ReasoningDelta
    | ToolStarted
    | ToolOutput
    | ToolCompleted
    | ToolFailed
    | ApprovalRequested
    | ApprovalResolved
    | RunCompleted
    | RunError
)

NAMES: dict[type[RunnerEvent], str] = {
    RunStarted: "run.started",
    AssistantDelta: "assistant.delta",
    ReasoningDelta: "reasoning.delta",
    ToolStarted: "tool.started",
    ToolOutput: "tool.output",
    ToolCompleted: "tool.completed",
    ToolFailed: "tool.failed",
    ApprovalRequested: "approval.requested",
    ApprovalResolved: "approval.resolved",
    RunCompleted: "run.completed",
    RunError: "run.error",
}


class RunRequest(Value, rename="camel"):
    """The body of `POST /runs`. Runs with the same `thread` share a conversation. Without a policy the run does not
    ask."""

    prompt: str
    thread: str = ""
    approval_policy: ApprovalPolicy | None = None


class ApprovalAnswer(Value):
    """The body of `POST /approvals/{id}`."""

    decision: Literal["once", "always", "reject"]
    note: str = ""
    content: Json = None
    """A form filled in, where an MCP server asks for one."""
