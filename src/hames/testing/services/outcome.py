"""What a reply came to: the events of a stream, folded, and held to the port's promises."""

from collections.abc import Sequence
from contextlib import aclosing

import anyio

from hames.codecs.jsontext import parse_lenient, text_member
from hames.domain.errors import ProviderError
from hames.domain.items import Call
from hames.domain.json import Json
from hames.domain.request import (
    FREEFORM,
    CallBlock,
    Message,
    ModelEvent,
    ModelRequest,
    ProviderNotice,
    ReasoningBlock,
    ReasoningDelta,
    ReasoningEnded,
    ReplyEnded,
    ResultBlock,
    SearchEnded,
    SearchStarted,
    StopReason,
    SummaryDelta,
    TextBlock,
    TextDelta,
    TextEnded,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageSeen,
)
from hames.domain.usage import Usage
from hames.domain.value import Value
from hames.ports import Provider

LIMIT_SECONDS = 60


class Outcome(Value):
    """What a reply came to."""

    texts: tuple[str, ...] = ()
    thoughts: tuple[str, ...] = ()
    opaques: tuple[Json, ...] = ()
    calls: tuple[Call, ...] = ()
    searches: tuple[str, ...] = ()
    usage: Usage | None = None
    reason: StopReason = "unknown"
    word: str = ""
    notices: tuple[str, ...] = ()


def outcome(events: Sequence[ModelEvent]) -> Outcome:
    """Fold the events of one reply. Fails where they break the port's promises."""
    texts: dict[int, str] = {}
    thoughts: dict[int, str] = {}
    running: dict[int, str] = {}
    ended: set[int] = set()
    opaques: list[Json] = []
    calls: list[Call] = []
    searches: dict[int, str] = {}
    notices: list[str] = []
    usage, last = None, None
    for event in events:
        assert last is None, f"{event} after the reply ended"
        match event:
            case TextDelta(block=block, text=text):
                assert text and block not in ended
                texts[block] = texts.get(block, "") + text
            case ReasoningDelta(block=block, text=text) | SummaryDelta(block=block, text=text):
                assert text and block not in ended
                thoughts[block] = thoughts.get(block, "") + text
            case ToolCallStarted(block=block):
                assert block not in running | texts | thoughts
                running[block] = ""
            case ToolCallDelta(block=block, text=text):
                running[block] += text
            case TextEnded(block=block) | ReasoningEnded(block=block):
                assert block not in ended
                ended.add(block)
                if isinstance(event, ReasoningEnded):
                    opaques.append(event.opaque)
            case ToolCallEnded(block=block, call=call):
                assert running.pop(block) in (call.arguments, "", _plain_text(call))
                calls.append(call)
            case SearchStarted(block=block, query=query):
                searches[block] = query
            case SearchEnded(block=block, query=query):
                assert searches[block] in (query, ""), "a search that ended as another"
                searches[block] = query
            case UsageSeen(usage=usage):
                assert min(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) >= 0
            case ProviderNotice(name=name):
                notices.append(name)
            case ReplyEnded():
                last = event
    assert last is not None, "the stream ended without `ReplyEnded`"
    assert texts.keys() <= ended, "a text was left open"
    return Outcome(
        texts=tuple(texts.values()),
        thoughts=tuple(thoughts.values()),
        opaques=tuple(opaques),
        calls=tuple(calls),
        searches=tuple(searches.values()),
        usage=usage,
        reason=last.reason,
        word=last.word,
        notices=tuple(notices),
    )


async def heard(provider: Provider, request: ModelRequest) -> list[ModelEvent]:
    """All events of one reply, in bounded time."""
    with anyio.fail_after(LIMIT_SECONDS):
        return [event async for event in provider.stream(request)]


async def failed(provider: Provider, request: ModelRequest) -> tuple[list[ModelEvent], ProviderError]:
    """The events before the failure, and the failure; anything but `ProviderError` escapes."""
    events: list[ModelEvent] = []
    with anyio.fail_after(LIMIT_SECONDS):
        try:
            async with aclosing(provider.stream(request)) as stream:
                async for event in stream:
                    events.append(event)
        except ProviderError as error:
            return events, error
    raise AssertionError(f"nothing failed: {events}")


def said_and_done(provider: str, events: Sequence[ModelEvent]) -> tuple[Message, ...]:
    """A reply as history: what was said, then a result for each call."""
    got = outcome(events)
    thoughts = zip((*got.thoughts, *("",) * len(got.opaques)), got.opaques, strict=False)
    calls = [CallBlock(call=call) for call in got.calls]
    said = (
        *(ReasoningBlock(provider=provider, text=text, opaque=opaque) for text, opaque in thoughts),
        *(TextBlock(text=text) for text in got.texts),
        *calls,
    )
    done = tuple(ResultBlock(call=block.call, text="done") for block in calls)
    return (Message(role="assistant", blocks=said), *((Message(role="user", blocks=done),) if done else ()))


def _plain_text(call: Call) -> str:
    """What was written for a tool that takes plain text; such a call has it as its one argument."""
    try:
        arguments = parse_lenient(call.arguments.encode())
    except ValueError:
        return ""
    return text_member(arguments, FREEFORM)
