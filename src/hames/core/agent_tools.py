"""Our own tools in the hands of another agent: it asks its client to run a command or to write a file.

Such a call goes the way of every tool call (`core/toolcall.py`): rules, approvals, sandbox, undo, an item.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
import msgspec
from anyio import to_thread

from hames.core.toolcall import carry_out, prepare_read
from hames.core.turn import LoopTurn, find_item
from hames.domain.approvals import Harmless
from hames.domain.errors import ProviderError
from hames.domain.ids import CallId, ItemId
from hames.domain.items import Call, Item, Stream, ToolItem, ToolResult
from hames.domain.json import Json
from hames.domain.request import ModelEvent, ModelRequest
from hames.ports import Place, ToolFailed

TEXT_BYTES = 8 << 20
CLOSE_SECONDS = 3.0


class NoProvider:
    """In a provider's place where an agent has a model of its own."""

    name = "none"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        raise ProviderError(f"{request.model!r} cannot answer a single model request")
        yield


class AgentTools:
    """Implements `ports.OwnTools`. `prepare` opens the tools; it is called with the first use."""

    def __init__(self, prepare: Callable[[], Awaitable[LoopTurn]]) -> None:
        self._prepare = prepare
        self._prepared: LoopTurn | None = None
        self._opening = anyio.Lock(fast_acquire=True)

    async def _open(self) -> LoopTurn:
        async with self._opening:
            if self._prepared is None:
                self._prepared = await self._prepare()
            return self._prepared

    async def use(
        self,
        name: str,
        arguments: dict[str, Json],
        *,
        item_id: ItemId,
        is_started: bool = False,
        is_approved: bool = False,
    ) -> Item:
        turn = await self._open()
        if name == "write":
            await _note_seen(turn, str(arguments.get("path")))
        call = Call(id=CallId(f"call_{item_id}"), name=name, arguments=msgspec.json.encode(arguments).decode())
        try:
            await carry_out(turn, call, item_id=item_id, is_started=is_started, is_approved=is_approved)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await _close(turn, item_id)
            raise
        return turn.item(item_id)

    async def read_text(self, path: str) -> str:
        turn = await self._open()
        work = await prepare_read(turn, path)  # raises for what may not be read
        if not isinstance(work.intent, Harmless) or not work.intent.reads:
            raise ToolFailed(f"{path!r} is not a file of the workspace")
        content = await to_thread.run_sync(_read, turn.place, work.intent.reads[0], abandon_on_cancel=True)
        await work.run(_say_nothing, turn.place.sandbox)
        return content.decode(errors="replace")


async def _close(turn: LoopTurn, item_id: ItemId) -> None:
    item = find_item(turn.handle, item_id)
    if isinstance(item, ToolItem) and item.status == "running":
        result = ToolResult(text="stopped by the agent that started it", failed=True)
        await turn.complete(item_id, "interrupted", result=result)


async def _note_seen(turn: LoopTurn, path: str) -> None:
    """Only who has read a file may replace it. This agent names the whole new content, so it has read it."""
    try:
        work = await prepare_read(turn, path)
        await work.run(_say_nothing, turn.place.sandbox)
    except ToolFailed:
        return  # a new file, or one that may not be read: then writing it fails as well


def _read(place: Place, path: str) -> bytes:
    for root in (place.workspace, *place.readable):
        prefix = root.rstrip("/") + "/"
        if path.startswith(prefix):
            with place.files.open(root) as directory:
                return directory.read(path.removeprefix(prefix), limit=TEXT_BYTES)
    raise ToolFailed(f"{path!r} is outside the workspace")


async def _say_nothing(text: str, stream: Stream = "output") -> None:
    """Nobody is told of it: the agent tells of its own calls."""
