"""The calls of its own tools that a client has been sent, and the threads whose tools it carries out."""

from hames.domain.commands import Command, CreateThread, ForkThread, ResumeThread
from hames.domain.events import Event, ItemCompleted, ItemStarted
from hames.domain.ids import ItemId, ThreadId
from hames.domain.items import ToolCall
from hames.domain.state import ThreadState
from hames.protocols.flint.dialect import FlintDialect
from hames.protocols.rpc_session import Ask

DECLARED, OPENED = 2, 1


class ToolCalls:
    """A call is sent after its item has been told, though it may be made before."""

    def __init__(self) -> None:
        self.ranks: dict[ThreadId, int] = {}
        self._items: set[ItemId] = set()
        self._waiting: dict[ItemId, Ask] = {}
        self._open: set[str] = set()

    def opened(self, thread_id: ThreadId, command: Command, dialect: FlintDialect) -> None:
        """Who declares tools carries them out. A Codex client does not declare them again when it resumes a thread."""
        if not isinstance(command, CreateThread | ResumeThread | ForkThread):
            return
        if command.overrides.client_tools:
            self.ranks[thread_id] = DECLARED
        elif dialect.is_codex:
            self.ranks.setdefault(thread_id, OPENED)

    def ask(self, asked: Ask, item_id: ItemId) -> list[Ask]:
        """What is sent now."""
        self._open.add(asked.approval_id)
        if item_id in self._items:
            return [asked]
        self._waiting[item_id] = asked
        return []

    def answered(self, request_id: str) -> bool:
        """Whether this was such a call. It is no longer open then."""
        known = request_id in self._open
        self._open.discard(request_id)
        self._waiting = {item_id: one for item_id, one in self._waiting.items() if one.approval_id != request_id}
        return known

    def note_items(self, state: ThreadState) -> None:
        """A client that has just come to a thread knows the items of its running turn."""
        if state.running is not None:
            self._items |= {item.id for item in state.running.items if isinstance(item, ToolCall)}

    def started(self, event: Event) -> list[Ask]:
        """The call that waited for this item to be told."""
        match event:
            case ItemStarted(item=ToolCall(id=item_id)):
                self._items.add(item_id)
                waiting = self._waiting.pop(item_id, None)
                return [waiting] if waiting is not None else []
            case ItemCompleted(item=ToolCall(id=item_id)):
                self._items.discard(item_id)
                return []
            case _:
                return []
