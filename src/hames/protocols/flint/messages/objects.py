"""Objects of flint that several messages carry: threads, turns, models, options, policies, token counts.

A member with a default that is not `UNSET` is ours, beside the specification: we always send it, and our client
does without it when another server does not.

Unknown members are ignored on the way in; a wrong type is refused with the member's name.
Optional parameters also accept null, which counts as left out.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from hames.domain.actors import Actor
from hames.domain.json import Json
from hames.protocols.flint.items import ThreadItem, UserInput
from hames.protocols.flint.wire import Maybe, TurnStatusWord, Wire

Limit = Annotated[int, Meta(ge=1)]
Inputs = Annotated[list[UserInput], Meta(min_length=1)]


class Empty(Wire):
    """`{}`."""


# --- policies -----------------------------------------------------------------


class DangerFullAccess(Wire, tag_field="type", tag="dangerFullAccess"):
    pass


class ReadOnly(Wire, tag_field="type", tag="readOnly"):
    pass


class NetworkRules(Wire):
    """The hosts that commands may reach by name: `example.org`, `*.example.org`, `example.org:8443`, `@registries`."""

    allow: list[str] = []
    deny: list[str] = []


class WorkspaceWrite(Wire, tag_field="type", tag="workspaceWrite"):
    writable_roots: list[str] | None = None
    network_access: bool | None = None
    network: NetworkRules | Maybe = msgspec.UNSET


class ExternalSandbox(Wire, tag_field="type", tag="externalSandbox"):
    network_access: Literal["restricted", "enabled"] | None = None


SandboxPolicy = DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox

SpecifiedApprovalPolicy = Literal["never", "unlessTrusted", "always"]
"""The words of the specification, for clients that know no others."""


# --- objects ------------------------------------------------------------------


class ThreadStatus(Wire):
    type: Literal["notLoaded", "idle", "active", "systemError"]
    active_flags: list[Literal["waitingOnApproval", "waitingOnUserInput"]] | Maybe = msgspec.UNSET


class TurnError(Wire):
    message: str
    error_info: str | Maybe = msgspec.UNSET
    http_status_code: int | Maybe = msgspec.UNSET


class AnsweredApproval(Wire):
    """Who allowed or refused a tool call."""

    item_id: str
    decision: Literal["once", "always", "reject", "void"]
    by: Actor


class Turn(Wire):
    """`interruptedBy`, `answers` and `undone` are additions to the specification."""

    id: str
    status: TurnStatusWord
    items: list[ThreadItem]
    error: TurnError | Maybe = msgspec.UNSET
    items_view: Literal["notLoaded", "summary", "full"] = "full"
    started_at: int | None = None
    completed_at: int | None = None
    duration_ms: int | None = None
    interrupted_by: Actor | Maybe = msgspec.UNSET
    answers: list[AnsweredApproval] | Maybe = msgspec.UNSET
    undone: list[str] | Maybe = msgspec.UNSET
    """Files, by absolute path, of which the turn's changes are taken back."""


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
    description: str | Maybe = msgspec.UNSET


class ConfigOption(Wire):
    """One option. Without `modelIds` it applies to every model."""

    type: Literal["select"]
    id: str
    name: str
    options: list[ConfigSelectOption]
    value: str
    description: str | Maybe = msgspec.UNSET
    group: str | Maybe = msgspec.UNSET
    model_ids: list[str] | Maybe = msgspec.UNSET


class ReasoningEffort(Wire):
    reasoning_effort: str
    description: str


class Model(Wire):
    """`meta` is for display; `_meta` is another member."""

    id: str
    display_name: str
    is_default: bool
    description: str | Maybe = msgspec.UNSET
    model: str = ""
    hidden: bool = False
    default_reasoning_effort: str = "none"
    supported_reasoning_efforts: list[ReasoningEffort] = []
    input_modalities: list[str] = []
    details: Json = field(name="meta", default=msgspec.UNSET)


class Usage(Wire):
    """`inputTokens` does not count tokens that were read from or written to a cache."""

    input_tokens: int
    output_tokens: int
    thinking_tokens: int | Maybe = msgspec.UNSET
    cache_read_tokens: int | Maybe = msgspec.UNSET
    cache_write_tokens: int | Maybe = msgspec.UNSET


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
    by_model: dict[str, TokenCount] | Maybe = msgspec.UNSET


class QueuedPrompt(Wire):
    id: str
    input: list[UserInput]
