"""Every message of the protocol, as it stands on the wire.

Times are milliseconds since 1970. A member that may be left out is never null. Members and variants
beyond the specification's own are additive: a client that ignores what it does not know misses nothing it was promised.
"""

from typing import Any, Literal

from msgspec import UNSET, UnsetType, field

from hames.domain.actors import Actor
from hames.domain.errors import ErrorInfo
from hames.domain.grants import AlwaysCovers
from hames.domain.items import Citation, ItemStatus, PlanEntry
from hames.domain.json import Json
from hames.domain.policy import AgentName, AlwaysScope, ApprovalEnd, Decision
from hames.domain.value import Value
from hames.protocols.bootstrap.undo import ThreadUndoParams, ThreadUndoResult
from hames.protocols.instructions import Instructions
from hames.protocols.schema import Published

TurnStatus = Literal["running", "completed", "cancelled", "error"]

# What a client sends.


class ClientInfo(Value):
    name: str
    version: str | UnsetType = UNSET


class InitializeParams(Value, rename="camel"):
    client_info: ClientInfo | UnsetType = UNSET


class ThreadCreateParams(Instructions, rename="camel"):
    """`directory` must be absolute and exist. The default is the server's working directory."""

    title: str | UnsetType = UNSET
    directory: str | UnsetType = UNSET


class ThreadListParams(Value):
    pass


class ThreadGetParams(Value, rename="camel"):
    thread_id: str


class TextPart(Value, tag_field="type", tag="text"):
    text: str


class ImagePart(Value, tag_field="type", tag="image"):
    """By `url` (`https:`, `http:` or `data:image/`), or by the `path` of a file. Exactly one of them."""

    url: str | UnsetType = UNSET
    path: str | UnsetType = UNSET


class FilePart(Value, tag_field="type", tag="file"):
    """A file that the prompt refers to; relative paths start at the thread's directory."""

    path: str


InputPart = TextPart | ImagePart | FilePart


class Model(Value):
    provider_id: str = field(name="providerID")
    model_id: str = field(name="modelID")


class TurnStartParams(Instructions, rename="camel", kw_only=True):
    """`model`, `agent` and the instructions apply to this turn and all later ones."""

    thread_id: str
    input: tuple[InputPart, ...]
    model: Model | UnsetType = UNSET
    agent: AgentName | UnsetType = UNSET
    output_schema: dict[str, Json] | UnsetType = UNSET
    """The JSON Schema that the final answer has to match."""


class TurnCancelParams(Value, rename="camel"):
    thread_id: str


class ApprovalRespondParams(Value, rename="camel"):
    """`content` is the completed form of an `elicitation`, as its `requestedSchema` describes."""

    request_id: str
    decision: Literal["once", "always", "reject"]
    content: Json = None
    scope: AlwaysScope = "thread"
    """How far `always` goes: `project` keeps the rule that was offered."""


# What things look like.


class ThreadTime(Value):
    created: int
    updated: int


class Thread(Value, rename="camel"):
    """`notice` is a sentence about the thread that a client should show to its user, if there is one. `archived` is
    there, and true, for an archived thread."""

    thread_id: str
    title: str
    directory: str
    time: ThreadTime
    notice: str | UnsetType = UNSET
    archived: bool | UnsetType = UNSET


class TurnTime(Value):
    started: int
    completed: int | UnsetType = UNSET


class Turn(Value, rename="camel"):
    turn_id: str
    thread_id: str
    status: TurnStatus
    time: TurnTime


class UserMessageData(Value):
    """`text` is the text parts, joined by blank lines. `by` is who wrote it, left out where the log does not say."""

    content: tuple[InputPart, ...]
    text: str
    by: Actor | UnsetType = UNSET


class AssistantMessageData(Value):
    """`kind` distinguishes the answer, the reasoning, and a summary that replaces older history for the model."""

    kind: Literal["text", "reasoning", "compaction"]
    text: str
    status: ItemStatus
    summary: str | UnsetType = UNSET
    citations: tuple[Citation, ...] | UnsetType = UNSET
    """The sources that the text names."""


class FileChange(Value):
    """`path` is absolute, `diff` is unified."""

    path: str
    kind: Literal["add", "modify", "delete"]
    diff: str


class ToolExecData(Value, rename="camel"):
    """`result` is the result of a tool that streamed no output; streamed output is in the `tool_log`.

    `reason` says why it was refused, failed or skipped.
    """

    tool: str
    input: dict[str, Any]
    status: ItemStatus
    exit_code: int | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET
    changes: tuple[FileChange, ...] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    entries: tuple[PlanEntry, ...] | UnsetType = UNSET
    result: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class ToolLogData(Value, rename="camel"):
    """`toolItemId` is the `tool_exec` whose output this is."""

    tool_item_id: str
    tool: str
    output: str


class ApprovalData(Value, rename="camel"):
    """The question, and after it was answered the `decision`. `void`: the turn ended before anyone answered."""

    request_id: str
    tool_item_id: str
    tool: str
    status: Literal["pending", "resolved"]
    reason: str
    command: str | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    host: str | UnsetType = UNSET
    """The question is whether the command may connect to this host and port."""
    changes: tuple[FileChange, ...] | UnsetType = UNSET
    input: Json | UnsetType = UNSET
    always_covers: AlwaysCovers | UnsetType = UNSET
    project_covers: AlwaysCovers | UnsetType = UNSET
    decision: Decision | UnsetType = UNSET
    ended: ApprovalEnd | UnsetType = UNSET
    by: Actor | UnsetType = UNSET
    """Who answered."""
    """How it was resolved: `answered`, `timedOut`, `noClient`, `withdrawn`, or `turnEnded`."""


class ArtifactData(Value, rename="camel"):
    path: str
    title: str
    media_type: str
    status: ItemStatus
    reason: str | UnsetType = UNSET


class _Item(Value, tag_field="type", rename="camel"):
    item_id: str
    thread_id: str
    turn_id: str


class UserMessage(_Item, tag="user_message"):
    data: UserMessageData


class AssistantMessage(_Item, tag="assistant_message"):
    data: AssistantMessageData


class ToolExec(_Item, tag="tool_exec"):
    data: ToolExecData


class ToolLog(_Item, tag="tool_log"):
    data: ToolLogData


class ApprovalItem(_Item, tag="approval"):
    data: ApprovalData


class Artifact(_Item, tag="artifact"):
    data: ArtifactData


Item = UserMessage | AssistantMessage | ToolExec | ToolLog | ApprovalItem | Artifact

# What the server answers.


class Capabilities(Value):
    threads: bool
    turns: bool
    approvals: bool
    streaming: bool
    persistence: bool


class InitializeResult(Value):
    version: str
    capabilities: Capabilities


class ThreadCreateResult(Value):
    thread: Thread


class ThreadListResult(Value):
    """Newest first."""

    threads: tuple[Thread, ...]


class ThreadGetResult(Value):
    """An event is a notification as it was sent, with its method as `type`. Streamed text is joined to larger
    pieces."""

    thread: Thread
    events: tuple[Json, ...]


class TurnStartResult(Value, rename="camel"):
    turn_id: str


class Ok(Value):
    ok: Literal[True]


# What the server tells. `seq` is the place in the thread's log, `time` when it happened; pieces of one text share them.


class ThreadCreated(Value, rename="camel"):
    thread_id: str
    seq: int
    time: int
    thread: Thread


class TurnNews(Value, rename="camel"):
    thread_id: str
    turn_id: str
    seq: int
    time: int
    status: TurnStatus
    turn: Turn


class TurnFailure(Value, rename="camel"):
    message: str
    info: ErrorInfo | Literal["Cancelled"]
    http_status: int | UnsetType = UNSET


class TurnFailed(Value, rename="camel"):
    """`status` is `error` if the turn failed, `cancelled` if it was stopped."""

    thread_id: str
    turn_id: str
    seq: int
    time: int
    status: TurnStatus
    turn: Turn
    error: TurnFailure


class ItemNews(Value, rename="camel"):
    thread_id: str
    turn_id: str
    item_id: str
    seq: int
    time: int
    item: Item


class ItemDelta(Value, rename="camel"):
    """Add `delta` to the item's `data[field]`."""

    thread_id: str
    turn_id: str
    item_id: str
    seq: int
    time: int
    field: Literal["text", "summary", "output"]
    delta: str


class ApprovalRequested(Value, rename="camel"):
    """`itemId` is the `tool_exec` that waits; answer with `approval.respond`. Sent again to a client that
    reconnects."""

    request_id: str
    thread_id: str
    turn_id: str
    item_id: str
    seq: int
    time: int
    tool: str
    reason: str
    command: str | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    host: str | UnsetType = UNSET
    """The question is whether the command may connect to this host and port."""
    changes: tuple[FileChange, ...] | UnsetType = UNSET
    input: Json | UnsetType = UNSET
    always_covers: AlwaysCovers | UnsetType = UNSET
    """What `always` would allow, and the files it is about. Left out: nothing."""
    project_covers: AlwaysCovers | UnsetType = UNSET
    """What `always` with the scope `project` would allow. Left out: nothing."""


class Notice(Value, rename="camel"):
    """A warning: something does not work from now on. `message` says what, why, and what to do. An extension of
    ours."""

    thread_id: str
    seq: int
    time: int
    severity: Literal["info", "warning"]
    source: str
    name: str
    message: str
    turn_id: str | UnsetType = UNSET


REQUESTS: dict[str, tuple[type[Value], type[Value]]] = {
    "initialize": (InitializeParams, InitializeResult),
    "thread.create": (ThreadCreateParams, ThreadCreateResult),
    "thread.list": (ThreadListParams, ThreadListResult),
    "thread.get": (ThreadGetParams, ThreadGetResult),
    "thread.undo": (ThreadUndoParams, ThreadUndoResult),
    "turn.start": (TurnStartParams, TurnStartResult),
    "turn.cancel": (TurnCancelParams, Ok),
    "approval.respond": (ApprovalRespondParams, Ok),
}

NOTIFICATIONS: dict[str, type[Value]] = {
    "thread.created": ThreadCreated,
    "turn.started": TurnNews,
    "turn.completed": TurnNews,
    "turn.error": TurnFailed,
    "item.started": ItemNews,
    "item.delta": ItemDelta,
    "item.completed": ItemNews,
    "approval.requested": ApprovalRequested,
    "notice": Notice,
}

PUBLISHED = Published(
    name="bootstrap", version=True, requests=REQUESTS, notifications=NOTIFICATIONS, events="ThreadGetResult.events"
)
