"""MCP servers of a thread, and what people are told of them. Pure."""

from typing import Literal

from hames.domain.events import Noticed
from hames.domain.ids import TurnId
from hames.domain.json import Json
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
