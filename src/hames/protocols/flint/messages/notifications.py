"""What a client is sent without having asked: notifications, and requests that it answers."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from hames.domain.json import Json
from hames.domain.policy import ApprovalEnd
from hames.domain.value import Value
from hames.protocols.flint.items import FileUpdateChange, PlanEntry, ThreadItem
from hames.protocols.flint.messages import objects
from hames.protocols.flint.wire import Maybe, RequestId, Wire


class ThreadStarted(Wire):
    thread: objects.Thread


class ThreadNamed(Wire):
    thread_id: str
    thread_name: str


class ThreadMentioned(Wire):
    """`thread/archived`, `thread/unarchived`, `thread/deleted`."""

    thread_id: str


class ThreadStatusChanged(Wire):
    thread_id: str
    status: objects.ThreadStatus


class ThreadSettings(Wire):
    model: str
    model_provider: str
    cwd: str
    approval_policy: objects.SpecifiedApprovalPolicy
    sandbox_policy: objects.SandboxPolicy
    config: dict[str, str]
    approval_mode: Literal["onRequest"] | Maybe = msgspec.UNSET
    """The policy, where the specification has no word for it: `approvalPolicy` has the nearest one then."""


class ThreadSettingsUpdated(Wire):
    thread_id: str
    thread_settings: ThreadSettings


class InstructionSources(Wire):
    """`thread/instructionSources/updated`: the paths of the project notes that the model sees from now on."""

    thread_id: str
    instruction_sources: list[str]


class ThreadQueueChanged(Wire):
    thread_id: str
    queue: list[objects.QueuedPrompt]
    held: bool


class TokenUsageUpdated(Wire):
    """`usage` is that of the turn so far; `tokenUsage` has that of the thread and of the last call."""

    thread_id: str
    turn_id: str
    usage: objects.Usage
    token_usage: objects.TokenUsage | None = None


class TurnChanged(Wire):
    """`turn/started` and `turn/completed`."""

    thread_id: str
    turn: objects.Turn


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
    turn_id: str | Maybe = msgspec.UNSET
    data: Json = msgspec.UNSET


class ServerRequestResolved(Wire):
    """A question is closed. `ended` says how, where nobody answered it: its deadline passed (`timedOut`), nobody who
    could answer was connected (`noClient`), whoever asked no longer needs it (`withdrawn`), or the turn ended."""

    thread_id: str
    request_id: RequestId
    ended: ApprovalEnd | UnsetType = UNSET


ApprovalWord = Literal["accept", "acceptForSession", "acceptForProject", "decline", "cancel"]


class AlwaysCovers(Wire):
    """What `acceptForSession` or `acceptForProject` would allow. `text` is a phrase such as "further changes to a.py,
    for the rest of this thread". `files` are the files that may be changed again or, for a command, the scripts that
    must not change."""

    text: str
    files: list[str] = []


class _Question(Wire):
    thread_id: str
    turn_id: str
    item_id: str
    started_at_ms: int = 0
    available_decisions: list[ApprovalWord] = []
    reason: str | Maybe = msgspec.UNSET


class _Approval(_Question):
    always_covers: AlwaysCovers | None = None
    project_covers: AlwaysCovers | None = None


class CommandApprovalParams(_Approval, kw_only=True):
    command: str
    cwd: str
    command_actions: list[Json] = []
    host: str | Maybe = msgspec.UNSET
    """The command runs already, and the question is whether it may connect to this host and port."""


class FileChangeApprovalParams(_Approval, kw_only=True):
    changes: list[FileUpdateChange]


class McpApprovalParams(_Approval, kw_only=True):
    server: str
    tool: str
    arguments: Json = msgspec.UNSET


class ToolApprovalParams(_Approval, kw_only=True):
    name: str
    arguments: Json = msgspec.UNSET


class ApprovalResponse(Wire):
    decision: ApprovalWord


ElicitationWord = Literal["accept", "decline", "cancel"]


class ElicitationParams(_Question, kw_only=True):
    """A question of an MCP server to a person: a form (`requestedSchema`), or an address to visit (`url`), which
    Hames never opens."""

    server_name: str
    mode: Literal["form", "url"]
    message: str
    requested_schema: Json = msgspec.UNSET
    url: str | Maybe = msgspec.UNSET
    elicitation_id: str | Maybe = msgspec.UNSET


class ElicitationResponse(Wire):
    """`content` is the completed form; without it the form is sent with its defaults."""

    action: ElicitationWord
    content: Json = None
