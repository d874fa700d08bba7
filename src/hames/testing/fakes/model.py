"""A model in the test's own hands. A script reads like a conversation:

    model = ScriptedModel([call("shell", command="ls")], [say("Done.")])
    ...
    model.assert_finished()

Each list is one reply. A script that no longer matches is a failure, not a warning:
a call too many fails the turn, and `assert_finished` fails for one too many or too few.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import assert_never

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from hames.domain.errors import ErrorInfo, ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.domain.request import (
    ModelEvent,
    ModelRequest,
    ProviderNotice,
    ReasoningDelta,
    ReasoningEnded,
    ReplyEnded,
    SearchEnded,
    SearchStarted,
    StopReason,
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
from hames.providers.single_model import SingleModel


class Said(Value):
    text: str
    pieces: int
    cut: bool = False


class Thought(Value):
    text: str
    pieces: int
    opaque: Json
    cut: bool = False


class ModelCalled(Value):
    name: str
    arguments: str
    call_id: str
    pieces: int
    cut: bool = False


class Searched(Value):
    query: str
    failed: bool


class ModelFailed(Value):
    message: str
    retryable: bool
    status: int | None
    info: ErrorInfo


class Hung(Value):
    pass


class Waited(Value):
    until: anyio.Event


class Stopped(Value):
    reason: StopReason
    word: str


class Counted(Value):
    usage: Usage


class ModelTold(Value):
    event: ModelEvent


Step = Said | Thought | ModelCalled | Searched | ModelFailed | Hung | Waited | Stopped | Counted | ModelTold


def say(text: str, *, pieces: int = 2, cut: bool = False) -> Step:
    """A text block. `cut`: the block never stops, as before a failure."""
    return Said(text=text, pieces=pieces, cut=cut)


def think(text: str, *, pieces: int = 2, opaque: Json = "signed", cut: bool = False) -> Step:
    return Thought(text=text, pieces=pieces, opaque=opaque, cut=cut)


def call(name: str, /, **arguments: Json) -> Step:
    return call_raw(name, msgspec.json.encode(arguments).decode())


def call_raw(name: str, arguments: str, *, call_id: str = "", pieces: int = 2, cut: bool = False) -> Step:
    """A call whose arguments may be anything. `cut`: it is begun and never ended."""
    return ModelCalled(name=name, arguments=arguments, call_id=call_id, pieces=pieces, cut=cut)


def search(query: str, *, failed: bool = False) -> Step:
    return Searched(query=query, failed=failed)


def fail(
    message: str = "the service failed",
    *,
    retryable: bool = False,
    status: int | None = None,
    info: ErrorInfo = "InternalServerError",
) -> Step:
    return ModelFailed(message=message, retryable=retryable, status=status, info=info)


def hang() -> Step:
    """Silence until the stream is closed. `ScriptedModel.hanging` is set when it begins."""
    return Hung()


def wait_for(event: anyio.Event) -> Step:
    """Silence until the test says so."""
    return Waited(until=event)


def stop(reason: StopReason, word: str = "") -> Step:
    """Why the reply ended, where it is not `tools` after a call and `end` otherwise."""
    return Stopped(reason=reason, word=word or reason)


def usage(**tokens: int) -> Step:
    return Counted(usage=Usage(**tokens))


def notice(name: str, message: str = "") -> Step:
    return ModelTold(event=ProviderNotice(name=name, message=message))


def tell(event: ModelEvent) -> Step:
    """Any event at all."""
    return ModelTold(event=event)


class ScriptedModel:
    """A `Provider` that says what it was told to, and remembers what it was asked."""

    def __init__(self, *replies: Sequence[Step], name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self.hanging = anyio.Event()
        self.open_streams = 0
        """How many were begun and neither ended nor closed."""
        self._replies = list(replies)
        self._unexpected = 0
        self._news = anyio.Event()

    def add(self, *replies: Sequence[Step]) -> None:
        self._replies += replies

    async def asked(self, times: int) -> None:
        """Returns when the model has been asked that often."""
        while len(self.requests) < times:
            await self._news.wait()

    def assert_finished(self) -> None:
        asked, scripted = len(self.requests), len(self._replies)
        assert asked == scripted, f"the model was asked {asked} times, and the script has {scripted} replies"
        assert not self._unexpected

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        number = len(self.requests)
        self.requests.append(request)
        self._news.set()
        self._news = anyio.Event()
        self.open_streams += 1
        try:
            await checkpoint()
            if number >= len(self._replies):
                self._unexpected += 1
                raise ProviderError(f"the script has {len(self._replies)} replies and was asked for one more")
            async for event in self._play(number, self._replies[number]):
                yield event
        finally:
            self.open_streams -= 1

    async def _play(self, number: int, reply: Sequence[Step]) -> AsyncGenerator[ModelEvent, None]:
        ending, spent = ReplyEnded(reason="end", word="end"), Usage(input_tokens=10, output_tokens=5)
        for block, step in enumerate(reply):
            match step:
                case ModelFailed():
                    raise ProviderError(step.message, retryable=step.retryable, status=step.status, info=step.info)
                case Hung():
                    self.hanging.set()
                    await anyio.sleep_forever()
                case Waited(until=until):
                    await until.wait()
                case Stopped(reason=reason, word=word):
                    ending = ReplyEnded(reason=reason, word=word)
                case Counted(usage=spent):
                    pass
                case Said() | Thought() | ModelCalled() | Searched() | ModelTold():
                    if isinstance(step, ModelCalled) and not step.cut and ending.reason == "end":
                        ending = ReplyEnded(reason="tools", word="tools")
                    for event in _events(step, block, f"call_{number}_{block}"):
                        await checkpoint()  # yield where a network would, or tests of timing test nothing
                        yield event
                case _ as never:
                    assert_never(never)
        await checkpoint()
        yield UsageSeen(usage=spent)
        yield ending


def _events(
    step: Said | Thought | ModelCalled | Searched | ModelTold, block: int, call_id: str
) -> Iterator[ModelEvent]:
    match step:
        case Said(text=text):
            yield from (TextDelta(block=block, text=piece) for piece in _cut(text, step.pieces))
            if not step.cut:
                yield TextEnded(block=block)
        case Thought(text=text):
            yield from (ReasoningDelta(block=block, text=piece) for piece in _cut(text, step.pieces))
            if not step.cut:
                yield ReasoningEnded(block=block, opaque=step.opaque)
        case ModelCalled(name=name, arguments=arguments):
            yield ToolCallStarted(block=block, name=name)
            yield from (ToolCallDelta(block=block, text=piece) for piece in _cut(arguments, step.pieces))
            if not step.cut:
                call_id = step.call_id or call_id
                yield ToolCallEnded(block=block, call=Call(id=CallId(call_id), name=name, arguments=arguments))
        case Searched(query=query):
            yield SearchStarted(block=block, query=query)
            yield SearchEnded(block=block, query=query, opaque=["found"], failed=step.failed)
        case ModelTold(event=event):
            yield event
        case _ as never:
            assert_never(never)


def _cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[start : start + size] for start in range(0, len(text), size)]


class OneModel(SingleModel):
    """A `Models` with a single model in it."""

    def __init__(
        self, provider: Provider, card: ModelCard | None = None, *, selectors: Sequence[Selector] = ()
    ) -> None:
        test = ModelCard(provider=provider.name, model="test", display_name="Test", reasoning=True, web_search=True)
        super().__init__(provider, card or test, selectors=selectors)
