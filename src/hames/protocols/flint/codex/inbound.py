"""The requests of Codex's own clients, in Codex's spelling.

They send many members that mean nothing here, most of them null: those are passed over. What they
send about policy is understood or refused, never guessed.
"""

from collections.abc import Callable

from hames.codecs.jsonrpc import Params
from hames.domain import items as domain
from hames.domain import policy
from hames.domain.commands import (
    ChangeSettings,
    Command,
    CreateThread,
    ForkThread,
    ListThreads,
    ResumeThread,
    StartTurn,
    SteerTurn,
    SubmitPrompt,
)
from hames.domain.errors import InvalidCommand
from hames.domain.ids import TurnId
from hames.domain.json import Json
from hames.domain.options import Overrides
from hames.domain.policy import AgentName, ApprovalPolicy
from hames.protocols.flint import inbound
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.protocols.flint.inbound import EmptyPage, Fixed, Local, ReadConfig, directory, read, thread_id
from hames.protocols.flint.wire import Wire

EFFORT_OPTION = "reasoning_effort"

_APPROVALS: dict[str, ApprovalPolicy] = {"never": "never", "on-request": "onRequest", "untrusted": "unlessTrusted"}
_MODES: dict[str, policy.SandboxPolicy] = {
    "read-only": policy.ReadOnly(),
    "workspace-write": policy.WorkspaceWrite(),
    "danger-full-access": policy.DangerFullAccess(),
}
_LISTED_SOURCES = {"cli", "vscode"}


class Mention(Wire, tag_field="type", tag="mention"):
    name: str
    path: str


class Skill(Wire, tag_field="type", tag="skill"):
    name: str
    path: str


CodexInput = wire.TextInput | wire.ImageInput | wire.LocalImageInput | Mention | Skill


class CollaborationSettings(Wire, rename=None):
    reasoning_effort: str | None = None
    developer_instructions: str | None = None


class CollaborationMode(Wire):
    mode: str
    settings: CollaborationSettings | None = None


class _Chosen(Wire):
    """What every request that opens or changes a thread may carry."""

    model: str | None = None
    cwd: str | None = None
    approval_policy: Json = None
    permissions: str | None = None


class ThreadStart(_Chosen):
    sandbox: str | None = None
    ephemeral: bool | None = None


class ThreadResume(_Chosen, kw_only=True):
    thread_id: str
    sandbox: str | None = None
    exclude_turns: bool | None = None


class ThreadFork(_Chosen, kw_only=True):
    thread_id: str
    sandbox: str | None = None
    ephemeral: bool | None = None
    last_turn_id: str | None = None


class SettingsUpdate(_Chosen, kw_only=True):
    thread_id: str
    sandbox_policy: m.SandboxPolicy | None = None
    effort: str | None = None
    collaboration_mode: CollaborationMode | None = None


class TurnStart(SettingsUpdate, kw_only=True):
    input: list[CodexInput]
    client_user_message_id: str | None = None


class TurnSteer(Wire):
    thread_id: str
    input: list[CodexInput]
    expected_turn_id: str | None = None


class QueueAdd(Wire):
    thread_id: str
    input: list[CodexInput] | None = None
    client_user_message_id: str | None = None


class ThreadList(Wire):
    cursor: str | None = None
    limit: m.Limit | None = None
    archived: bool | None = None
    search_term: str | None = None
    section_id: str | None = None
    source_kinds: list[str] | None = None
    parent_thread_id: str | None = None
    ancestor_thread_id: str | None = None


class Cwds(Wire):
    cwds: list[str] | None = None


def decode(method: str, params: Params) -> Command | Local:
    route = ROUTES.get(method)
    return inbound.decode(method, params) if route is None else route(params)


def _approval(given: Json) -> ApprovalPolicy | None:
    if given is None:
        return None
    if isinstance(given, dict) and "granular" in given:
        return "onRequest"
    if isinstance(given, str) and given in _APPROVALS:
        return _APPROVALS[given]
    raise InvalidCommand(f"approvalPolicy: must be one of {', '.join(_APPROVALS)}")


def _mode(given: str | None, profile: str | None) -> policy.SandboxPolicy | None:
    """A named profile is Codex's newer way to say the same: `:workspace`."""
    word = given or {":read-only": "read-only", ":workspace": "workspace-write"}.get(
        profile or "", (profile or "").removeprefix(":") or None
    )
    if word is None:
        return None
    if word not in _MODES:
        raise InvalidCommand(f"sandbox: must be one of {', '.join(_MODES)}")
    return _MODES[word]


def _overrides(given: ThreadStart | ThreadResume | ThreadFork) -> Overrides:
    return Overrides(
        model=given.model,
        cwd=directory(given.cwd),
        approval_policy=_approval(given.approval_policy),
        sandbox=_mode(given.sandbox, given.permissions),
    )


def _changes(given: SettingsUpdate) -> Overrides:
    effort, profile, instructions = given.effort, None, None
    if (mode := given.collaboration_mode) is not None:
        profile = _profile(mode.mode)
        effort = effort or (mode.settings.reasoning_effort if mode.settings else None)
        instructions = (mode.settings.developer_instructions if mode.settings else None) or ""
    return Overrides(
        model=given.model,
        cwd=directory(given.cwd),
        approval_policy=_approval(given.approval_policy),
        sandbox=inbound.sandbox(given.sandbox_policy) or _mode(None, given.permissions),
        options={EFFORT_OPTION: effort} if effort else None,
        agent=profile,
        mode_instructions=instructions,
    )


def _profile(mode: str) -> AgentName:
    return "plan" if mode == "plan" else "code"


def _lasting(ephemeral: bool | None) -> None:
    if ephemeral:
        raise InvalidCommand("ephemeral: not supported, every thread is saved")


def _content(parts: list[CodexInput]) -> tuple[domain.UserInput, ...]:
    return inbound.content([_part(part) for part in parts])


def _part(part: CodexInput) -> wire.UserInput:
    if isinstance(part, Mention | Skill):
        if part.path.startswith("/"):
            return wire.FileInput(path=part.path)
        return wire.TextInput(text=part.name)
    return part


def _thread_start(params: Params) -> CreateThread:
    given = read(params, ThreadStart)
    _lasting(given.ephemeral)
    return CreateThread(overrides=_overrides(given))


def _thread_resume(params: Params) -> ResumeThread:
    given = read(params, ThreadResume)
    return ResumeThread(thread_id=thread_id(given.thread_id), overrides=_overrides(given))


def _thread_fork(params: Params) -> ForkThread:
    given = read(params, ThreadFork)
    _lasting(given.ephemeral)
    last = None if given.last_turn_id is None else TurnId(given.last_turn_id)
    return ForkThread(thread_id=thread_id(given.thread_id), last_turn_id=last, overrides=_overrides(given))


def _thread_list(params: Params) -> ListThreads | EmptyPage:
    given = read(params, ThreadList)
    elsewhere = given.section_id or given.parent_thread_id or given.ancestor_thread_id
    if elsewhere or (given.source_kinds and not _LISTED_SOURCES.intersection(given.source_kinds)):
        return EmptyPage()
    return ListThreads(
        cursor=given.cursor, limit=given.limit, archived=bool(given.archived), search=given.search_term or ""
    )


def _settings_update(params: Params) -> ChangeSettings:
    given = read(params, SettingsUpdate)
    return ChangeSettings(thread_id=thread_id(given.thread_id), overrides=_changes(given))


def _turn_start(params: Params) -> StartTurn:
    given = read(params, TurnStart)
    return StartTurn(
        thread_id=thread_id(given.thread_id),
        content=_content(given.input),
        overrides=_changes(given),
        client_id=given.client_user_message_id,
    )


def _turn_steer(params: Params) -> SteerTurn:
    given = read(params, TurnSteer)
    return SteerTurn(
        thread_id=thread_id(given.thread_id),
        content=_content(given.input),
        turn_id=None if given.expected_turn_id is None else TurnId(given.expected_turn_id),
    )


def _queue_add(params: Params) -> SubmitPrompt:
    given = read(params, QueueAdd)
    return SubmitPrompt(
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

FIXED: dict[str, Callable[[Params], Fixed]] = {
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
}
"""What Codex's clients ask on their way in. Answered for everyone: the answers are true for everyone."""

ROUTES: dict[str, Callable[[Params], Command | Local]] = {
    "thread/start": _thread_start,
    "thread/resume": _thread_resume,
    "thread/fork": _thread_fork,
    "thread/list": _thread_list,
    "thread/settings/update": _settings_update,
    "thread/queue/add": _queue_add,
    "turn/start": _turn_start,
    "turn/steer": _turn_steer,
    "config/read": lambda _: ReadConfig(),
}
