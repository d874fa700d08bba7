"""What the agent may do: approval policies, sandbox policies, and what a person allowed for good.

Trust and approval remove the question, never the sandbox.
"""

from typing import Literal

from msgspec import UNSET, UnsetType

from hames.domain.network import NetworkRules
from hames.domain.value import Value

ApprovalPolicy = Literal["never", "onRequest", "unlessTrusted", "always"]
"""`never` asks nothing, `onRequest` asks before anything leaves the sandbox, `unlessTrusted` asks for risky actions,
`always` asks for everything."""

Decision = Literal["once", "always", "reject", "void"]
"""`void` is nobody's answer: the turn or the process ended before anyone gave one, or a form was put aside."""

ApprovalEnd = Literal["answered", "timedOut", "noClient", "withdrawn", "turnEnded"]
"""How an approval ended: a person or a client answered; its deadline passed; nobody who could answer was connected;
whoever asked no longer needs the answer; its turn ended first."""

DefaultAnswer = Literal["reject", "once"]
"""The answer of an approval that nobody answers in time."""

AfterCrash = Literal["go_on", "ask", "end"]
"""What becomes of a turn whose process stopped before the turn ended, when its thread is opened again."""

AlwaysScope = Literal["thread", "project"]
"""How far an `always` goes: exactly this, in this thread; or a rule that is kept for this project."""

AgentName = Literal["code", "plan", "review"]
"""A profile: `code` works, `plan` and `review` read and never write."""


class DangerFullAccess(Value, tag_field="type", tag="dangerFullAccess"):
    """No sandbox: commands can do everything that the user can do."""


class ReadOnly(Value, tag_field="type", tag="readOnly"):
    """Commands can write nothing and have no network."""


class WorkspaceWrite(Value, tag_field="type", tag="workspaceWrite", rename="camel"):
    """Commands can write only to the workspace and to `writableRoots`."""

    writable_roots: tuple[str, ...] = ()
    network_access: bool = False
    """Every public host may be reached."""
    network: NetworkRules | UnsetType = UNSET
    """The hosts that may be reached by name; about others a person is asked."""

    @property
    def hosts(self) -> NetworkRules | None:
        """`network`, if it is there."""
        return self.network if isinstance(self.network, NetworkRules) else None


class ExternalSandbox(Value, tag_field="type", tag="externalSandbox", rename="camel"):
    """Hames already runs in a container or the like, so it adds no sandbox. `networkAccess` is only shown to people."""

    network_access: Literal["restricted", "enabled"] = "restricted"


SandboxPolicy = DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox


class ScriptFile(Value):
    """A file that decides what a command does, as it was when the person was asked."""

    path: str
    """Absolute, as the command names it."""
    sha256: str
    """Of its content; empty when it cannot be read."""
    target: str = ""
    """Where it leads when it is a symbolic link."""


class CommandGrant(Value, tag="command"):
    """`always` for a command: these exact words in this directory, never a prefix or a pattern, and only while the
    scripts it names stay what they were."""

    command: str
    cwd: str
    unsandboxed: bool = False
    scripts: tuple[ScriptFile, ...] = ()


class FileChangeGrant(Value, tag="file_change"):
    """`always` for a file change: further changes of these files, but not their deletion."""

    paths: tuple[str, ...] = ()
    root: str = ""
    """In logs of earlier versions: the whole workspace. It allows nothing any more; nobody was told that it did."""


class McpGrant(Value, tag="mcp"):
    """`always` for an MCP tool: this tool of this server."""

    server: str
    tool: str


class HostGrant(Value, tag="host"):
    """`always` for a connection: this port of this host, for every command of the thread."""

    host: str
    port: int


Grant = CommandGrant | FileChangeGrant | McpGrant | HostGrant


def has_network(policy: SandboxPolicy) -> bool:
    """Whether a command behind this policy can reach anything, perhaps after a question."""
    match policy:
        case DangerFullAccess() | ExternalSandbox():
            return True
        case WorkspaceWrite(network_access=access, hosts=rules):
            return access or rules is not None
        case ReadOnly():
            return False


def reaches_every_host(policy: WorkspaceWrite) -> bool:
    """Whether it may reach every public host: what a boolean of another protocol or program can say."""
    return policy.network_access and not (policy.hosts and (policy.hosts.deny or policy.hosts.ask))
