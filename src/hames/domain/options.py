"""Selectors: what a provider lets people choose, as data that any client can render."""

from hames.domain.policy import AgentName, ApprovalPolicy, SandboxPolicy, WorkspaceWrite
from hames.domain.value import Value


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


class Settings(Value):
    """How a thread runs. A turn's overrides become the thread's settings."""

    model: str
    """`provider/model`."""
    cwd: str
    approval_policy: ApprovalPolicy = "unlessTrusted"
    sandbox: SandboxPolicy = WorkspaceWrite()
    agent: AgentName = "code"
    options: dict[str, str] = {}
    """Selector id to choice id; what is not named has its default."""
    instructions: str = ""
    """Added to the system prompt."""
    max_steps: int = 0
    """Model calls a turn may take; 0 leaves it to the engine."""
    max_tokens: int = 0
    """Tokens a reply may have; 0 leaves it to the model's own limit."""


class Overrides(Value):
    """What a client may change with a turn. None: as it was."""

    model: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: SandboxPolicy | None = None
    agent: AgentName | None = None
    options: dict[str, str] | None = None
    instructions: str | None = None
