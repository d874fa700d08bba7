"""What sync carries: the one state object, the messages around it, and the commands that come back.

Everything beyond `status`, `messages` and `error` is an extension of ours (docs/sync-extensions.md). Every field
is always sent: there is no operation that takes a member away, so none may come and go.
"""

from typing import Literal

from msgspec import UNSET, UnsetType, field

from hames.domain.actors import Actor
from hames.domain.events import Severity
from hames.domain.items import Citation, FileUpdate, PlanEntry
from hames.domain.json import Json
from hames.domain.policy import AgentName, ApprovalPolicy, SandboxPolicy
from hames.domain.value import Value
from hames.protocols.approvals import ApprovalAnswer, Question
from hames.protocols.instructions import Instructions

RunStatus = Literal["idle", "running", "error"]
MessageStatus = Literal["pending", "streaming", "complete", "error"]
ToolStatus = Literal["running", "complete", "error"]
ToolKind = Literal["command", "file", "mcp", "search", "plan", "compaction", "artifact", "tool"]
ToolOutcome = Literal["running", "completed", "failed", "declined", "interrupted", "skipped"]


class Attachment(Value):
    """`url`: the path of an image, empty for a file. `upload`: the upload id, to attach the image to another prompt."""

    kind: Literal["image", "file"]
    name: str
    url: str = ""
    upload: str = ""


class ToolCall(Value, rename="camel"):
    """If `output_truncated`, the beginning of `output` is missing. `pictures`: how many the tool returned. `reason`:
    why it was refused, failed or skipped."""

    id: str
    name: str
    status: ToolStatus
    kind: ToolKind
    outcome: ToolOutcome
    title: str
    input: Json = None
    output: str = ""
    output_truncated: bool = False
    exit_code: int | None = None
    duration_ms: int | None = None
    changes: tuple[FileUpdate, ...] = ()
    pictures: int = 0
    reason: str = ""
    decision: Literal["", "once", "always", "reject", "void"] = ""
    """What was answered when somebody was asked about it."""
    decided_by: Actor | None = None
    undone: tuple[str, ...] = ()
    """The files of `changes` that an undo took back since."""


class Message(Value, rename="camel"):
    id: str
    role: Literal["user", "assistant"]
    content: str
    status: MessageStatus
    tool_calls: tuple[ToolCall, ...] = ()
    created_at: int = 0
    turn_id: str = ""
    reasoning: str = ""
    reasoning_ms: int | None = None
    """How long it thought, once that is known."""
    stop_reason: str = ""
    error: str = ""
    attachments: tuple[Attachment, ...] = ()
    citations: tuple[Citation, ...] = ()
    """The sources that `content` names."""
    by: Actor | None = None
    """Who wrote a prompt; of the message that a turn ends with: who interrupted it."""
    undone: tuple[str, ...] = ()
    """Of the message that a turn ends with: the files, by absolute path, of which the turn's changes are taken back."""


class ThreadHead(Value, rename="camel"):
    id: str
    title: str
    preview: str
    cwd: str
    model: str
    archived: bool
    forked_from: str
    created_at: int
    updated_at: int
    """Moves when a turn starts or ends, so that a token changes nothing here."""
    notice: str = ""
    """What a client should tell its user about the thread, where there is something to tell."""
    notes: tuple[str, ...] = ()
    """The project notes that the model is shown, by path."""


class Approval(Question, rename="camel"):
    """Shows exactly what would happen. Members of other kinds are empty."""

    asked_at: int = 0
    """When it was asked first, in milliseconds: a question outlives the process that asked it."""


class Plan(Value):
    explanation: str
    entries: tuple[PlanEntry, ...]


class Usage(Value, rename="camel"):
    """Totals of the whole thread. `context_tokens` is the size of the context in the last model call."""

    input_tokens: int
    output_tokens: int
    thinking_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    context_tokens: int
    context_window: int
    cost: float | None


class QueuedPrompt(Value):
    id: str
    prompt: str
    attachments: tuple[Attachment, ...] = ()
    by: Actor | None = None


class Settings(Value, rename="camel"):
    model: str
    approval_policy: ApprovalPolicy
    sandbox: SandboxPolicy
    agent: AgentName
    options: dict[str, str]


class Choice(Value):
    id: str
    name: str
    description: str


class ConfigOption(Value):
    id: str
    name: str
    description: str
    group: str
    default: str
    value: str
    choices: tuple[Choice, ...]


class Model(Value, rename="camel"):
    """`problem` says what to configure before the model can be used."""

    id: str
    name: str
    provider: str
    description: str
    context_window: int
    images: bool
    reasoning: bool
    available: bool
    problem: str


class Notice(Value, rename="camel"):
    """A warning: something does not work from now on; or, as long as it lasts, which server is waited for. `message`
    says what, why, and what to do."""

    severity: Severity
    source: str
    name: str
    message: str
    turn_id: str
    at: int


class State(Value, rename="camel"):
    status: RunStatus
    messages: tuple[Message, ...]
    error: str
    error_info: str
    thread: ThreadHead
    approvals: tuple[Approval, ...]
    plan: Plan | None
    usage: Usage
    queue: tuple[QueuedPrompt, ...]
    queue_held: bool
    settings: Settings
    selectors: tuple[ConfigOption, ...]
    models: tuple[Model, ...]
    notices: tuple[Notice, ...] = ()


# From the server


class Set(Value, tag_field="type", tag="set"):
    """Replaces the value at `path`. The index right after the last element of a list appends."""

    path: tuple[str, ...]
    value: Json


class AppendText(Value, tag_field="type", tag="append-text"):
    path: tuple[str, ...]
    value: str


Operation = Set | AppendText


class StateMessage(Value, tag_field="type", tag="state"):
    """`rev` is the log position of the last record that it includes."""

    state: State
    rev: int


class DeltaMessage(Value, tag_field="type", tag="delta"):
    operations: tuple[Operation, ...]
    rev: int


class ErrorMessage(Value, tag_field="type", tag="error", rename="camel"):
    """About one message of this client; other clients do not get it."""

    message: str
    submit_id: str | UnsetType = UNSET


# From the client


class ImageAttachment(Value, tag_field="type", tag="image"):
    """`id` is the id that `POST /uploads` returned."""

    id: str


class FileAttachment(Value, tag_field="type", tag="file"):
    path: str


AttachmentInput = ImageAttachment | FileAttachment


class Submit(Value, tag_field="type", tag="submit"):
    """A second submit with the same `id` does nothing."""

    prompt: str
    id: str | None = None
    attachments: tuple[AttachmentInput, ...] = ()
    output_schema: dict[str, Json] | None = field(name="outputSchema", default=None)
    """The JSON Schema that the final answer has to match."""


class Cancel(Value, tag_field="type", tag="cancel"):
    """Stops the run and pauses the queue; while idle, empties a paused queue."""


class Steer(Value, tag_field="type", tag="steer"):
    prompt: str
    id: str | None = None
    attachments: tuple[AttachmentInput, ...] = ()


class Approve(ApprovalAnswer, tag_field="type", tag="approve", kw_only=True):
    """`content` is the completed form of an elicitation, as its `requestedSchema` describes."""

    id: str


class Configure(Instructions, tag_field="type", tag="configure", rename="camel"):
    model: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: SandboxPolicy | None = None
    agent: AgentName | None = None
    options: dict[str, str] | None = None


class Dequeue(Value, tag_field="type", tag="dequeue"):
    id: str


class Rename(Value, tag_field="type", tag="rename"):
    title: str


class Compact(Value, tag_field="type", tag="compact"):
    pass


class ReviewTarget(Value):
    kind: Literal["uncommittedChanges", "baseBranch", "commit", "custom"]
    text: str = ""


class Review(Value, tag_field="type", tag="review"):
    target: ReviewTarget


SyncCommand = Submit | Cancel | Steer | Approve | Configure | Dequeue | Rename | Compact | Review
