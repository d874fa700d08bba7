"""Selectors: what a provider lets people choose, as data that any client can render."""

from typing import Literal

from msgspec import field
from msgspec.structs import replace

from hames.domain.budgets import Budgets
from hames.domain.json import Json
from hames.domain.policy import AfterCrash, AgentName, ApprovalPolicy, SandboxPolicy, WorkspaceWrite
from hames.domain.rules import Rule
from hames.domain.value import Value

Personality = Literal["none", "friendly", "pragmatic"]
"""How the agent words what it says."""


class Choice(Value):
    id: str
    name: str
    description: str = ""


class Selector(Value):
    """One thing to choose. `models` empty: it applies to every model."""

    id: str
    name: str
    choices: tuple[Choice, ...]
    default: str
    description: str = ""
    group: str = ""
    models: tuple[str, ...] = ()


class ThreadServer(Value, omit_defaults=True):
    """An MCP server that a client named for one thread: a program to start, or an address to reach.

    The values of `env` and `headers` may be secrets, so the log has their names only: a value of None was not kept.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    cwd: str = ""
    """Where the program runs; empty: in the thread's directory."""
    env: dict[str, str | None] = {}
    env_vars: tuple[str, ...] = ()
    """Environment variables of the harness that the program gets as well."""
    url: str = ""
    headers: dict[str, str | None] = {}
    env_headers: dict[str, str] = {}
    """Headers whose values are in environment variables of the harness: the header's name to the variable's."""
    bearer_token_env_var: str = ""
    """The environment variable of the harness that has the token for `url`."""
    start_seconds: float = 0.0
    """How long it may take to start; 0 leaves it to the harness."""
    call_seconds: float = 0.0
    """How long a call of its tools may take; 0 leaves it to the harness."""
    enabled_tools: tuple[str, ...] | None = None
    """Only these of its tools are offered; None: all of them."""
    disabled_tools: tuple[str, ...] = ()


class ClientTool(Value, omit_defaults=True):
    """A tool that the client carries out itself: the call is sent to it, and its answer goes to the model."""

    name: str
    description: str
    schema: Json
    namespace: str = ""


class Settings(Value, omit_defaults=True):
    """How a thread runs. A turn's overrides become the thread's settings.

    What decides about safety has a factory, because members with a plain default are left out of the log, and a log
    must not depend on the defaults of the version that reads it.
    """

    model: str
    """`provider/model`."""
    cwd: str
    approval_policy: ApprovalPolicy = field(default_factory=lambda: "unlessTrusted")
    sandbox: SandboxPolicy = field(default_factory=WorkspaceWrite)
    agent: AgentName = field(default_factory=lambda: "code")
    options: dict[str, str] = {}
    """Selector id to choice id; what is not named has its default."""
    instructions: str = ""
    """Added to the system prompt."""
    base_instructions: str = ""
    """Takes the place of our own system prompt; empty: ours."""
    mode_instructions: str = ""
    """Added behind `instructions` while the client's collaboration mode lasts."""
    personality: Personality = "none"
    mcp_servers: tuple[ThreadServer, ...] = ()
    """The servers of this thread alone, beside the configured ones. Without the values of `env` and `headers`."""
    client_tools: tuple[ClientTool, ...] = ()
    rules: tuple[Rule, ...] = ()
    """Rules of this thread alone, beside those of the configuration."""
    max_steps: int = 0
    """Model calls a turn may take; 0 leaves it to the engine."""
    max_tokens: int = 0
    """Tokens a reply may have; 0 leaves it to the model's own limit."""
    budgets: Budgets = Budgets()
    """Of this thread and each of its turns, beside those of the configuration: the lower limit counts."""
    after_crash: AfterCrash | None = None
    """What becomes of a turn whose process stopped, when the thread is opened again; None: as configured."""
    place: str = ""
    """Which nodes of a shared store may run its turns: `node:NAME`, `label:NAME`; empty: any."""


class Overrides(Value):
    """What a client may change with a turn. None: as it was."""

    model: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: SandboxPolicy | None = None
    workspace_roots: tuple[str, ...] | None = None
    """Directories that belong to the workspace beside `cwd`: commands may write there if they may write at all."""
    agent: AgentName | None = None
    options: dict[str, str] | None = None
    instructions: str | None = None
    base_instructions: str | None = None
    mode_instructions: str | None = None
    personality: Personality | None = None
    mcp_servers: tuple[ThreadServer, ...] | None = None
    """All servers of the thread, with their values."""
    client_tools: tuple[ClientTool, ...] | None = None
    """All tools of the client's own."""
    after_crash: AfterCrash | None = None
    rules: tuple[Rule, ...] | None = None
    """All rules of the thread's own."""
    budgets: Budgets | None = None
    """All budgets of the thread's own."""


def without_values(server: ThreadServer) -> ThreadServer:
    """The server as the log keeps it: the names of its environment variables and headers, and no values."""
    return replace(server, env=dict.fromkeys(server.env), headers=dict.fromkeys(server.headers))
