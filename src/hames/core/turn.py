"""A turn at work: what the loop needs to know, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from hames.core.context import Memory
from hames.core.questions import Questions
from hames.core.thread import Thread
from hames.domain.events import ItemCompleted, ItemStarted
from hames.domain.ids import ItemId, TurnId
from hames.domain.items import Item, ItemStatus, Stream
from hames.domain.models import ModelCard
from hames.domain.notes import Note
from hames.domain.options import Settings
from hames.domain.state import Turn
from hames.ports import Clock, Ids, Place, Provider, Tool, Trust

OUR_STREAMS: tuple[Stream, ...] = ("text", "summary", "output")


@dataclass(slots=True)
class TurnWork:
    """Mutable in one respect: `step` counts model replies."""

    thread: Thread
    turn_id: TurnId
    settings: Settings
    card: ModelCard
    provider: Provider
    tools: Mapping[str, Tool]
    place: Place
    system: str
    trust: Trust
    questions: Questions
    clock: Clock
    ids: Ids
    max_steps: int
    max_tokens: int
    memory: Memory = field(default_factory=Memory)
    compacts: bool = True
    notes: tuple[Note, ...] = ()
    step: int = 0
    steered: int = field(default=0)
    """How many of the turn's user messages the model has been shown."""

    @property
    def turn(self) -> Turn:
        turn = self.thread.state.turn(self.turn_id)
        assert turn is not None
        return turn

    def item(self, item_id: ItemId) -> Item:
        """An item of this turn. Looked for from the end: it is nearly always there."""
        item = next((item for item in reversed(self.turn.items) if item.id == item_id), None)
        assert item is not None
        return item

    def new_item_id(self) -> ItemId:
        return ItemId(self.ids.new("item"))

    async def start(self, item: Item) -> None:
        await self.thread.emit(ItemStarted(turn_id=self.turn_id, item=item))

    async def tell(self, item_id: ItemId, text: str, stream: Stream) -> None:
        if text:
            await self.thread.delta(self.turn_id, item_id, stream, text)

    async def complete(self, item: Item) -> None:
        """The item as it ended, with everything that was streamed into it."""
        await self.thread.emit(ItemCompleted(turn_id=self.turn_id, item=item))

    async def complete_open(self, item_id: ItemId, status: ItemStatus, **fields: object) -> None:
        await self.complete(replace(self.item(item_id), status=status, **fields))
