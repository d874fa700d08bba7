"""Approvals over SSE and sync: the members of the question that both have, and the body of an answer."""

from typing import Literal

from hames.domain.grants import AlwaysCovers
from hames.domain.items import FileUpdate
from hames.domain.json import Json
from hames.domain.policy import AlwaysScope
from hames.domain.value import Value


class Question(Value, rename="camel"):
    """Members of other kinds are empty."""

    id: str
    tool_call_id: str
    kind: Literal["command", "file", "mcp", "tool", "elicitation"]
    reason: str = ""
    command: str = ""
    cwd: str = ""
    unsandboxed: bool = False
    why: str = ""
    host: str = ""
    """The question is whether the command may connect to this host and port."""
    changes: tuple[FileUpdate, ...] = ()
    protected: bool = False
    server: str = ""
    tool: str = ""
    input: Json = None
    always_covers: AlwaysCovers | None = None
    """What `always` would allow; null: nothing, so it is not offered."""
    project_covers: AlwaysCovers | None = None
    """What `always` with the scope `project` would allow; null: nothing, so it is not offered."""


class ApprovalAnswer(Value):
    """`content` is the completed form of an elicitation, as its `requestedSchema` describes."""

    decision: Literal["once", "always", "reject"]
    note: str = ""
    content: Json = None
    scope: AlwaysScope = "thread"
    """How far `always` goes: `project` keeps the rule that was offered."""
