"""What is said in flint: parameters, results and notifications, typed once for server and client.

A member with a default that is not `UNSET` is ours, beside the specification: we always send it, and our client
does without it when another server does not.

Unknown members are ignored on the way in; a wrong type is refused with the member's name.
Optional parameters also accept null, which counts as left out.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, field

from hames.domain.json import Json
from hames.domain.policy import ApprovalPolicy
from hames.domain.value import Value
from hames.protocols.flint.items import FileUpdateChange, PlanEntry, ThreadItem, UserInput
from hames.protocols.flint.wire import Maybe, RequestId, TurnStatusWord, Wire

Limit = Annotated[int, Meta(ge=1)]
Inputs = Annotated[list[UserInput], Meta(min_length=1)]


class Empty(Wire):
    """`{}`."""


# --- policies -----------------------------------------------------------------


class DangerFullAccess(Wire, tag_field="type", tag="dangerFullAccess"):
    pass


class ReadOnly(Wire, tag_field="type", tag="readOnly"):
    pass


class WorkspaceWrite(Wire, tag_field="type", tag="workspaceWrite"):
    writable_roots: list[str] | None = None
    network_access: bool | None = None


class ExternalSandbox(Wire, tag_field="type", tag="externalSandbox"):
    network_access: Literal["restricted", "enabled"] | None = None


SandboxPolicy = DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox


# --- objects ------------------------------------------------------------------


class ThreadStatus(Wire):
    type: Literal["notLoaded", "idle", "active", "systemError"]
    active_flags: list[Literal["waitingOnApproval", "waitingOnUserInput"]] | Maybe = UNSET


class TurnError(Wire):
    message: str
    error_info: str | Maybe = UNSET
    http_status_code: int | Maybe = UNSET


class Turn(Wire):
    id: str
    status: TurnStatusWord
    items: list[ThreadItem]
    error: TurnError | Maybe = UNSET
    items_view: Literal["notLoaded", "summary", "full"] = "full"
    started_at: int | None = None
    completed_at: int | None = None
    duration_ms: int | None = None


class Thread(Wire):
    """`createdAt` and `updatedAt` are unix seconds. `turns` is filled if the request asked for history."""

    id: str
    preview: str
    model_provider: str
    created_at: int
    updated_at: int = 0
    name: str | None = None
    session_id: str = ""
    model: str = ""
    cwd: str = ""
    cli_version: str = ""
    status: ThreadStatus | None = None
    turns: list[Turn] = []
    forked_from_id: str | None = None
    ephemeral: bool = False
    archived: bool = False
    project_id: str | None = None
    source: str = "cli"
    foreign: bool = False
    """Not written by this user on this machine: its settings are ignored."""
    instruction_sources: list[str] = []
    """The project notes that the model is shown, by path: the most general first. Empty in lists."""


class ConfigSelectOption(Wire):
    id: str
    name: str
    description: str | Maybe = UNSET


class ConfigOption(Wire):
    """One option. Without `modelIds` it applies to every model."""

    type: Literal["select"]
    id: str
    name: str
    options: list[ConfigSelectOption]
    value: str
    description: str | Maybe = UNSET
    group: str | Maybe = UNSET
    model_ids: list[str] | Maybe = UNSET


class ReasoningEffort(Wire):
    reasoning_effort: str
    description: str


class Model(Wire):
    """`meta` is for display; `_meta` is another member."""

    id: str
    display_name: str
    is_default: bool
    description: str | Maybe = UNSET
    model: str = ""
    hidden: bool = False
    default_reasoning_effort: str = "none"
    supported_reasoning_efforts: list[ReasoningEffort] = []
    input_modalities: list[str] = []
    details: Json = field(name="meta", default=UNSET)


class Usage(Wire):
    """`inputTokens` does not count tokens that were read from or written to a cache."""

    input_tokens: int
    output_tokens: int
    thinking_tokens: int | Maybe = UNSET
    cache_read_tokens: int | Maybe = UNSET
    cache_write_tokens: int | Maybe = UNSET


class TokenCount(Wire):
    total_tokens: int
    input_tokens: int
    cached_input_tokens: int
    cache_write_input_tokens: int
    output_tokens: int
    reasoning_output_tokens: int


class TokenUsage(Wire):
    """Usage of the whole thread and of the last model call. `byModel` splits the total by model, because prices
    differ."""

    total: TokenCount
    last: TokenCount
    model_context_window: int | None
    by_model: dict[str, TokenCount] | Maybe = UNSET


class QueuedPrompt(Wire):
    id: str
    input: list[UserInput]


# --- client to agent ----------------------------------------------------------


class ClientInfo(Wire):
    name: str
    version: str
    title: str | None = None


class ClientCapabilities(Wire):
    """`optOutNotificationMethods`: notifications that this client does not want."""

    experimental_api: bool | None = None
    opt_out_notification_methods: list[str] | None = None


class InitializeParams(Wire):
    client_info: ClientInfo
    capabilities: ClientCapabilities | None = None


class AgentInfo(Wire):
    name: str
    version: str
    provider: str


class AgentCapabilities(Wire):
    """`methods` are the requests that this server offers in addition to the specification."""

    streaming: bool
    config_options: bool
    reasoning: bool
    plans: bool
    review: bool
    methods: list[str] = []


class InitializeResult(Wire):
    agent_info: AgentInfo
    capabilities: AgentCapabilities
    user_agent: str = ""
    codex_home: str = ""
    platform_family: str = ""
    platform_os: str = ""


class ThreadStartParams(Wire):
    model: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: SandboxPolicy | None = None


class ThreadResumeParams(Wire):
    thread_id: str
    model: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: SandboxPolicy | None = None


class ThreadForkParams(Wire):
    """`lastTurnId` is the last turn that the fork contains; without it the fork contains all."""

    thread_id: str
    last_turn_id: str | None = None
    model: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: SandboxPolicy | None = None


class ThreadOpened(Wire):
    """The result of `thread/start`, `thread/resume` and `thread/fork`."""

    thread: Thread
    model_provider: str = ""
    model: str = ""
    cwd: str = ""
    approval_policy: ApprovalPolicy | None = None
    approvals_reviewer: Literal["user"] = "user"
    sandbox: SandboxPolicy | None = None
    token_usage: TokenUsage | Maybe = UNSET
    """What the thread has used so far, if it has a past."""


class ThreadResult(Wire):
    thread: Thread


class ThreadIdParams(Wire):
    thread_id: str


class ThreadReadParams(Wire):
    thread_id: str
    include_turns: bool | None = None


class ThreadListParams(Wire):
    cursor: str | None = None
    limit: Limit | None = None
    archived: bool | None = None
    search_term: str | None = None


class ThreadListResult(Wire):
    data: list[Thread]
    next_cursor: str | Maybe = UNSET


class ThreadNameSetParams(Wire):
    thread_id: str
    name: str


class ThreadSettingsUpdateParams(Wire):
    thread_id: str
    model: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox_policy: SandboxPolicy | None = None
    config: dict[str, str] | None = None


class ThreadTurnsListParams(Wire):
    thread_id: str
    cursor: str | None = None
    limit: Limit | None = None
    sort_direction: Literal["asc", "desc"] | None = None


class TurnsPage(Wire):
    data: list[Turn]
    next_cursor: str | None
    backwards_cursor: str | None


class ItemEntry(Wire):
    """`startedAtMs` and `completedAtMs` are null, because times of items are not saved."""

    turn_id: str
    item: ThreadItem
    started_at_ms: int | None
    completed_at_ms: int | None


class ItemsPage(Wire):
    data: list[ItemEntry]
    next_cursor: str | None
    backwards_cursor: str | None


class ThreadLoadedListResult(Wire):
    data: list[str]
    next_cursor: str | None


class ThreadUnsubscribeResult(Wire):
    status: Literal["notLoaded", "notSubscribed", "unsubscribed"]


class ThreadQueueAddParams(Wire):
    thread_id: str
    input: Inputs
    client_user_message_id: str | None = None


class ThreadQueueAddResult(Wire):
    """`queued` if the prompt waits, `turn` if its turn has started."""

    queued: QueuedPrompt | None = None
    turn: Turn | None = None


class ThreadQueueDeleteParams(Wire):
    thread_id: str
    prompt_id: str


class ThreadQueueListResult(Wire):
    data: list[QueuedPrompt]
    held: bool


class TurnStartParams(Wire):
    thread_id: str
    input: Inputs
    model: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox_policy: SandboxPolicy | None = None
    config: dict[str, str] | None = None
    client_user_message_id: str | None = None


class TurnResult(Wire):
    turn: Turn


class TurnSteerParams(Wire):
    thread_id: str
    input: Inputs
    expected_turn_id: str | None = None


class TurnSteerResult(Wire):
    turn_id: str


class TurnInterruptParams(Wire):
    thread_id: str
    turn_id: str


class UncommittedChanges(Wire, tag_field="type", tag="uncommittedChanges"):
    pass


class BaseBranch(Wire, tag_field="type", tag="baseBranch"):
    branch: str


class Commit(Wire, tag_field="type", tag="commit"):
    sha: str


class Custom(Wire, tag_field="type", tag="custom"):
    instructions: str


ReviewTarget = UncommittedChanges | BaseBranch | Commit | Custom


class ReviewStartParams(Wire):
    thread_id: str
    target: ReviewTarget


class ReviewStartResult(Wire):
    turn: Turn
    review_thread_id: str


class ModelListParams(Wire):
    limit: Limit | None = None
    include_hidden: bool | None = None


class ModelListResult(Wire):
    data: list[Model]


class ConfigListParams(Wire):
    """Options of the thread if `threadId` is given, else of the connection."""

    thread_id: str | None = None


class ConfigSetParams(Wire):
    id: str
    value: str
    thread_id: str | None = None


class ConfigOptions(Wire):
    options: list[ConfigOption]


class ConfigReadResult(Wire):
    model: str
    cwd: str
    approval_policy: ApprovalPolicy
    sandbox_policy: SandboxPolicy
    options: list[ConfigOption]


class McpServerStatusListParams(Wire):
    """Starts the thread's servers if they are not running yet. Without `threadId`: the thread that was opened last.

    `cursor`, `limit` and `detail` are Codex's and have no effect: the first page has all servers in full.
    """

    thread_id: str | None = None
    cursor: str | None = None
    limit: Limit | None = None
    detail: str | None = None


class McpTool(Wire):
    name: str
    description: str
    input_schema: Json


class McpServerStatus(Wire):
    """`status` and `error` are additions to Codex's members. `tools` is a map by the tool's name."""

    name: str
    status: Literal["notStarted", "starting", "ready", "failed"]
    tools: dict[str, McpTool]
    error: str | None = None
    """Why it failed."""
    resources: list[Json] = []
    resource_templates: list[Json] = []
    auth_status: Literal["unsupported"] = "unsupported"


class McpServerStatusList(Wire):
    data: list[McpServerStatus]
    next_cursor: str | None = None


# --- agent to client: notifications -------------------------------------------


class ThreadStarted(Wire):
    thread: Thread


class ThreadNamed(Wire):
    thread_id: str
    thread_name: str


class ThreadMentioned(Wire):
    """`thread/archived`, `thread/unarchived`, `thread/deleted`."""

    thread_id: str


class ThreadStatusChanged(Wire):
    thread_id: str
    status: ThreadStatus


class ThreadSettings(Wire):
    model: str
    model_provider: str
    cwd: str
    approval_policy: ApprovalPolicy
    sandbox_policy: SandboxPolicy
    config: dict[str, str]


class ThreadSettingsUpdated(Wire):
    thread_id: str
    thread_settings: ThreadSettings


class InstructionSources(Wire):
    """`thread/instructionSources/updated`: the paths of the project notes that the model sees from now on."""

    thread_id: str
    instruction_sources: list[str]


class ThreadQueueChanged(Wire):
    thread_id: str
    queue: list[QueuedPrompt]
    held: bool


class TokenUsageUpdated(Wire):
    """`usage` is that of the turn so far; `tokenUsage` has that of the thread and of the last call."""

    thread_id: str
    turn_id: str
    usage: Usage
    token_usage: TokenUsage | None = None


class TurnChanged(Wire):
    """`turn/started` and `turn/completed`."""

    thread_id: str
    turn: Turn


class TurnPlanUpdated(Wire):
    thread_id: str
    turn_id: str
    explanation: str
    plan: list[PlanEntry]


class ItemStarted(Wire):
    thread_id: str
    turn_id: str
    item: ThreadItem
    started_at_ms: int = 0


class ItemCompleted(Wire):
    thread_id: str
    turn_id: str
    item: ThreadItem
    completed_at_ms: int = 0


class Delta(Value, rename="camel"):
    """Sent very often, so it has no `_meta` and no optional members."""

    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class Notice(Wire):
    """Something beside the answer, under the name of who says it: `hames/retry`, or a provider's own."""

    thread_id: str
    message: str
    severity: Literal["info", "warning"] = "info"
    turn_id: str | Maybe = UNSET
    data: Json = UNSET


class ServerRequestResolved(Wire):
    """A question is closed: somebody answered it, or the turn ended."""

    thread_id: str
    request_id: RequestId


# --- agent to client: requests ------------------------------------------------

ApprovalWord = Literal["accept", "acceptForSession", "decline", "cancel"]


class AlwaysCovers(Wire):
    """What `acceptForSession` would allow. `text` is a phrase such as "further changes to a.py, for the rest of this
    thread". `files` are the files that may be changed again or, for a command, the scripts that must not change."""

    text: str
    files: list[str] = []


class CommandApprovalParams(Wire):
    thread_id: str
    turn_id: str
    item_id: str
    command: str
    cwd: str
    started_at_ms: int = 0
    command_actions: list[Json] = []
    available_decisions: list[ApprovalWord] = []
    always_covers: AlwaysCovers | None = None
    reason: str | Maybe = UNSET


class FileChangeApprovalParams(Wire):
    thread_id: str
    turn_id: str
    item_id: str
    changes: list[FileUpdateChange]
    started_at_ms: int = 0
    available_decisions: list[ApprovalWord] = []
    always_covers: AlwaysCovers | None = None
    reason: str | Maybe = UNSET


class McpApprovalParams(Wire):
    thread_id: str
    turn_id: str
    item_id: str
    server: str
    tool: str
    started_at_ms: int = 0
    available_decisions: list[ApprovalWord] = []
    always_covers: AlwaysCovers | None = None
    arguments: Json = UNSET
    reason: str | Maybe = UNSET


class ToolApprovalParams(Wire):
    thread_id: str
    turn_id: str
    item_id: str
    name: str
    started_at_ms: int = 0
    available_decisions: list[ApprovalWord] = []
    always_covers: AlwaysCovers | None = None
    arguments: Json = UNSET
    reason: str | Maybe = UNSET


class ApprovalResponse(Wire):
    decision: ApprovalWord


ElicitationWord = Literal["accept", "decline", "cancel"]


class ElicitationParams(Wire):
    """A question of an MCP server to a person: a form (`requestedSchema`), or an address to visit (`url`), which
    Hames never opens."""

    thread_id: str
    turn_id: str
    item_id: str
    server_name: str
    mode: Literal["form", "url"]
    message: str
    requested_schema: Json = UNSET
    url: str | Maybe = UNSET
    elicitation_id: str | Maybe = UNSET
    started_at_ms: int = 0
    available_decisions: list[ApprovalWord] = []
    reason: str | Maybe = UNSET


class ElicitationResponse(Wire):
    """`content` is the completed form; without it the form is sent with its defaults."""

    action: ElicitationWord
    content: Json = None
