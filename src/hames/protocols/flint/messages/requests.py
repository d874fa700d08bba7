"""What a client asks for, and what it is answered."""

from typing import Literal

import msgspec

from hames.domain.json import Json
from hames.domain.policy import ApprovalPolicy
from hames.protocols.flint.items import ThreadItem
from hames.protocols.flint.messages import objects
from hames.protocols.flint.messages.client import ClientSettings, ThreadConfig
from hames.protocols.flint.messages.worktrees import WorktreeOptions
from hames.protocols.flint.wire import Maybe, Wire


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


class _OpensThread(ThreadConfig, kw_only=True):
    model: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: objects.SandboxPolicy | None = None


class ThreadStartParams(_OpensThread, kw_only=True):
    worktree: WorktreeOptions | None = None


class ThreadResumeParams(_OpensThread, kw_only=True):
    thread_id: str


class ThreadForkParams(_OpensThread, kw_only=True):
    """`lastTurnId` is the last turn that the fork contains; without it the fork contains all."""

    thread_id: str
    last_turn_id: str | None = None
    worktree: WorktreeOptions | None = None


class ThreadOpened(Wire):
    """The result of `thread/start`, `thread/resume` and `thread/fork`."""

    thread: objects.Thread
    model_provider: str = ""
    model: str = ""
    cwd: str = ""
    approval_policy: objects.SpecifiedApprovalPolicy | None = None
    approvals_reviewer: Literal["user"] = "user"
    sandbox: objects.SandboxPolicy | None = None
    token_usage: objects.TokenUsage | Maybe = msgspec.UNSET
    """What the thread has used so far, if it has a past."""
    approval_mode: Literal["onRequest"] | Maybe = msgspec.UNSET
    """The policy, where the specification has no word for it: `approvalPolicy` has the nearest one then."""


class ThreadResult(Wire):
    thread: objects.Thread


class ThreadIdParams(Wire):
    thread_id: str


class ThreadReadParams(Wire):
    thread_id: str
    include_turns: bool | None = None


class ThreadListParams(Wire):
    cursor: str | None = None
    limit: objects.Limit | None = None
    archived: bool | None = None
    search_term: str | None = None


class ThreadListResult(Wire):
    data: list[objects.Thread]
    next_cursor: str | Maybe = msgspec.UNSET


class ThreadNameSetParams(Wire):
    thread_id: str
    name: str


class ThreadSettingsUpdateParams(ClientSettings, kw_only=True):
    thread_id: str
    model: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox_policy: objects.SandboxPolicy | None = None
    config: dict[str, str] | None = None


class ThreadTurnsListParams(Wire):
    thread_id: str
    cursor: str | None = None
    limit: objects.Limit | None = None
    sort_direction: Literal["asc", "desc"] | None = None
    items_view: Literal["notLoaded", "summary", "full"] | None = None
    """`summary`: what the user said, and the last message of the agent."""


class ThreadItemsListParams(Wire):
    thread_id: str
    cursor: str | None = None
    limit: objects.Limit | None = None
    sort_direction: Literal["asc", "desc"] | None = None
    turn_id: str | None = None


class TurnsPage(Wire):
    data: list[objects.Turn]
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


class PageParams(Wire):
    cursor: str | None = None
    limit: objects.Limit | None = None


class ThreadLoadedListResult(Wire):
    data: list[str]
    next_cursor: str | None


class ThreadUnsubscribeResult(Wire):
    status: Literal["notLoaded", "notSubscribed", "unsubscribed"]


class ThreadQueueAddParams(Wire):
    thread_id: str
    input: objects.Inputs
    output_schema: dict[str, Json] | None = None
    client_user_message_id: str | None = None


class ThreadQueueAddResult(Wire):
    """`queued` if the prompt waits, `turn` if its turn has started."""

    queued: objects.QueuedPrompt | None = None
    turn: objects.Turn | None = None


class ThreadQueueDeleteParams(Wire):
    thread_id: str
    prompt_id: str


class ThreadQueueListResult(Wire):
    data: list[objects.QueuedPrompt]
    held: bool


class TurnStartParams(ThreadSettingsUpdateParams, kw_only=True):
    """`outputSchema` is the JSON Schema that the final answer has to match."""

    input: objects.Inputs
    output_schema: dict[str, Json] | None = None
    client_user_message_id: str | None = None


class TurnResult(Wire):
    turn: objects.Turn


class TurnSteerParams(Wire):
    thread_id: str
    input: objects.Inputs
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
    reviewer: str | None = None
    """Another agent or model that reviews: `claude`, `codex`, `openai/gpt-5`."""


class ReviewStartResult(Wire):
    turn: objects.Turn
    review_thread_id: str


class ModelListParams(Wire):
    cursor: str | None = None
    limit: objects.Limit | None = None
    include_hidden: bool | None = None
    model_provider: str | None = None


class ModelListResult(Wire):
    data: list[objects.Model]
    next_cursor: str | Maybe = msgspec.UNSET


class ConfigListParams(Wire):
    """Options of the thread if `threadId` is given, else of the connection."""

    thread_id: str | None = None


class ConfigSetParams(Wire):
    id: str
    value: str
    thread_id: str | None = None


class ConfigOptions(Wire):
    options: list[objects.ConfigOption]


class ConfigReadResult(Wire):
    model: str
    cwd: str
    approval_policy: objects.SpecifiedApprovalPolicy
    sandbox_policy: objects.SandboxPolicy
    options: list[objects.ConfigOption]
    approval_mode: Literal["onRequest"] | Maybe = msgspec.UNSET
    """The policy, where the specification has no word for it: `approvalPolicy` has the nearest one then."""


class ThreadProcessEndParams(Wire):
    """`process`: its number in the thread."""

    thread_id: str
    process: int


class ThreadProcess(Wire):
    """A process that a thread's agent started in the background. `seconds`: how long it has run, or ran."""

    process: int
    command: str
    cwd: str
    terminal: bool
    status: Literal["running", "ended"]
    seconds: float
    output_bytes: int
    exit_code: int | None = None
    """Negative for a signal."""


class ThreadProcesses(Wire):
    """Those that run and the last that ended, oldest first."""

    data: list[ThreadProcess]


class McpServerStatusListParams(Wire):
    """Starts the thread's servers if they are not running yet. Without `threadId`: the thread that was opened last.

    `detail` is Codex's and has no effect: servers are always shown in full.
    """

    thread_id: str | None = None
    server_name: str | None = None
    cursor: str | None = None
    limit: objects.Limit | None = None
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


class ThreadContextPart(Wire):
    """`tokens` is an estimate; `count` is how many messages, calls or results there are."""

    name: str
    tokens: int
    count: int


class ThreadContext(Wire):
    """What fills the window of the thread's model. `tokens` is an estimate of the next request; from `limit` on the
    conversation is shortened; `shortened` says what the model is no longer shown."""

    tokens: int
    limit: int
    window: int
    parts: list[ThreadContextPart]
    shortened: list[str]
    budgets: list[str] = []
    """How much of each budget is used, in words."""


class ThreadUndoParams(Wire):
    """Take back what a turn did to files, or (`redo`) do it again. Without `turnId`: the last turn that changed some;
    `later`: what every later turn did as well. `paths`: only these. Files that others have changed since are left
    alone, unless `overwrite`. `preview`: only tell what would happen."""

    thread_id: str
    turn_id: str | None = None
    later: bool | None = None
    redo: bool | None = None
    paths: list[str] | None = None
    overwrite: bool | None = None
    preview: bool | None = None


class UndonePath(Wire):
    """`action`: `removed`, `brought back`, `changed back` or `permissions`."""

    path: str
    action: str


class PathNotUndone(Wire):
    path: str
    why: str


class ThreadUndoResult(Wire):
    """`message` says it in one sentence. `conflicts` were changed by somebody else; `notKept` cannot be restored."""

    turns: list[str]
    message: str
    restored: list[UndonePath]
    conflicts: list[PathNotUndone]
    not_kept: list[PathNotUndone]
