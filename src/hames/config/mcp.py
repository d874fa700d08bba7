"""`.mcp.json`: the file other agents share for their MCP servers. Obeyed only in a trusted project."""

from typing import Annotated

import msgspec

from hames.domain.errors import Misconfigured
from hames.domain.options import ThreadServer
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
    env_http_headers: dict[str, str] = {}
    """HTTP headers whose values are in environment variables: the header's name and the variable's."""
    bearer_token_env_var: str = ""
    """The environment variable with the token for `url`."""
    env_vars: tuple[str, ...] = ()
    """Your environment variables that the program gets as well, by name."""
    cwd: str = ""
    """The directory that the program runs in; by default that of the thread."""
    enabled: bool = True
    """`false` turns the server off."""
    startup_timeout_sec: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 15.0
    """How many seconds a thread waits for it to start."""
    tool_timeout_sec: Annotated[float, msgspec.Meta(ge=0, le=86400)] = 0.0
    """How many seconds a call of one of its tools may take. 0 is the usual limit."""
    enabled_tools: tuple[str, ...] | None = None
    """Only these of its tools are offered to the model. Without it all are."""
    disabled_tools: tuple[str, ...] = ()
    """These of its tools are not offered."""

    def named(self, name: str) -> ThreadServer:
        """The same with its name, for whoever starts it."""
        return ThreadServer(
            name=name,
            command=self.command,
            args=self.args,
            cwd=self.cwd,
            env=dict(self.env),
            env_vars=self.env_vars,
            url=self.url,
            headers=dict(self.headers),
            env_headers=self.env_http_headers,
            bearer_token_env_var=self.bearer_token_env_var,
            start_seconds=self.startup_timeout_sec,
            call_seconds=self.tool_timeout_sec,
            enabled_tools=self.enabled_tools,
            disabled_tools=self.disabled_tools,
        )


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
