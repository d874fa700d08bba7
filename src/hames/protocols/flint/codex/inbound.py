"""The requests of Codex's own clients, in Codex's spelling.

They send many members that mean nothing here, most of them null: those are passed over. Any other value reaches the
thread, the turn or the log, or is refused (`unsupported.py`).
"""

from collections.abc import Callable
from typing import Literal

from msgspec import field

from hames.codecs.jsonrpc_peer import Params
from hames.domain import commands
from hames.domain import items as domain
from hames.domain.errors import InvalidCommand
from hames.domain.ids import TurnId
from hames.domain.json import Json
from hames.domain.options import Overrides
from hames.domain.policy import AgentName
from hames.protocols.flint import inbound
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.protocols.flint.codex.injected_items import decode_injected_items
from hames.protocols.flint.codex.policies import AnySandbox, approval_policy, sandbox_policy
from hames.protocols.flint.codex.raw_items import WISH
from hames.protocols.flint.codex.unsupported import refuse_unsupported
from hames.protocols.flint.inbound import EmptyPage, Fixed, Local, ReadConfig, directory, read, thread_id
from hames.protocols.flint.wire import Wire

EFFORT_OPTION = "reasoning_effort"

ELEMENTS = "text_elements"
THREAD_NOTES = ("approvalsReviewer", "serviceName", "threadSource", "sessionStartSource", WISH)
TURN_NOTES = (
    "approvalsReviewer",
    "summary",
    "parentTurnId",
    "rootTurnId",
    "turnTrigger",
    "responsesapiClientMetadata",
    "responsesapiClientMetadataPatch",
)
"""What a client says and nothing here depends on: where a turn comes from, who else might decide approvals, how much
of the reasoning it wants to see. Refusing it would lock out clients that send it unasked."""
_LISTED_SOURCES = {"cli", "vscode"}


class CodexText(Wire, tag_field="type", tag="text"):
    text: str
    text_elements: list[Json] = field(name="text_elements", default_factory=list)


class Mention(Wire, tag_field="type", tag="mention"):
    name: str
    path: str


class Skill(Wire, tag_field="type", tag="skill"):
    name: str
    path: str


CodexInput = CodexText | wire.ImageInput | wire.LocalImageInput | wire.FileInput | Mention | Skill


class CollaborationSettings(Wire, rename=None):
    reasoning_effort: str | None = None
    developer_instructions: str | None = None
    model: str | None = None


class CollaborationMode(Wire):
    mode: str
    settings: CollaborationSettings | None = None


class _Chosen(Wire):
    """What every request that opens or changes a thread may carry."""

    model: str | None = None
    cwd: str | None = None
    approval_policy: Json = None
    permissions: str | None = None
    runtime_workspace_roots: list[str] | None = None


class ThreadStart(_Chosen):
    sandbox: AnySandbox | None = None
    ephemeral: bool | None = None


class ThreadResume(_Chosen, kw_only=True):
    thread_id: str
    sandbox: AnySandbox | None = None
    exclude_turns: bool | None = None


class ThreadFork(_Chosen, kw_only=True):
    thread_id: str
    sandbox: AnySandbox | None = None
    ephemeral: bool | None = None
    last_turn_id: str | None = None


class SettingsUpdate(_Chosen, kw_only=True):
    thread_id: str
    sandbox_policy: AnySandbox | None = None
    effort: str | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    collaboration_mode: CollaborationMode | None = None
    config: dict[str, str] | None = None
    """flint's way to choose options."""


class ContextEntry(Wire):
    """Something that the client adds to a prompt for the model."""

    kind: Literal["untrusted", "application"]
    value: str
    name: str | None = None


class TurnStart(SettingsUpdate, kw_only=True):
    input: list[CodexInput]
    client_user_message_id: str | None = None
    additional_context: dict[str, ContextEntry] | None = None


class TurnSteer(Wire):
    thread_id: str
    input: list[CodexInput]
    expected_turn_id: str | None = None
    client_user_message_id: str | None = None
    additional_context: dict[str, ContextEntry] | None = None


class QueueAdd(Wire):
    thread_id: str
    input: list[CodexInput] | None = None
    client_user_message_id: str | None = None


class ThreadList(Wire):
    cursor: str | None = None
    limit: m.Limit | None = None
    archived: bool | None = None
    search_term: str | None = None
    cwd: str | list[str] | None = None
    model_providers: list[str] | None = None
    excluded_thread_ids: list[str] | None = None
    sort_key: Literal["created_at", "updated_at", "recency_at", "section_position"] | None = None
    sort_direction: Literal["asc", "desc"] | None = None
    source_kinds: list[str] | None = None
    section_id: str | None = None
    parent_thread_id: str | None = None
    ancestor_thread_id: str | None = None
    attached_to_thread_id: str | None = None


class Cwds(Wire):
    cwds: list[str] | None = None


def decode(method: str, params: Params) -> commands.Command | Local:
    route = ROUTES.get(method)
    if route is None:
        return inbound.decode(method, params)
    refuse_unsupported(params)
    return route(params)


def _overrides(given: ThreadStart | ThreadResume | ThreadFork) -> Overrides:
    return Overrides(
        model=given.model,
        cwd=directory(given.cwd),
        approval_policy=approval_policy(given.approval_policy),
        sandbox=sandbox_policy(given.sandbox, given.permissions, member="sandbox"),
        workspace_roots=_roots(given),
    )


def _changes(given: SettingsUpdate) -> Overrides:
    options, profile = inbound.split_config(given.config)
    effort, model, instructions = given.effort, given.model, None
    if (mode := given.collaboration_mode) is not None:
        profile = _profile(mode.mode)
        instructions = ""
        if mode.settings is not None:
            effort = effort or mode.settings.reasoning_effort
            model = mode.settings.model or model
            instructions = mode.settings.developer_instructions or ""
    return Overrides(
        model=model,
        cwd=directory(given.cwd),
        approval_policy=approval_policy(given.approval_policy),
        sandbox=sandbox_policy(given.sandbox_policy, given.permissions, member="sandboxPolicy"),
        workspace_roots=_roots(given),
        options={**(options or {}), EFFORT_OPTION: effort} if effort else options,
        agent=profile,
        mode_instructions=instructions,
    )


def _roots(given: _Chosen) -> tuple[str, ...] | None:
    roots = given.runtime_workspace_roots
    if roots and any(not root.startswith("/") or "\0" in root for root in roots):
        raise InvalidCommand("runtimeWorkspaceRoots: must be absolute paths")
    return tuple(roots) if roots else None


def _logged(params: Params, given: Json, *names: str) -> Json:
    """The client's `_meta` with what it says about itself: nothing depends on it, and the log has it."""
    said = {name: value for name in names if (value := params.get(name)) is not None}
    if not said:
        return given
    return {**given, **said} if isinstance(given, dict) else said


def _profile(mode: str) -> AgentName:
    if mode not in ("plan", "default"):
        raise InvalidCommand(f"collaborationMode: there is no mode {mode!r}; the modes are: default, plan")
    return "plan" if mode == "plan" else "code"


def _content(parts: list[CodexInput]) -> tuple[domain.UserInput, ...]:
    return inbound.content([_part(part) for part in parts])


def _context(given: dict[str, ContextEntry] | None) -> tuple[domain.UserInput, ...]:
    return tuple(
        domain.TextInput(text=f"Context from {entry.name or source}:\n{entry.value}")
        for source, entry in (given or {}).items()
    )


def _part(part: CodexInput) -> wire.UserInput:
    if isinstance(part, CodexText):
        # Marks of the client's own on the text. They come back with it, and nobody else looks at them.
        marks = {ELEMENTS: part.text_elements} if part.text_elements else {}
        meta = {**part.meta, **marks} if isinstance(part.meta, dict) else marks or part.meta
        return wire.TextInput(text=part.text, meta=meta)
    if isinstance(part, Mention | Skill):
        if part.path.startswith("/"):
            return wire.FileInput(path=part.path)
        return wire.TextInput(text=part.name)
    return part


def _thread_start(params: Params) -> commands.CreateThread:
    given = read(params, ThreadStart)
    meta = _logged(params, given.meta, *THREAD_NOTES)
    return commands.CreateThread(overrides=_overrides(given), ephemeral=bool(given.ephemeral), meta=meta)


def _thread_resume(params: Params) -> commands.ResumeThread:
    given = read(params, ThreadResume)
    return commands.ResumeThread(thread_id=thread_id(given.thread_id), overrides=_overrides(given))


def _thread_fork(params: Params) -> commands.ForkThread:
    given = read(params, ThreadFork)
    last = None if given.last_turn_id is None else TurnId(given.last_turn_id)
    return commands.ForkThread(
        thread_id=thread_id(given.thread_id),
        last_turn_id=last,
        overrides=_overrides(given),
        ephemeral=bool(given.ephemeral),
    )


def _thread_list(params: Params) -> commands.ListThreads | EmptyPage:
    given = read(params, ThreadList)
    above = given.parent_thread_id or given.ancestor_thread_id or given.attached_to_thread_id
    if given.section_id or above or (given.source_kinds and not _LISTED_SOURCES.intersection(given.source_kinds)):
        return EmptyPage()
    from hames.protocols.flint.codex.uuids import from_uuid

    by_creation, ascending = given.sort_key == "created_at", given.sort_direction == "asc"
    return commands.ListThreads(
        cursor=given.cursor,
        limit=given.limit,
        archived=bool(given.archived),
        search=given.search_term or "",
        cwds=(given.cwd,) if isinstance(given.cwd, str) else tuple(given.cwd or ()),
        providers=tuple(given.model_providers or ()),
        excluded=tuple(map(from_uuid, given.excluded_thread_ids or ())),
        order=commands.ListOrder(by="created" if by_creation else "updated", oldest_first=ascending),
    )


def _settings_update(params: Params) -> commands.ChangeSettings:
    given = read(params, SettingsUpdate)
    return commands.ChangeSettings(thread_id=thread_id(given.thread_id), overrides=_changes(given))


def _turn_start(params: Params) -> commands.StartTurn:
    given = read(params, TurnStart)
    return commands.StartTurn(
        thread_id=thread_id(given.thread_id),
        content=(*_content(given.input), *_context(given.additional_context)),
        overrides=_changes(given),
        client_id=given.client_user_message_id,
        meta=_logged(params, given.meta, *TURN_NOTES),
    )


def _turn_steer(params: Params) -> commands.SteerTurn:
    given = read(params, TurnSteer)
    return commands.SteerTurn(
        thread_id=thread_id(given.thread_id),
        content=(*_content(given.input), *_context(given.additional_context)),
        turn_id=None if given.expected_turn_id is None else TurnId(given.expected_turn_id),
        client_id=given.client_user_message_id,
    )


def _queue_add(params: Params) -> commands.SubmitPrompt:
    given = read(params, QueueAdd)
    return commands.SubmitPrompt(
        thread_id=thread_id(given.thread_id),
        content=_content(given.input or []),
        client_id=given.client_user_message_id,
    )


def _per_directory(*members: str) -> Callable[[Params], Fixed]:
    """Nothing of the kind in any directory."""

    def answer(params: Params) -> Fixed:
        cwds = read(params, Cwds).cwds or []
        return Fixed(result={"data": [{"cwd": cwd, **{member: [] for member in members}} for cwd in cwds]})

    return answer


def _fixed(result: Json) -> Callable[[Params], Fixed]:
    return lambda _: Fixed(result=result)


_NONE: Json = {"data": [], "nextCursor": None}

FIXED: dict[str, Callable[[Params], commands.Command | Local]] = {
    "account/read": _fixed({"account": None, "requiresOpenaiAuth": False, "workspaceRouting": None}),
    "account/rateLimits/read": _fixed(
        {
            "rateLimits": {
                "limitId": None,
                "limitName": None,
                "normalModelSlug": None,
                "primary": None,
                "secondary": None,
                "credits": None,
                "individualLimit": None,
                "spendControlReached": None,
                "planType": None,
                "rateLimitReachedType": None,
            },
            "rateLimitsByLimitId": None,
            "rateLimitResetCredits": None,
            "ordinaryUsageAllowed": None,
            "accountId": None,
            "rateLimitUpsell": None,
        }
    ),
    "account/bedrock/checkGovCloudRequirements": _fixed({"isGovCloud": False, "shouldWarn": False}),
    "configRequirements/read": _fixed({"requirements": None, "supportsIndependentSpeedModes": None}),
    "hooks/list": _per_directory("hooks", "warnings", "errors"),
    "skills/list": _per_directory("skills", "errors"),
    "collaborationMode/list": _fixed(
        {
            "data": [
                {"name": "Plan", "mode": "plan", "model": None, "reasoning_effort": None},
                {"name": "Default", "mode": "default", "model": None, "reasoning_effort": None},
            ]
        }
    ),
    "permissionProfile/list": _fixed(
        {
            "data": [
                {"id": ":read-only", "description": None, "allowed": True},
                {"id": ":workspace", "description": None, "allowed": True},
                {"id": ":danger-full-access", "description": None, "allowed": True},
            ],
            "nextCursor": None,
        }
    ),
    "plugin/list": _fixed({"marketplaces": [], "marketplaceLoadErrors": [], "featuredPluginIds": []}),
    "thread/goal/get": _fixed({"goal": None}),
    "thread/backgroundTerminals/list": _fixed(_NONE),
    "thread/inject_items": decode_injected_items,
}
"""What Codex's clients ask on their way in. Answered for everyone: the answers are true for everyone."""

ROUTES: dict[str, Callable[[Params], commands.Command | Local]] = {
    "thread/start": _thread_start,
    "thread/resume": _thread_resume,
    "thread/fork": _thread_fork,
    "thread/list": _thread_list,
    "thread/settings/update": _settings_update,
    "thread/queue/add": _queue_add,
    "turn/start": _turn_start,
    "turn/steer": _turn_steer,
    "review/start": inbound.ROUTES["review/start"],
    "config/read": lambda _: ReadConfig(),
}
