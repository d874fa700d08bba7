"""`.mcp.json`: the file other agents share for their MCP servers. Obeyed only in a trusted project."""

from typing import Annotated

import msgspec

from hames.domain.errors import Misconfigured
from hames.domain.value import Value

MCP_JSON = ".mcp.json"


class McpServer(Value):
    """A server to be started or reached, as the user's file or a trusted project names it."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    enabled: bool = True
    startup_timeout_sec: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 15.0
    """How long a thread waits for it to start."""


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
