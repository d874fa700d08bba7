"""What a sandbox runner says while it runs: named events, each with one JSON object; and what it is asked.

`run.started`, `assistant.delta`, `tool.started`, `run.completed` and `run.error` are the specification's, and so is
the prompt; the rest are additions that either side may leave out. `GET /capabilities` says which a runner has.
"""

from typing import Literal

from msgspec import field

from hames.domain.approvals import CallMcp, ChangeFiles, Elicit, RunCommand, UseTool
from hames.domain.commands import PastTurn, ReviewTarget
from hames.domain.events import Severity
from hames.domain.grants import AlwaysCovers
from hames.domain.items import Compaction, FileUpdate, ImageInput, McpToolCall, Plan, TextInput, WebSearch
from hames.domain.json import NOTHING, Json
from hames.domain.options import Personality, Selector, ThreadServer
from hames.domain.policy import AgentName, ApprovalPolicy, Decision, SandboxPolicy
from hames.domain.usage import Usage
from hames.domain.value import Value

ToolKind = Literal["command", "file", "tool"]

Detail = Plan | McpToolCall | WebSearch | Compaction
"""A call that has more to it than a name, input and output, as Hames keeps it."""

Capability = Literal[
    "model",
    "sandbox",
    "approvalPolicy",
    "agent",
    "options",
    "instructions",
    "images",
    "history",
    "cwd",
    "steer",
    "review",
    "compact",
    "outputSchema",
    "mcpServers",
]


class RunStarted(Value, rename="camel"):
    run_id: str
    prompt: str


class AssistantDelta(Value):
    text: str


class ReasoningDelta(Value, omit_defaults=True):
    """`stream`: the model's own reasoning, or the summary of it that some services send instead."""

    text: str
    stream: Literal["text", "summary"] = "text"


class MessageCompleted(Value):
    """A message or a piece of reasoning has ended: the next delta begins another one."""


class ToolStarted(Value):
    """`input` is the tool's arguments; a command is also in `command` and `cwd`.

    `detail` is the call as Hames keeps it, if it is a plan, a web search, a summary or a call of an MCP tool.
    """

    id: str
    name: str
    kind: ToolKind = "tool"
    input: Json = None
    command: str = ""
    cwd: str = ""
    changes: tuple[FileUpdate, ...] = ()
    detail: Detail | None = None


class ToolOutput(Value):
    id: str
    text: str


class ToolCompleted(Value, rename="camel"):
    id: str
    result: str
    exit_code: int | None = None
    duration_ms: int | None = None
    changes: tuple[FileUpdate, ...] = ()
    detail: Detail | None = None


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


class StepVoided(Value):
    """The reply broke off: what it said so far does not count, and it may be asked for again."""


class UsageReported(Value):
    """The tokens of one model call. `run.completed` has their sum."""

    model: str
    usage: Usage


class Notice(Value):
    """Something people may want to know. A `warning` is about something that does not work from now on."""

    source: str
    name: str
    message: str = ""
    severity: Severity = "info"


class RunCompleted(Value, rename="camel"):
    stop_reason: str = ""
    usage: Usage = Usage()


class RunError(Value, rename="camel", omit_defaults=True):
    """`info` is the kind of error: `Unauthorized`, `ContextWindowExceeded`, …; `httpStatus` is the model service's."""

    message: str
    info: str = field(default_factory=lambda: "Other")
    http_status: int | None = None


RunnerEvent = (
    RunStarted
    | AssistantDelta
    | ReasoningDelta
    | MessageCompleted
    | ToolStarted
    | ToolOutput
    | ToolCompleted
    | ToolFailed
    | ApprovalRequested
    | ApprovalResolved
    | StepVoided
    | UsageReported
    | Notice
    | RunCompleted
    | RunError
)

NAMES: dict[type[RunnerEvent], str] = {
    RunStarted: "run.started",
    AssistantDelta: "assistant.delta",
    ReasoningDelta: "reasoning.delta",
    MessageCompleted: "message.completed",
    ToolStarted: "tool.started",
    ToolOutput: "tool.output",
    ToolCompleted: "tool.completed",
    ToolFailed: "tool.failed",
    ApprovalRequested: "approval.requested",
    ApprovalResolved: "approval.resolved",
    StepVoided: "step.voided",
    UsageReported: "usage.reported",
    Notice: "notice",
    RunCompleted: "run.completed",
    RunError: "run.error",
}


class RunRequest(Value, rename="camel"):
    """The body of `POST /runs`. Runs with the same `thread` share a conversation. Without a policy the run does not
    ask.

    What is left out is as the runner was started, also if an earlier run of the thread said otherwise. `sandbox` may be
    as strict as the runner's own policy or stricter; more freedom is refused.
    """

    prompt: str = ""
    thread: str = ""
    approval_policy: ApprovalPolicy | None = None
    task: Literal["prompt", "review", "compact"] = "prompt"
    """`review` looks at `target` and changes nothing; `compact` summarizes the conversation."""
    target: ReviewTarget | None = None
    content: tuple[TextInput | ImageInput, ...] = ()
    """The prompt with its images, in order. It takes the place of `prompt`. Images are `data:` or web addresses."""
    turn: str = ""
    """The server's own name for this turn: `GET /threads/{thread}` lists it afterwards."""
    history: tuple[PastTurn, ...] = ()
    """Turns that this runner has not seen. They are added to the conversation before the run starts."""
    model: str = ""
    """One of the models that `GET /capabilities` lists."""
    sandbox: SandboxPolicy | None = None
    agent: AgentName = "code"
    options: dict[str, str] = {}
    instructions: str = ""
    """Added to the system prompt."""
    base_instructions: str = ""
    """Takes the place of the system prompt."""
    mode_instructions: str = ""
    """Added behind `instructions`, for as long as the collaboration mode of a client lasts."""
    personality: Personality = "none"
    mcp_servers: tuple[ThreadServer, ...] = ()
    """MCP servers of this thread alone. They start on the runner."""
    cwd: str = ""
    """A directory of the runner's machine."""
    output_schema: Json = NOTHING
    """The JSON Schema that the final answer has to match."""


class SteerRequest(Value):
    """The body of `POST /steer`: what the user says while the run `run` of a thread works."""

    thread: str
    run: str
    content: tuple[TextInput | ImageInput, ...]


class RunnerModel(Value, rename="camel"):
    id: str
    name: str
    description: str = ""
    context_window: int = 0
    images: bool = False
    reasoning: bool = False


class Capabilities(Value, rename="camel"):
    """The answer to `GET /capabilities`: which additions to the specification this runner has.

    A server must not send a member whose capability is missing: it would be dropped without a word.
    """

    can: tuple[Capability, ...]
    models: tuple[RunnerModel, ...]
    default_model: str
    selectors: tuple[Selector, ...] = ()
    sandbox: SandboxPolicy | None = None
    """The most freedom that a run can have."""
    approval_policy: ApprovalPolicy | None = None
    """Set: the runner was started with this policy, and no request changes it."""


class KnownThread(Value):
    """The answer to `GET /threads/{thread}`: the server's turns that this runner has seen, oldest first.

    `unnamed`: how many more there are whose requests had no `turn`.
    """

    turns: tuple[str, ...] = ()
    unnamed: int = 0


class ApprovalAnswer(Value):
    """The body of `POST /approvals/{id}`."""

    decision: Literal["once", "always", "reject"]
    note: str = ""
    content: Json = None
    """A form filled in, where an MCP server asks for one."""
