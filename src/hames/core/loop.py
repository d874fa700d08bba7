"""The agent loop: ask, carry out, ask again.

One turn of the core specification is one `step` here. Tools run only after the
whole reply has arrived, so a reply that breaks off has had no effect and can be asked for again.
"""

import logging
from contextlib import aclosing
from typing import assert_never

import anyio
from msgspec.structs import replace

from hames.core import compaction
from hames.core.context import messages
from hames.core.progress import Progress
from hames.core.toolcall import carry_out_all, hold_tools
from hames.core.turn import LoopTurn
from hames.domain.errors import ProviderError, StepLimitReached
from hames.domain.events import (
    ItemCompleted,
    Noticed,
    StepVoided,
    ToolCalled,
    UsageReported,
)
from hames.domain.ids import CallId, ItemId
from hames.domain.items import (
    AgentMessage,
    Call,
    Citation,
    Item,
    ItemStatus,
    Reasoning,
    Stream,
    UserMessage,
    WebSearch,
    closed,
)
from hames.domain.request import (
    ModelRequest,
    ProviderNotice,
    ReasoningDelta,
    ReasoningEnded,
    ReplyEnded,
    SearchEnded,
    SearchStarted,
    SummaryDelta,
    TextDelta,
    TextEnded,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageSeen,
)
from hames.domain.usage import Usage
from hames.ports import TurnEvent

log = logging.getLogger(__name__)

BROKEN_REPLIES = 2
"""How often a reply that broke off in the middle is asked for again."""
REFUSED_REQUESTS = 8
"""How often a request that is too long for the model's window is shortened and made again."""
LEAST_REPLY = 4_096
"""So many tokens a reply may have, however full the window is."""

REPLY_CHARS = 8 << 20
"""No model says more in one reply; a service that goes on for ever would fill the memory and the disk. A character
counts as the bytes that it takes."""
BLOCK_CHARS = 8 << 10
"""Counted for each block, however short: many empty blocks are too much as well."""

_OURS = frozenset({"retry"})
"""The notices that are not the provider's."""

MESSAGE = AgentMessage(id=ItemId(""), step=0)
REASONING = Reasoning(id=ItemId(""), step=0)
SEARCH = WebSearch(id=ItemId(""), step=0, query="")


async def run_loop(turn: LoopTurn) -> str:
    """Runs steps until the model calls no more tools. Returns the model's own word for why it stopped."""
    progress = Progress(turn)
    for steps_left in range(turn.max_steps - 1, -1, -1):
        try:
            reply = await _ask(turn)
        except ProviderError:
            if not progress.may_end:
                raise
            return await progress.end()  # the answer was given before the model was asked to check it
        if reply.calls:
            await hold_tools(turn, reply.calls)
            await carry_out_all(turn, reply.calls)
            await progress.after_tools(reply.ended, steps_left)
            await turn.surroundings.after_tools(turn.handle, turn.settings)
        elif not reply.paused and not _steered(turn):
            if not (unfinished := progress.before_end(reply.ended)):
                return await progress.end()
            await progress.tell(unfinished)
    raise StepLimitReached(f"stopped after {turn.max_steps} model calls without a final answer")


class ModelReply:
    """A model reply as it arrives: the open item of each block, and the whole calls."""

    def __init__(self) -> None:
        self.items: dict[int, ItemId] = {}
        self.opened_at: dict[int, float] = {}
        self.calls: list[Call] = []
        self.usage: Usage | None = None
        self.ended: ReplyEnded | None = None
        self.anything = False
        self.message: AgentMessage | None = None
        """The message whose last text block has ended; the next text block goes on with it."""
        self.lengths: dict[ItemId, int] = {}
        """Of the text of each message."""
        self.block_starts: dict[int, int] = {}
        """Where each text block begins in its message."""
        self.counted = False
        """What it cost has been reported or estimated."""
        self.text_chars = 0
        self._chars = 0

    def grow_text(self, text: str) -> None:
        self.text_chars += len(text)
        self.grow(len(text) if text.isascii() else len(text.encode(errors="replace")))

    def grow(self, chars: int) -> None:
        """Raises `ProviderError` for a reply that is too long."""
        self._chars += chars
        if self._chars > REPLY_CHARS:
            raise ProviderError(f"the model's reply was longer than {REPLY_CHARS:,} characters, and was stopped")

    @property
    def paused(self) -> bool:
        return self.ended is not None and self.ended.reason == "pause"

    @property
    def word(self) -> str:
        return self.ended.word or self.ended.reason if self.ended else ""


async def _ask(turn: LoopTurn) -> ModelReply:
    """One whole reply. A reply that breaks off is closed as it is, and asked for again: nothing of it has run."""
    broken = refused = 0
    turn.gauge.measure(turn.system, turn.offered)
    while True:
        if turn.compacts and compaction.due(turn):
            await compaction.make_room(turn)
        if turn.budget is not None:
            await turn.budget.before_request()
        turn.handle.step += 1
        turn.user_messages_shown = _said_by_user(turn)
        reply, asked_at = ModelReply(), turn.clock.monotonic()
        log.debug("model.asked", extra=_logged(turn))
        try:
            await _listen(turn, reply)
            _check_ending(reply)
        except anyio.get_cancelled_exc_class():
            if cost := _cost(turn, reply):
                with anyio.CancelScope(shield=True):
                    await turn.handle.emit(*cost)
            raise
        except ProviderError as failure:
            log.info("model.failed", extra={**_logged(turn, asked_at), "why": str(failure), "info": failure.info})
            await _close(turn, reply, broken=True)
            if failure.info == "ContextWindowExceeded" and turn.compacts and refused < REFUSED_REQUESTS:
                refused += 1
                if await compaction.make_room(turn, refused=True):
                    continue
            if not failure.retryable or not reply.anything or broken >= BROKEN_REPLIES:
                raise
            broken += 1
            await _notice(turn, "retry", f"the connection was lost during the reply; asking again: {failure}")
            await turn.clock.sleep(0.5 * 2**broken)
        else:
            log.info("model.replied", extra={**_logged(turn, asked_at), "stop": reply.word, "calls": len(reply.calls)})
            return reply


def _logged(turn: LoopTurn, since: float | None = None) -> dict[str, object]:
    """The fields of a log line. Nothing that a person or a model said is among them."""
    took = {} if since is None else {"ms": round((turn.clock.monotonic() - since) * 1000)}
    return {"thread_id": turn.handle.thread_id, "model": turn.card.id, "step": turn.step, **took}


async def _listen(turn: LoopTurn, reply: ModelReply) -> None:
    shown = messages(turn.handle.state, turn.memory)
    room = turn.card.context_window - turn.gauge.tokens(shown, turn.handle.state.last_usage.context_tokens)
    turn.gauge.asked(shown)
    request = ModelRequest(
        model=turn.card.model,
        messages=shown,
        system=turn.system,
        tools=turn.offered,
        max_tokens=min(turn.max_tokens, max(room, LEAST_REPLY)),
        options=turn.settings.options,
        cache_key=turn.handle.thread_id,
    )
    async with aclosing(turn.provider.stream(request)) as events:
        async for event in events:
            match event:
                case TextDelta(block=block, text=text):
                    await _say(turn, reply, block, text)
                case ReasoningDelta(block=block, text=text):
                    await _stream(turn, reply, block, REASONING, text=text)
                case SummaryDelta(block=block, text=text):
                    await _stream(turn, reply, block, REASONING, text=text, stream="summary")
                case TextEnded():
                    await _end_text(turn, reply, event)
                case ReasoningEnded(block=block, opaque=opaque):
                    if block not in reply.items and opaque is not None:
                        await _open(turn, reply, block, REASONING)
                    took = turn.clock.monotonic() - reply.opened_at.get(block, turn.clock.monotonic())
                    provider = turn.provider.name
                    await _finish(turn, reply, block, provider=provider, opaque=opaque, duration_ms=round(took * 1000))
                case ToolCallStarted():
                    await _finish_message(turn, reply)
                    reply.anything = True
                    reply.grow(BLOCK_CHARS)
                case ToolCallDelta(text=text):
                    reply.anything = True
                    reply.grow_text(text)
                case ToolCallEnded(call=call):
                    await _call(turn, reply, call)
                case SearchStarted(block=block, query=query):
                    await _open(turn, reply, block, replace(SEARCH, query=query))
                case SearchEnded(block=block, query=query, opaque=opaque, failed=failed):
                    if block not in reply.items:
                        await _open(turn, reply, block, replace(SEARCH, query=query))
                    status: ItemStatus = "failed" if failed else "completed"
                    await _finish(turn, reply, block, status, query=query, provider=turn.provider.name, opaque=opaque)
                case UsageSeen(usage=usage):
                    reply.usage = usage
                    turn.gauge.replied(usage.context_tokens - usage.output_tokens)
                case ProviderNotice(name=name, message=message, data=data):
                    await _notice(turn, name, message, data)
                case ReplyEnded():
                    reply.ended = event
                case _ as never:
                    assert_never(never)
    await _close(turn, reply)


async def _stream(
    turn: LoopTurn, reply: ModelReply, block: int, blank: Item, *, text: str, stream: Stream = "text"
) -> None:
    reply.grow_text(text)
    item_id = reply.items.get(block) or await _open(turn, reply, block, blank)
    await turn.handle.append(item_id, text, stream)


async def _say(turn: LoopTurn, reply: ModelReply, block: int, text: str) -> None:
    """Text blocks that follow each other are one message: services cut an answer into blocks wherever they cite."""
    item_id = reply.items.get(block)
    if item_id is None:
        if reply.message is None or reply.message.id in reply.items.values():
            item_id = await _open(turn, reply, block, MESSAGE)
        else:
            reply.grow(BLOCK_CHARS)
            item_id = reply.items[block] = reply.message.id
        reply.block_starts[block] = reply.lengths.get(item_id, 0)
    reply.lengths[item_id] = reply.lengths.get(item_id, 0) + len(text)
    await _stream(turn, reply, block, MESSAGE, text=text)


async def _end_text(turn: LoopTurn, reply: ModelReply, ended: TextEnded) -> None:
    item_id = reply.items.pop(ended.block, None)
    if item_id is None:
        return
    before, start, length = _message_so_far(reply, item_id), reply.block_starts[ended.block], reply.lengths[item_id]
    cited = tuple(_moved(citation, start, length) for citation in ended.citations)
    reply.message = replace(before, id=item_id, citations=(*before.citations, *cited))
    if turn.text_block_ended is not None and isinstance(item := turn.item(item_id), AgentMessage):
        turn.text_block_ended(turn.handle.thread_id, item.text[start:])
    if ended.whole:
        await _finish_message(turn, reply)


def _message_so_far(reply: ModelReply, item_id: ItemId) -> AgentMessage:
    """The citations of a message, without its text."""
    return reply.message if reply.message is not None and reply.message.id == item_id else MESSAGE


def _moved(citation: Citation, by: int, length: int) -> Citation:
    """Counted from the beginning of the message instead of its block, and never beyond its end."""
    start, end = (min(max(place, 0) + by, length) for place in (citation.start, citation.end))
    return replace(citation, start=start, end=max(start, end))


async def _finish_message(turn: LoopTurn, reply: ModelReply) -> None:
    if (message := reply.message) is not None and message.id not in reply.items.values():
        reply.message = None
        await turn.complete(message.id, "completed", citations=message.citations)


async def _open(turn: LoopTurn, reply: ModelReply, block: int, blank: Item) -> ItemId:
    await _finish_message(turn, reply)
    reply.anything = True
    reply.grow(BLOCK_CHARS)
    item_id = reply.items[block] = turn.handle.new_item_id()
    reply.opened_at[block] = turn.clock.monotonic()
    await turn.handle.start(replace(blank, id=item_id, step=turn.step))
    return item_id


async def _finish(
    turn: LoopTurn, reply: ModelReply, block: int, status: ItemStatus = "completed", **fields: object
) -> None:
    item_id = reply.items.pop(block, None)
    if item_id is not None:
        await turn.complete(item_id, status, **fields)


async def _call(turn: LoopTurn, reply: ModelReply, call: Call) -> None:
    await _finish_message(turn, reply)
    reply.anything = True
    if any(call.id == other.id for other in reply.calls):  # some services repeat themselves; results need a name each
        call = replace(call, id=CallId(f"{call.id}_{len(reply.calls)}"))
    reply.calls.append(call)
    await turn.handle.emit(ToolCalled(turn_id=turn.turn_id, step=turn.step, call=call))


def _cost(turn: LoopTurn, reply: ModelReply) -> list[TurnEvent]:
    """What a reply cost, to be told once. Where a budget counts it, what the service did not say is estimated."""
    seen, reply.usage = reply.usage, None
    is_told_whole = seen is not None and seen != Usage() and reply.ended is not None
    if turn.budget is not None and reply.anything and not reply.counted and not is_told_whole:
        told = seen or Usage()
        said = max(told.output_tokens, round(reply.text_chars / turn.gauge.chars_per_token))
        asked = turn.gauge.asked_tokens if told.context_tokens == told.output_tokens else told.input_tokens
        seen = replace(told, input_tokens=asked, output_tokens=said)
    reply.counted = True
    return [] if seen is None else [UsageReported(turn_id=turn.turn_id, model=turn.card.id, usage=seen)]


async def _close(turn: LoopTurn, reply: ModelReply, *, broken: bool = False) -> None:
    """Completes the blocks that were never ended, and reports the usage.

    The calls of a broken reply stay in the history: the model reads that they did not run.
    """
    await _finish_message(turn, reply)
    events: list[TurnEvent] = [
        ItemCompleted(turn_id=turn.turn_id, item=_cut_off(reply, turn.item(item_id), broken=broken))
        for item_id in reply.items.values()
    ]
    reply.items.clear()
    reply.message = None  # its last block was among them
    if broken and reply.anything and not reply.calls:
        events.append(StepVoided(turn_id=turn.turn_id, step=turn.step))
    events += _cost(turn, reply)
    if events:
        await turn.handle.emit(*events)


def _cut_off(reply: ModelReply, item: Item, *, broken: bool) -> Item:
    """An item whose block never ended, as it is."""
    if isinstance(item, AgentMessage):
        item = replace(item, citations=_message_so_far(reply, item.id).citations)
    return closed(item, "interrupted" if broken else "completed")


def _check_ending(reply: ModelReply) -> None:
    """Raises `ProviderError` for a reply that did not end well."""
    match reply.ended:
        case None:
            raise ProviderError("the reply was incomplete", retryable=True, info="ResponseStreamDisconnected")
        case ReplyEnded(reason="context_exceeded"):
            raise ProviderError("the conversation no longer fits the model's window", info="ContextWindowExceeded")
        case ReplyEnded(reason="refusal"):
            raise ProviderError("the model refused to answer this", info="Refusal")
        case _:
            pass


async def _notice(turn: LoopTurn, name: str, message: str, data: object = None) -> None:
    source = "hames" if name in _OURS else turn.provider.name
    await turn.handle.emit(Noticed(source=source, name=name, message=message, turn_id=turn.turn_id, data=data))


def _said_by_user(turn: LoopTurn) -> int:
    return sum(isinstance(item, UserMessage) for item in turn.items)


def _steered(turn: LoopTurn) -> bool:
    """The user said something that the model has not been shown."""
    return _said_by_user(turn) > turn.user_messages_shown
