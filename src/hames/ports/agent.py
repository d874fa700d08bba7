"""Agents: who carries out a turn. Our own loop is one of them."""

from collections.abc import Sequence
from typing import Protocol

from hames.domain.approvals import Answer, Elicit, Intent
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import Item, Stream, UserMessage
from hames.domain.json import Json
from hames.domain.options import Settings
from hames.domain.policy import Decision
from hames.domain.state import Turn
from hames.domain.usage import Usage


class AgentTurn(Protocol):
    """A turn in an agent's hands: what was asked, and how it tells what it does.

    Every item is started once and completed once; `complete` fills its streams from what was told. What is still open
    when the agent returns is closed for it.
    """

    @property
    def thread_id(self) -> ThreadId: ...

    @property
    def turn_id(self) -> TurnId: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def prompt(self) -> UserMessage: ...

    @property
    def earlier(self) -> Sequence[Turn]:
        """The thread's turns before this one, oldest first, whoever ran them."""
        ...

    @property
    def forked_from(self) -> ThreadId | None:
        """The thread whose history this one began with. Its turns have the same names there."""
        ...

    def new_item_id(self) -> ItemId: ...

    async def start(self, item: Item) -> None: ...

    async def tell(self, item_id: ItemId, text: str, stream: Stream) -> None: ...

    async def complete(self, item: Item) -> None: ...

    async def ask(self, item_id: ItemId, intent: Intent, reason: str = "") -> tuple[Decision, str]:
        """A person's decision about a started item, and a note. Waits for it."""
        ...

    async def elicit(self, item_id: ItemId, intent: Elicit) -> Answer:
        """A person's answer to what an MCP server of the agent's asks. Waits for it."""
        ...

    async def report(self, usage: Usage) -> None: ...

    async def notice(self, name: str, message: str, data: Json = None) -> None: ...


class Agent(Protocol):
    """Somebody with a loop of its own: the same items, approvals and endings as ours.

    `run` returns its own word for why it stopped, and raises `ProviderError` and nothing else. It may be
    cancelled at any await, and nothing it started outlives that.
    """

    name: str

    async def run(self, turn: AgentTurn) -> str: ...
