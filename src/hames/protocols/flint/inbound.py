"""Decodes the requests of flint into commands. Raises `InvalidCommand` and nothing else.

A request is either a `Command`, or a `Local` that the session answers itself. Where several
requests lead to the same command (`thread/read`, `config/read` of a thread, …) the session knows
which one it was from the method.
"""

from collections.abc import Callable, Sequence
from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from hames.codecs.jsonrpc_peer import Params
from hames.domain import commands, policy
from hames.domain import items as domain
from hames.domain.errors import InvalidCommand, UnknownMethod
from hames.domain.ids import PromptId, ThreadId, TurnId
from hames.domain.json import Json
from hames.domain.network import network_rules
from hames.domain.options import Overrides
from hames.domain.policy import AgentName
from hames.domain.value import Value
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.protocols.flint import worktree_requests
from hames.protocols.flint.reading import read, thread_id

AGENT_OPTION = "agent"
"""The one selector that is the harness's own: which profile works."""
AGENTS: tuple[AgentName, ...] = ("code", "plan", "review")

MAX_INPUT_PARTS = 1_000


class Local(Value):
    """A request that is answered without the engine."""


class Unsubscribe(Local):
    """The client wants to hear no more of this thread."""

    thread_id: ThreadId


class Initialize(Local):
    params: m.InitializeParams


class ListModels(Local):
    """`hidden`: the retired ones, too. `provider` None: of every provider."""

    cursor: str | None = None
    limit: int | None = None
    hidden: bool = False
    provider: str | None = None


class ListConfig(Local):
    pass


class SetConfig(Local):
    id: str
    value: str


class ReadConfig(Local):
    pass


class ListLoaded(Local):
    cursor: str | None = None
    limit: int | None = None


class Fixed(Local):
    """A question of Codex's clients that has one answer here."""

    result: Json


class EmptyPage(Local):
    """A list of what we never have: threads in sections, threads of other programs."""


def decode(method: str, params: Params) -> commands.Command | Local:
    route = ROUTES.get(method)
    if route is None:
        raise UnknownMethod(f"no method {method!r}")
    return route(params)


# --- parts --------------------------------------------------------------------


def overrides(
    params: m.ThreadStartParams | m.ThreadResumeParams | m.ThreadForkParams,
) -> Overrides:
    return Overrides(
        model=params.model,
        cwd=directory(params.cwd),
        approval_policy=params.approval_policy,
        sandbox=sandbox(params.sandbox),
    )


def directory(path: str | None) -> str | None:
    if path is not None and (not path.startswith("/") or "\0" in path):
        raise InvalidCommand("cwd: must be an absolute path")
    return path


def sandbox(given: m.SandboxPolicy | None) -> policy.SandboxPolicy | None:
    match given:
        case None:
            return None
        case m.DangerFullAccess():
            return policy.DangerFullAccess()
        case m.ReadOnly():
            return policy.ReadOnly()
        case m.WorkspaceWrite(writable_roots=roots, network_access=network, network=hosts):
            wanted = policy.WorkspaceWrite(writable_roots=tuple(roots or ()), network_access=bool(network))
            return wanted if hosts is UNSET else replace(wanted, network=network_rules(hosts.allow, hosts.deny))
        case m.ExternalSandbox(network_access=network):
            return policy.ExternalSandbox(network_access=network or "restricted")
        case _ as never:
            assert_never(never)


def split_config(config: dict[str, str] | None) -> tuple[dict[str, str] | None, AgentName | None]:
    """What a `config` map asks for: the provider's options, and our own."""
    if config is None:
        return None, None
    options = {name: value for name, value in config.items() if name != AGENT_OPTION}
    return options or None, agent(config[AGENT_OPTION]) if AGENT_OPTION in config else None


def agent(word: str) -> AgentName:
    for name in AGENTS:
        if name == word:
            return name
    raise InvalidCommand(f"option {AGENT_OPTION!r} has no value {word!r}; its values are: {', '.join(AGENTS)}")


def content(inputs: Sequence[wire.UserInput]) -> tuple[domain.UserInput, ...]:
    if len(inputs) > MAX_INPUT_PARTS:
        raise InvalidCommand(f"input: has more than {MAX_INPUT_PARTS} parts")
    parts = [_part(part, f"input[{index}]") for index, part in enumerate(inputs)]
    said = tuple(part for part in parts if not (isinstance(part, domain.TextInput) and not part.text.strip()))
    if not said:
        raise InvalidCommand("input: is empty")
    return said


def _part(part: wire.UserInput, where: str) -> domain.UserInput:
    match part:
        case wire.TextInput(text=text):
            return domain.TextInput(text=text, meta=part.meta)
        case wire.ImageInput(url=url):
            if not url.lower().startswith(("https://", "http://", "data:image/")):
                raise InvalidCommand(f"{where}.url: must be an https:, http: or data:image/ URL")
            return domain.ImageInput(url=url, meta=part.meta)
        case wire.LocalImageInput(path=path):
            return domain.LocalImageInput(path=_path(path, where), meta=part.meta)
        case wire.FileInput(path=path):
            return domain.FileInput(path=_path(path, where), meta=part.meta)
        case _ as never:
            assert_never(never)


def _path(path: str, where: str) -> str:
    if not path or "\0" in path:
        raise InvalidCommand(f"{where}.path: is not a path")
    return path


# --- requests -----------------------------------------------------------------


def _initialize(params: Params) -> Initialize:
    return Initialize(params=read(params, m.InitializeParams))


def _thread_start(params: Params) -> commands.CreateThread:
    given = read(params, m.ThreadStartParams)
    return commands.CreateThread(overrides=overrides(given), meta=given.meta)


def _thread_resume(params: Params) -> commands.ResumeThread:
    given = read(params, m.ThreadResumeParams)
    return commands.ResumeThread(thread_id=thread_id(given.thread_id), overrides=overrides(given))


def _thread_fork(params: Params) -> commands.ForkThread:
    given = read(params, m.ThreadForkParams)
    return commands.ForkThread(
        thread_id=thread_id(given.thread_id),
        last_turn_id=None if given.last_turn_id is None else TurnId(given.last_turn_id),
        overrides=overrides(given),
        meta=given.meta,
    )


def _thread_list(params: Params) -> commands.ListThreads:
    given = read(params, m.ThreadListParams)
    return commands.ListThreads(
        cursor=given.cursor, limit=given.limit, archived=bool(given.archived), search=given.search_term or ""
    )


def _read_thread(
    params_type: type[m.ThreadReadParams | m.ThreadTurnsListParams | m.ThreadItemsListParams],
) -> Callable[[Params], commands.Command]:
    return lambda params: commands.ReadThread(thread_id=thread_id(read(params, params_type).thread_id))


def _of_thread(command: Callable[[ThreadId], commands.Command]) -> Callable[[Params], commands.Command]:
    return lambda params: command(thread_id(read(params, m.ThreadIdParams).thread_id))


def _unsubscribe(params: Params) -> Unsubscribe:
    return Unsubscribe(thread_id=thread_id(read(params, m.ThreadIdParams).thread_id))


def _thread_name(params: Params) -> commands.RenameThread:
    given = read(params, m.ThreadNameSetParams)
    return commands.RenameThread(thread_id=thread_id(given.thread_id), title=given.name)


def _changes(given: m.ThreadSettingsUpdateParams | m.TurnStartParams) -> Overrides:
    options, profile = split_config(given.config)
    return Overrides(
        model=given.model,
        cwd=directory(given.cwd),
        approval_policy=given.approval_policy,
        sandbox=sandbox(given.sandbox_policy),
        options=options,
        agent=profile,
    )


def _settings_update(params: Params) -> commands.ChangeSettings:
    given = read(params, m.ThreadSettingsUpdateParams)
    return commands.ChangeSettings(thread_id=thread_id(given.thread_id), overrides=_changes(given))


def _queue_add(params: Params) -> commands.SubmitPrompt:
    given = read(params, m.ThreadQueueAddParams)
    return commands.SubmitPrompt(
        thread_id=thread_id(given.thread_id),
        content=content(given.input),
        client_id=given.client_user_message_id,
        meta=given.meta,
    )


def _queue_delete(params: Params) -> commands.DropPrompt:
    given = read(params, m.ThreadQueueDeleteParams)
    return commands.DropPrompt(thread_id=thread_id(given.thread_id), prompt_id=PromptId(given.prompt_id))


def _turn_start(params: Params) -> commands.StartTurn:
    given = read(params, m.TurnStartParams)
    return commands.StartTurn(
        thread_id=thread_id(given.thread_id),
        content=content(given.input),
        overrides=_changes(given),
        client_id=given.client_user_message_id,
        meta=given.meta,
    )


def _turn_steer(params: Params) -> commands.SteerTurn:
    given = read(params, m.TurnSteerParams)
    return commands.SteerTurn(
        thread_id=thread_id(given.thread_id),
        content=content(given.input),
        turn_id=None if given.expected_turn_id is None else TurnId(given.expected_turn_id),
        meta=given.meta,
    )


def _turn_interrupt(params: Params) -> commands.InterruptTurn:
    given = read(params, m.TurnInterruptParams)
    return commands.InterruptTurn(thread_id=thread_id(given.thread_id), turn_id=TurnId(given.turn_id))


def _review_start(params: Params) -> commands.StartReview:
    given = read(params, m.ReviewStartParams)
    target = _target(given.target)
    return commands.StartReview(thread_id=thread_id(given.thread_id), target=target, reviewer=given.reviewer or "")


def _target(target: m.ReviewTarget) -> commands.ReviewTarget:
    match target:
        case m.UncommittedChanges():
            return commands.ReviewTarget(kind="uncommittedChanges")
        case m.BaseBranch(branch=branch):
            return commands.ReviewTarget(kind="baseBranch", text=_non_empty(branch, "branch"))
        case m.Commit(sha=sha):
            return commands.ReviewTarget(kind="commit", text=_non_empty(sha, "sha"))
        case m.Custom(instructions=instructions):
            return commands.ReviewTarget(kind="custom", text=_non_empty(instructions, "instructions"))
        case _ as never:
            assert_never(never)


def _non_empty(text: str, member: str) -> str:
    if not text.strip():
        raise InvalidCommand(f"target.{member}: must not be empty")
    return text


def _model_list(params: Params) -> ListModels:
    given = read(params, m.ModelListParams)
    return ListModels(
        cursor=given.cursor, limit=given.limit, hidden=bool(given.include_hidden), provider=given.model_provider
    )


def _loaded_list(params: Params) -> ListLoaded:
    given = read(params, m.PageParams)
    return ListLoaded(cursor=given.cursor, limit=given.limit)


def _of_thread_or(local: Local) -> Callable[[Params], commands.Command | Local]:
    def route(params: Params) -> commands.Command | Local:
        given = read(params, m.ConfigListParams).thread_id
        return local if given is None else commands.ReadThread(thread_id=thread_id(given))

    return route


def _config_set(params: Params) -> commands.ChangeSettings | SetConfig:
    given = read(params, m.ConfigSetParams)
    if given.thread_id is None:
        return SetConfig(id=given.id, value=given.value)
    options, profile = split_config({given.id: given.value})
    return commands.ChangeSettings(
        thread_id=thread_id(given.thread_id), overrides=Overrides(options=options, agent=profile)
    )


def _end_process(params: Params) -> commands.ListProcesses:
    given = read(params, m.ThreadProcessEndParams)
    return commands.ListProcesses(thread_id=thread_id(given.thread_id), end=given.process)


def _undo(params: Params) -> commands.UndoTurn:
    given = read(params, m.ThreadUndoParams)
    return commands.UndoTurn(
        thread_id=thread_id(given.thread_id),
        turn_id=None if given.turn_id is None else TurnId(given.turn_id),
        later=bool(given.later),
        redo=bool(given.redo),
        paths=tuple(given.paths or ()),
        overwrite=bool(given.overwrite),
        preview=bool(given.preview),
    )


def _servers(params: Params) -> commands.ListServers:
    given = read(params, m.McpServerStatusListParams)
    return commands.ListServers(thread_id=None if given.thread_id is None else thread_id(given.thread_id))


SPECIFIED: dict[str, Callable[[Params], commands.Command | Local]] = {
    "initialize": _initialize,
    "thread/start": _thread_start,
    "thread/resume": _thread_resume,
    "thread/list": _thread_list,
    "thread/archive": _of_thread(lambda thread_id: commands.ArchiveThread(thread_id=thread_id)),
    "turn/start": _turn_start,
    "turn/interrupt": _turn_interrupt,
    "review/start": _review_start,
    "model/list": _model_list,
    "config/list": _of_thread_or(ListConfig()),
    "config/set": _config_set,
    "config/read": _of_thread_or(ReadConfig()),
}

ADDED: dict[str, Callable[[Params], commands.Command | Local]] = {
    "thread/read": _read_thread(m.ThreadReadParams),
    "thread/fork": _thread_fork,
    "thread/unarchive": _of_thread(lambda thread_id: commands.ArchiveThread(thread_id=thread_id, archived=False)),
    "thread/delete": _of_thread(lambda thread_id: commands.DeleteThread(thread_id=thread_id)),
    "thread/name/set": _thread_name,
    "thread/compact": _of_thread(lambda thread_id: commands.CompactThread(thread_id=thread_id)),
    "thread/compact/start": _of_thread(lambda thread_id: commands.CompactThread(thread_id=thread_id)),
    "thread/settings/update": _settings_update,
    "thread/turns/list": _read_thread(m.ThreadTurnsListParams),
    "thread/items/list": _read_thread(m.ThreadItemsListParams),
    "thread/loaded/list": _loaded_list,
    "thread/unsubscribe": _unsubscribe,
    "thread/queue/add": _queue_add,
    "thread/queue/list": _of_thread(lambda thread_id: commands.ReadThread(thread_id=thread_id)),
    "thread/queue/delete": _queue_delete,
    "turn/steer": _turn_steer,
    "thread/processes/list": _of_thread(lambda thread_id: commands.ListProcesses(thread_id=thread_id)),
    "thread/processes/end": _end_process,
    "mcpServerStatus/list": _servers,
    "thread/undo": _undo,
    "worktree/list": worktree_requests.list_worktrees,
    "worktree/finish": worktree_requests.finish_worktree,
    "thread/context/read": _of_thread(lambda thread_id: commands.ReadContext(thread_id=thread_id)),
}
"""Beside the specification; told in `capabilities.methods`."""

ROUTES = {**SPECIFIED, **ADDED}
