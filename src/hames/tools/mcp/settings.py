"""MCP servers as they are started, and how those become so that a client named for its thread."""

from collections.abc import Mapping

from hames.domain.options import ThreadServer
from hames.domain.value import Value

START_SECONDS = 15.0


class McpServerSettings(Value):
    """A program to start, or an address to reach."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    start_seconds: float = START_SECONDS
    """How long it may take to start."""
    call_seconds: float = 0.0
    """How long a call may take; 0: as long as usual."""
    cwd: str = ""
    """Where the program runs; empty: in the thread's directory."""
    enabled_tools: tuple[str, ...] | None = None
    """Only these are offered; None: all of them."""
    disabled_tools: tuple[str, ...] = ()
    problem: str = ""
    """Why it cannot be started at all."""
    configured: bool = True
    """By the user; False: a client named it for its thread."""


def thread_server(server: ThreadServer, environment: Mapping[str, str]) -> McpServerSettings:
    """A server that a client named for its thread, as it is started. `environment` is the harness's own."""
    named = {name: environment.get(name) for name in server.env_vars}
    env = {name: value for name, value in (named | server.env).items() if value is not None}
    headers = dict(server.headers) | {name: environment.get(name_of) for name, name_of in server.env_headers.items()}
    if server.bearer_token_env_var and (token := environment.get(server.bearer_token_env_var)) is not None:
        headers["Authorization"] = f"Bearer {token}"
    return McpServerSettings(
        name=server.name,
        command=server.command,
        args=server.args,
        env=env,
        url=server.url,
        headers={name: value for name, value in headers.items() if value is not None},
        start_seconds=server.start_seconds or START_SECONDS,
        call_seconds=server.call_seconds,
        cwd=server.cwd,
        enabled_tools=server.enabled_tools,
        disabled_tools=server.disabled_tools,
        problem=_missing(server, environment),
        configured=False,
    )


def _missing(server: ThreadServer, environment: Mapping[str, str]) -> str:
    """Which values nobody knows, in words; empty: none is missing."""
    lost = [name for name, value in (server.env | server.headers).items() if value is None]
    if lost:
        return (
            f"the value of {', '.join(lost)} is not saved with the thread;"
            " name the server again in `config.mcp_servers` of thread/resume"
        )
    named = (*server.env_headers.values(), *filter(None, [server.bearer_token_env_var]))
    unset = [name for name in named if name not in environment]
    return f"the environment variable {', '.join(unset)} is not set where Hames runs" if unset else ""
