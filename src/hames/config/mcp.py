"""`.mcp.json`: the file other agents share for their MCP servers. Obeyed only in a trusted project."""

from typing import Annotated

import msgspec

from hames.domain.errors import Misconfigured
from hames.domain.value import Value

MCP_JSON = ".mcp.json"


class McpServer(Value):
    """A server to be started or reached, as the user's file or a trusted project names it.

    The sentences under the fields are their lines in docs/configuration.md.
    """

    command: str = ""
    """The program to start: a path, or a name on the PATH."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: dict[str, str] = {}
    """Environment variables for it, in addition to HOME, PATH and a few more."""
    url: str = ""
    """The address of a server that is already running, instead of `command`."""
    headers: dict[str, str] = {}
    """HTTP headers for `url`."""
    enabled: bool = True
    """`false` turns the server off."""
    startup_timeout_sec: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 15.0
    """How many seconds a thread waits for it to start."""


class _File(Value, rename={"servers": "mcpServers"}):
    servers: dict[str, McpServer] = {}


def read_mcp_json(data: bytes) -> dict[str, McpServer]:
    """Raises `Misconfigured`."""
    if not data.strip():
        return {}
    try:
        return msgspec.json.decode(data, type=_File).servers
    except (msgspec.DecodeError, RecursionError) as problem:
        raise Misconfigured(f"{MCP_JSON}: {problem}") from None
