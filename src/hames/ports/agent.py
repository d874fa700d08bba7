"""Agents: who carries out a turn. Our own loop is one of them, beside Codex and a sandbox runner."""

from collections.abc import Awaitable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from hames.domain.approvals import Answer, Elicit, Intent
from hames.domain.commands import ReviewTarget
from hames.domain.events import (
    ContextAdded,
    ContextTrimmed,
    ItemCompleted,
    ItemStarted,
    Noticed,
    StepVoided,
    ToolCalled,
    UsageReported,
)
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import Item, Stream, UserMessage
from hames.domain.json import NOTHING, Json
from hames.domain.options import Settings, ThreadServer
from hames.domain.rulings import Ruling
from hames.domain.servers import ServerStatus
from hames.domain.state import ThreadState
from hames.domain.value import Value


class Prompt(Value):
    message: UserMessage
    output_schema: Json = NOTHING
    """The JSON Schema that the final answer has to match."""


class Review(Value):
    """`message` is the target in our own words, for agents that have no review of their own."""

    target: ReviewTarget
    message: UserMessage
    model: str = ""
    """The model of this review alone; empty: the thread's."""


class Compact(Value):
    """Summarize the conversation so far, so that the model is shown less of it."""


Task = Prompt | Review | Compact

Ability = Literal["review", "compact", "steer", "instructions", "outputSchema", "mcpServers", "clientTools", "continue"]
"""What not every agent can do. A task that needs a missing one is refused before the turn starts.

`outputSchema`: it tells its model of the schema itself; for others the schema becomes a part of the prompt.
`instructions` are those of a client, with its base instructions and the personality. `mcpServers` and `clientTools` are
the servers and tools that a client brings for its thread. `continue`: it can go on with a turn whose process stopped.
"""

TurnEvent = (
    ItemStarted | ItemCompleted | ToolCalled | StepVoided | UsageReported | Noticed | ContextAdded | ContextTrimmed
)
"""What an agent may write into the log of its turn."""


class OwnTools(Protocol):
    """Our own tools, for an agent that asks its client to run commands and to write files.

    Rules, approvals, sandbox and undo hold as they do for our own loop, and each use is an item of the turn.
    """

    async def use(
        self,
        name: str,
        arguments: dict[str, Json],
        *,
        item_id: ItemId,
        is_started: bool = False,
        is_approved: bool = False,
    ) -> Item:
        """Returns the item as it ended, whatever happened. `is_started`: the item is there already, and runs.
        `is_approved`: a person agreed to exactly this already.

        It may be cancelled: then the item is completed as interrupted.
        """
        ...

    async def read_text(self, path: str) -> str:
        """A file of the workspace, unless a rule forbids it. Raises `ToolFailed`."""
        ...


class TurnHandle(Protocol):
    """A running turn as its agent sees it, and the agent's only way to write.

    Every item is started once and completed once. Items that are still open when the agent returns are closed for it.
    """

    step: int
    """The number of the model reply that is under way. What users say meanwhile belongs to it."""

    @property
    def continued(self) -> bool:
        """Another process began this turn, and stopped. What it left open is closed, except questions."""
        ...

    @property
    def thread_id(self) -> ThreadId: ...

    @property
    def turn_id(self) -> TurnId: ...

    @property
    def state(self) -> ThreadState:
        """The thread as it is now; the last of its turns is this one."""
        ...

    @property
    def settings(self) -> Settings: ...

    @property
    def mcp_servers(self) -> tuple[ThreadServer, ...]:
        """The servers that a client named for this thread, with the values that the settings do not keep."""
        ...

    def new_item_id(self) -> ItemId: ...

    async def start(self, item: Item) -> None: ...

    def append(self, item_id: ItemId, text: str, stream: Stream) -> Awaitable[None]:
        """Adds text to one stream of an open item."""
        ...

    async def complete(self, item: Item) -> None:
        """The item as it ended. Its streams are filled in from what was appended."""
        ...

    async def emit(self, *events: TurnEvent) -> None:
        """Writes events of this turn as they are, all in one write."""
        ...

    @property
    def own_tools(self) -> OwnTools | None:
        """None: nothing runs on this machine. They are opened when the first of them is used."""
        ...

    async def find_denial(self, intent: Intent) -> str:
        """Why this may not happen whoever is asked: a rule, or a mode that changes nothing. Empty: nothing forbids it.

        For an agent whose question is answered without a person.
        """
        ...

    async def ask(
        self, item_id: ItemId, intent: Intent | Elicit, reason: str = "", *, ruling: Ruling | None = None
    ) -> Answer:
        """A person's decision about a started item. Waits for it; cancel it when the answer is no longer needed.

        `ruling` is what was decided about it before; without one, a rule that denies it answers.
        """
        ...


class AgentThread(Protocol):
    """An agent's side of one thread: its tools, a process, the name of a session elsewhere."""

    @property
    def abilities(self) -> frozenset[Ability]: ...

    async def run(self, task: Task, turn: TurnHandle) -> str:
        """Carries out the task and returns the agent's own word for why it stopped.

        Raises `HarnessError` and nothing else. It may be cancelled at any await, and nothing it started outlives that.
        """
        ...

    async def steer(self, message: UserMessage) -> None:
        """Passes on what a user says while `run` runs. The message is in the log once this returns.

        Raises `InvalidCommand` when the running turn cannot take it.
        """
        ...

    def servers(self) -> Mapping[str, ServerStatus]:
        """The MCP servers of this thread's tools by name. Those that have not been started are started now."""
        ...


class Agent(Protocol):
    """Opened for a thread when it is first needed, and closed when the thread is unloaded."""

    @property
    def name(self) -> str: ...

    def open(self, state: ThreadState) -> AbstractAsyncContextManager[AgentThread]: ...
