"""MCP servers of a thread, and what people are told of them. Pure."""

from typing import Literal

from hames.domain.events import Noticed
from hames.domain.ids import TurnId
from hames.domain.json import Json
from hames.domain.turn_parts import Warned
from hames.domain.value import Value

ServerState = Literal["notStarted", "starting", "ready", "failed"]

NOTICE = "mcp_server"
"""The name of the notices about a server. Their `data` has `server`, `state` and `reason`."""


class ServerTool(Value):
    name: str
    description: str = ""
    schema: Json = None


class ServerStatus(Value):
    """How an MCP server of a thread is doing. They are started with the thread's first turn."""

    name: str
    state: ServerState
    reason: str = ""
    """Why it failed, in words for people."""
    tools: tuple[ServerTool, ...] = ()
    configured: bool = True
    """Named in the user's configuration; False: a client named it for this thread."""
    waited: bool = False
    """It takes long to start: people should know what is waited for."""


class ServerList(Value):
    servers: tuple[ServerStatus, ...]


def notice(before: ServerStatus | None, after: ServerStatus, turn_id: TurnId | None) -> Noticed | None:
    """What people are told of a change. A server that starts at once is not worth a word."""
    name, was = after.name, before.state if before is not None else "notStarted"
    match after.state:
        case "failed" if before is not None and was == "failed" and before.reason == after.reason:
            return None
        case "failed" if was == "ready":
            words = f"MCP server {name!r} stopped: {after.reason}. The next call to it tries to start it again"
        case "failed":
            words = f"MCP server {name!r} is not available: {after.reason}. This thread goes on without its tools"
            words += f"; `hames mcp test {name}` tries it again" if after.configured else ""
        case "starting" if after.waited:
            words = f"starting MCP server {name!r} …"
        case "ready" if was == "failed" or (before is not None and before.waited):
            words = f"MCP server {name!r} is ready"
        case _:
            return None
    return Noticed(
        source="hames",
        name=NOTICE,
        severity="warning" if after.state == "failed" else "info",
        message=words,
        turn_id=turn_id,
        data={"server": name, "state": after.state, "reason": after.reason},
    )


def warnings_after(warnings: tuple[Warned, ...], at_ms: int, said: Noticed) -> tuple[Warned, ...]:
    """A warning stays. That a server is waited for stays until more is known of it."""
    server = _server_of(said)
    if server is not None:
        warnings = tuple(one for one in warnings if not _is_waiting(one.notice) or _server_of(one.notice) != server)
    stays = said.severity == "warning" or _is_waiting(said)
    return (*warnings, Warned(at_ms=at_ms, notice=said)) if stays else warnings


def without_waiting(warnings: tuple[Warned, ...]) -> tuple[Warned, ...]:
    """When a turn ends nothing is waited for. The same tuple if nothing was."""
    kept = tuple(one for one in warnings if not _is_waiting(one.notice))
    return kept if len(kept) < len(warnings) else warnings


def _server_of(said: Noticed) -> Json:
    ours = said.source == "hames" and said.name == NOTICE
    return said.data.get("server") if ours and isinstance(said.data, dict) else None


def _is_waiting(said: Noticed) -> bool:
    return _server_of(said) is not None and isinstance(said.data, dict) and said.data.get("state") == "starting"
