"""A turn that somebody else's loop runs: the thread, held out to an agent by the handle it needs and no more."""

from collections.abc import Sequence

from msgspec.structs import replace

from hames.core.elicitation import Elicitations
from hames.core.questions import Questions
from hames.core.thread import Thread
from hames.core.turn import OUR_STREAMS
from hames.domain.approvals import Answer, Approval, Elicit, Harmless, Intent
from hames.domain.events import ItemCompleted, ItemStarted, Noticed, UsageReported
from hames.domain.ids import ApprovalId, ItemId, ThreadId, TurnId
from hames.domain.items import STREAMS, Item, Stream, UserMessage
from hames.domain.json import Json
from hames.domain.options import Settings
from hames.domain.policy import Decision
from hames.domain.state import Turn
from hames.domain.usage import Usage
from hames.ports import Ids


class AgentTurnWork:
    """Implements `ports.AgentTurn`."""

    def __init__(self, thread: Thread, turn_id: TurnId, *, model: str, questions: Questions, ids: Ids) -> None:
        self._thread = thread
        self._model = model
        self._questions = questions
        self._ids = ids
        self.turn_id = turn_id

    @property
    def thread_id(self) -> ThreadId:
        return self._thread.id

    @property
    def settings(self) -> Settings:
        return self._thread.state.settings

    @property
    def prompt(self) -> UserMessage:
        return next(item for item in self._turn.items if isinstance(item, UserMessage))

    @property
    def earlier(self) -> Sequence[Turn]:
        return [turn for turn in self._thread.state.turns if turn.id != self.turn_id]

    @property
    def forked_from(self) -> ThreadId | None:
        state = self._thread.state
        return None if state.foreign else state.forked_from

    def new_item_id(self) -> ItemId:
        return ItemId(self._ids.new("item"))

    async def start(self, item: Item) -> None:
        await self._thread.emit(ItemStarted(turn_id=self.turn_id, item=item))

    async def tell(self, item_id: ItemId, text: str, stream: Stream) -> None:
        if text:
            await self._thread.delta(self.turn_id, item_id, stream, text)

    async def complete(self, item: Item) -> None:
        told = next((there for there in self._turn.items if there.id == item.id), None)
        if told is not None:
            streams = {name: getattr(told, name) for name in OUR_STREAMS if name in STREAMS[type(item)]}
            item = replace(item, **streams)
        await self._thread.emit(ItemCompleted(turn_id=self.turn_id, item=item))

    async def ask(self, item_id: ItemId, intent: Intent, reason: str = "") -> tuple[Decision, str]:
        if isinstance(intent, Harmless):
            return "once", ""
        approval = Approval(
            id=ApprovalId(self._ids.new("apr")), turn_id=self.turn_id, item_id=item_id, intent=intent, reason=reason
        )
        answer = await self._questions.ask(self._thread, approval)
        return answer.decision, answer.note

    async def elicit(self, item_id: ItemId, intent: Elicit) -> Answer:
        turn = Elicitations(self._thread, self.turn_id, questions=self._questions, ids=self._ids)
        return await turn.ask(item_id, intent)

    async def report(self, usage: Usage) -> None:
        await self._thread.emit(UsageReported(turn_id=self.turn_id, model=self._model, usage=usage))

    async def notice(self, name: str, message: str, data: Json = None) -> None:
        source = self._model.partition("/")[0]
        await self._thread.emit(Noticed(source=source, name=name, message=message, turn_id=self.turn_id, data=data))

    @property
    def _turn(self) -> Turn:
        turn = self._thread.state.turn(self.turn_id)
        assert turn is not None
        return turn
