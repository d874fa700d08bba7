"""A turn in memory, for agents: what they write is folded and kept, what they ask is answered."""

from collections.abc import Awaitable, Callable

from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from hames.domain.approvals import Answer, Elicit, Intent
from hames.domain.events import Event, ItemCompleted, ItemDelta, ItemStarted, Record, TurnStarted
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import STREAMS, Item, Stream
from hames.domain.options import Settings, ThreadServer
from hames.domain.rulings import Ruling
from hames.domain.state import ThreadState, apply
from hames.ports import OwnTools, Task, TurnEvent


class FakeTurn:
    """Implements `ports.TurnHandle`. `on_event` is called with each event as it is written."""

    def __init__(self, state: ThreadState, task: Task, *, on_event: Callable[[Event], None] | None = None) -> None:
        self.step = 0
        self.continued = False
        self.turn_id = TurnId(f"turn_{len(state.turns) + 1}")
        self.state = state
        self.events: list[Event] = []
        self.asked: list[Intent | Elicit] = []
        self._items = 0
        self._on_event = on_event
        self._write(TurnStarted(turn_id=self.turn_id))
        if (message := getattr(task, "message", None)) is not None:
            self._write(ItemCompleted(turn_id=self.turn_id, item=message))

    @property
    def thread_id(self) -> ThreadId:
        return self.state.id

    @property
    def settings(self) -> Settings:
        return self.state.settings

    @property
    def mcp_servers(self) -> tuple[ThreadServer, ...]:
        return self.state.settings.mcp_servers

    def new_item_id(self) -> ItemId:
        self._items += 1
        return ItemId(f"{self.turn_id}_item_{self._items}")

    async def start(self, item: Item) -> None:
        await self.emit(ItemStarted(turn_id=self.turn_id, item=item))

    def append(self, item_id: ItemId, text: str, stream: Stream) -> Awaitable[None]:
        return self._emit(ItemDelta(turn_id=self.turn_id, item_id=item_id, stream=stream, text=text))

    async def complete(self, item: Item) -> None:
        shown = self.state.item(item.id)
        if shown is not None:
            item = replace(item, **{stream: getattr(shown, stream) for stream in STREAMS[type(item)]})
        await self.emit(ItemCompleted(turn_id=self.turn_id, item=item))

    async def emit(self, *events: TurnEvent) -> None:
        await self._emit(*events)

    @property
    def own_tools(self) -> OwnTools | None:
        return None

    async def find_denial(self, intent: Intent) -> str:  # noqa: ARG002
        await checkpoint()
        return ""

    async def ask(
        self,
        item_id: ItemId,  # noqa: ARG002
        intent: Intent | Elicit,
        reason: str = "",  # noqa: ARG002
        *,
        ruling: Ruling | None = None,  # noqa: ARG002
    ) -> Answer:
        await checkpoint()
        self.asked.append(intent)
        return Answer(decision="once")

    async def _emit(self, *events: Event) -> None:
        await checkpoint()  # yield where a disk would
        for event in events:
            self._write(event)

    def _write(self, event: Event) -> None:
        self.events.append(event)
        self.state = apply(
            self.state, Record(seq=self.state.seq + 1, at_ms=self.state.seq, thread_id=self.state.id, event=event)
        )
        if self._on_event is not None:
            self._on_event(event)
