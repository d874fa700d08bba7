"""From the parameters of a request to commands. Raises `InvalidCommand` and nothing else.

A client may leave out `mcpServers`, and null is like leaving out: old clients send such requests.
"""

from typing import TypeVar

import msgspec

from hames.codecs.jsonrpc_peer import Params
from hames.domain import commands
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ThreadId
from hames.domain.items import TextInput
from hames.domain.json import Json
from hames.domain.options import Overrides, ThreadServer
from hames.domain.value import Value
from hames.protocols.acp.client_features import ClientFeatures
from hames.protocols.acp.content import read_prompt
from hames.protocols.acp.listing import CURSOR
from hames.protocols.acp.messages import v1 as m
from hames.protocols.acp.outbound import COMMANDS
from hames.protocols.acp.permissions import ElicitationModes

V = TypeVar("V", bound=Value)

PAGE = 50
"""Sessions in one answer of `session/list`."""


class OpenSession(Value):
    """A request that opens a thread that is there already."""

    thread_id: ThreadId
    resume: commands.ResumeThread | None
    """What changes the thread's settings first."""
    replay: bool
    after: int | None = None
    """Only what came after this record is replayed."""


def read(params: Params, shape: type[V]) -> V:
    """Raises `InvalidCommand` that names the member."""
    try:
        return msgspec.convert({name: value for name, value in params.items() if value is not None}, shape)
    except msgspec.ValidationError as why:
        words, found, path = str(why).rpartition(" - at `$")
        member = path.removesuffix("`").removeprefix(".") if found else ""
        raise InvalidCommand(f"{member or 'params'}: {words if found else why}") from None


def protocol_version(params: Params) -> int:
    """The one that is spoken from now on: the client's, or the nearest that we know. Raises `InvalidCommand`."""
    asked = params.get("protocolVersion")
    if not isinstance(asked, int) or isinstance(asked, bool) or not 0 <= asked <= 0xFFFF:
        raise InvalidCommand("protocolVersion: must be a number from 0 to 65535")
    return 2 if asked >= 2 else 1


def client_features(params: Params, version: int) -> ClientFeatures:
    """What is malformed is not offered, and nothing more: a later version may have another shape for it.

    Version 2 has notices and compaction for every client.
    """
    told = params.get("clientCapabilities" if "clientCapabilities" in params else "capabilities")
    elicitation = _at(told, "elicitation")
    return ClientFeatures(
        read_files=_at(told, "fs", "readTextFile") is True,
        write_files=_at(told, "fs", "writeTextFile") is True,
        terminals=_at(told, "terminal") is True,
        notices=version == 2 or isinstance(_at(told, "session", "notices"), dict),
        compaction=version == 2 or isinstance(_at(told, "session", "compaction"), dict),
        terminal_output=_at(told, "_meta", "terminal_output") is True,
        terminal_login=_at(told, "auth", "terminal") is True or isinstance(_at(told, "auth", "terminal"), dict),
        elicitation=ElicitationModes(
            form=isinstance(_at(elicitation, "form"), dict), url=isinstance(_at(elicitation, "url"), dict)
        ),
    )


def _at(value: Json, *path: str) -> Json:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def session_id(params: Params) -> ThreadId:
    found = params.get("sessionId")
    if not isinstance(found, str) or not found:
        raise InvalidCommand("sessionId: must be a string that is not empty")
    return ThreadId(found)


def cancelled_call(params: Params) -> tuple[ThreadId, str]:
    """The session and the tool call, or its terminal: both have the id of the item."""
    named = params.get("toolCallId" if "toolCallId" in params else "terminalId")
    if not isinstance(named, str) or not named:
        raise InvalidCommand("toolCallId or terminalId: must be a string that is not empty")
    return session_id(params), named


def new_session(params: Params) -> commands.CreateThread:
    return commands.CreateThread(overrides=_place(params, needs_cwd=True))


def fork_session(params: Params) -> commands.ForkThread:
    return commands.ForkThread(thread_id=session_id(params), overrides=_place(params, needs_cwd=False))


def open_session(params: Params, *, replay: bool) -> OpenSession:
    """A thread keeps its own directory: another client may be at work there."""
    thread_id, overrides = session_id(params), _place(params, needs_cwd=False)
    match params.get("replayFrom"):
        case None:
            pass
        case {"type": "start"}:
            replay = True
        case _:
            raise InvalidCommand("replayFrom: the only position is {'type': 'start'}")
    after = _at(params, "_meta", CURSOR, "seq")
    if after is not None and (not isinstance(after, int) or isinstance(after, bool) or after < 0):
        raise InvalidCommand(f"_meta.{CURSOR}.seq: must be a number")
    resume = commands.ResumeThread(thread_id=thread_id, overrides=overrides) if overrides != Overrides() else None
    return OpenSession(thread_id=thread_id, resume=resume, replay=replay or after is not None, after=after)


def list_sessions(params: Params) -> commands.ListThreads:
    given = read(params, m.ListSessionsRequest)
    if given.cwd is not None:
        _directory(given.cwd, "cwd")
    return commands.ListThreads(limit=PAGE, cursor=given.cursor, cwds=() if given.cwd is None else (given.cwd,))


def prompt(params: Params) -> commands.SubmitPrompt | commands.CompactThread | commands.StartReview:
    given = read(params, m.PromptRequest)
    thread_id = session_id(params)
    content = read_prompt(given.prompt)
    match content:
        case (TextInput(text=text),) if text.startswith("/"):
            name, _, rest = text[1:].strip().partition(" ")
            if name in COMMANDS:
                return _command(thread_id, name, rest.strip())
        case _:
            pass
    return commands.SubmitPrompt(thread_id=thread_id, content=content)


def _command(thread_id: ThreadId, name: str, rest: str) -> commands.CompactThread | commands.StartReview:
    if name == "compact":
        return commands.CompactThread(thread_id=thread_id)
    reviewer, rest = commands.split_reviewer(rest)
    target = (
        commands.ReviewTarget(kind="custom", text=rest) if rest else commands.ReviewTarget(kind="uncommittedChanges")
    )
    return commands.StartReview(thread_id=thread_id, target=target, reviewer=reviewer)


def typed(params: Params) -> str:
    """The text of a prompt as it came."""
    blocks = params.get("prompt")
    return "".join(one.get("text", "") for one in blocks or () if isinstance(one, dict))


def config_choice(params: Params) -> tuple[ThreadId, str, str]:
    given = read(params, m.SetSessionConfigOptionRequest)
    if not isinstance(given.value, str):
        raise InvalidCommand("value: must be the id of one of the option's values")
    return session_id(params), given.config_id, given.value


def _place(params: Params, *, needs_cwd: bool) -> Overrides:
    """Where a session works, and the MCP servers that the client brings."""
    cwd = params.get("cwd")
    if not isinstance(cwd, str):
        raise InvalidCommand("cwd: must be an absolute path")
    _directory(cwd, "cwd")
    roots = _listed(params, "additionalDirectories")
    for root in roots:
        if not isinstance(root, str):
            raise InvalidCommand("additionalDirectories: must be a list of absolute paths")
        _directory(root, "additionalDirectories")
    servers = enumerate(_listed(params, "mcpServers"))
    brought = tuple(_server(server, f"mcpServers[{index}]") for index, server in servers)
    if len({server.name for server in brought}) < len(brought):
        raise InvalidCommand("mcpServers: two of them have the same name")
    return Overrides(
        cwd=cwd if needs_cwd else None,
        workspace_roots=tuple(roots) or None,
        mcp_servers=brought or None,
    )


def _listed(params: Params, member: str) -> list[Json]:
    given = params.get(member)
    if given is not None and not isinstance(given, list):
        raise InvalidCommand(f"{member}: must be a list")
    return given or []


def _directory(path: str, member: str) -> None:
    if not path.startswith("/") or "\0" in path:
        raise InvalidCommand(f"{member}: must be an absolute path")


def _server(given: Json, where: str) -> ThreadServer:
    match given:
        case {"type": "http", "name": str(name), "url": str(url)} if name and url:
            return ThreadServer(name=name, url=url, headers=_pairs(given.get("headers"), f"{where}.headers"))
        case {"type": "sse"}:
            raise InvalidCommand(f"{where}: the transport 'sse' is not supported; use 'http' or a command")
        case {"name": str(name), "command": str(command)} if name and command and given.get("type", "stdio") == "stdio":
            args = given.get("args") or []
            if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
                raise InvalidCommand(f"{where}.args: must be a list of strings")
            env = _pairs(given.get("env"), f"{where}.env")
            return ThreadServer(name=name, command=command, args=tuple(args), env=env)
        case _:
            raise InvalidCommand(f"{where}: needs a name, and a command or a url with the type 'http'")


def _pairs(given: Json, where: str) -> dict[str, str | None]:
    """ACP has lists of names and values where others have maps."""
    found: dict[str, str | None] = {}
    for one in given if isinstance(given, list) else []:
        match one:
            case {"name": str(name), "value": str(value)}:
                found[name] = value
            case _:
                raise InvalidCommand(f"{where}: needs names and values")
    return found
