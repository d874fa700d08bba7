"""Cassettes: an exchange with a real model, recorded once and played back as a provider.

    HAMES_RECORD=hello.jsonl hames run --model anthropic/sonnet "…"     records
    hames run --model cassette/hello.jsonl "…"                          plays

A cassette is JSON lines: who was recorded, then one line for each request and what came of it. A request is
found by what people said and what the model called, not by what tools answered or the system prompt holds:
those differ from run to run. What was not recorded fails; nothing is recorded where changes are judged (CI=true).
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import get_args

import msgspec
from anyio.lowlevel import checkpoint

from hames.domain.errors import ErrorInfo, Misconfigured, ProviderError
from hames.domain.json import Json
from hames.domain.request import CallBlock, ModelEvent, ModelRequest, TextBlock
from hames.domain.value import Value
from hames.private_files import write_private
from hames.providers.failures import redact
from hames.providers.source import ModelService

FORMAT = 1
_KINDS: dict[str, type[ModelEvent]] = {kind.__name__: kind for kind in get_args(ModelEvent)}
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SHORTEST_SECRET = 8


class CassetteHead(Value):
    """The first line: which version of this format it is."""

    cassette: int


class Failure(Value):
    message: str
    retryable: bool = False
    status: int | None = None
    info: ErrorInfo = "Other"


class Exchange(Value):
    """One request and its reply. `said`: what people said and the model called, up to then."""

    provider: str
    model: str
    said: tuple[str, ...]
    tools: tuple[str, ...]
    events: tuple[dict[str, Json], ...]
    failure: Failure | None = None


def request_key(request: ModelRequest) -> tuple[str, ...]:
    """What a request is known by."""
    told: list[str] = []
    for message in request.messages:
        for block in message.blocks:
            if isinstance(block, TextBlock) and message.role == "user":
                told.append(f"user: {block.text}")
            elif isinstance(block, CallBlock):
                told.append(f"call: {block.call.name} {block.call.arguments}")
    return tuple(told)


class Recorder:
    """A cassette that is being recorded. Secrets of the environment, and whatever looks like one, are left out."""

    def __init__(self, path: str, environment: Mapping[str, str]) -> None:
        """Raises `Misconfigured` where nothing may be recorded, or nothing can be."""
        if environment.get("CI", "").lower() in ("true", "1"):
            raise Misconfigured("nothing is recorded while CI is set; record the cassette elsewhere and commit it")
        self._path = Path(path)
        self._secrets = tuple(
            value
            for name, value in environment.items()
            if any(part in name.upper() for part in _SECRET_NAMES) and len(value) >= _SHORTEST_SECRET
        )
        try:
            write_private(self._path, msgspec.json.encode(CassetteHead(cassette=FORMAT)) + b"\n")
        except OSError as error:
            raise Misconfigured(f"no cassette can be recorded at {path!r}: {error.strerror}") from None

    def keep(self, exchange: Exchange) -> None:
        """Raises `ProviderError`."""
        line = msgspec.json.encode(self._redact(msgspec.to_builtins(exchange)))
        try:
            with self._path.open("ab") as file:
                file.write(line + b"\n")
        except OSError as problem:
            raise ProviderError(f"the cassette {str(self._path)!r} cannot be written: {problem.strerror}") from None

    def _redact(self, value: Json) -> Json:
        match value:
            case str():
                return redact(value, self._secrets)
            case list() | tuple():
                return [self._redact(part) for part in value]
            case dict():
                return {name: self._redact(part) for name, part in value.items()}
            case _:
                return value


class RecordingProvider:
    """Passes everything on, and has it written down.

    A reply that was stopped in the middle is not recorded: nobody could play it to its end.
    """

    def __init__(self, provider: ModelService, recorder: Recorder) -> None:
        self.name = provider.name
        self._provider = provider
        self._recorder = recorder

    async def warm(self) -> None:
        await self._provider.warm()

    async def aclose(self) -> None:
        await self._provider.aclose()

    async def models(self) -> bytes:
        return await self._provider.models()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        told: list[ModelEvent] = []
        try:
            async with aclosing(self._provider.stream(request)) as events:
                async for event in events:
                    told.append(event)
                    yield event
        except ProviderError as error:
            self._record(request, told, error)
            raise
        self._record(request, told, None)

    def _record(self, request: ModelRequest, told: list[ModelEvent], error: ProviderError | None) -> None:
        failure = error and Failure(message=str(error), retryable=error.retryable, status=error.status, info=error.info)
        self._recorder.keep(
            Exchange(
                provider=self.name,
                model=request.model,
                said=request_key(request),
                tools=tuple(tool.name for tool in request.tools),
                events=tuple({type(event).__name__: msgspec.to_builtins(event)} for event in told),
                failure=failure,
            )
        )


class CassetteProvider:
    """Plays cassettes; the model's name is the path. Each exchange plays once in a thread."""

    name = "cassette"

    def __init__(self) -> None:
        self._cassettes: dict[str, tuple[Exchange, ...]] = {}
        self._played: set[tuple[str, str, int]] = set()

    def load(self, path: str) -> None:
        """Raises `Misconfigured` when there is no such cassette, or it is none."""
        if path not in self._cassettes:
            self._cassettes[path] = _read_cassette(path)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            self.load(request.model)
        except Misconfigured as error:
            raise ProviderError(str(error)) from None
        exchange = self._next(request)
        for told in exchange.events:
            await checkpoint()  # yield where a network would
            for name, event in told.items():
                yield msgspec.convert(event, _KINDS[name])
        if exchange.failure is not None:
            failure = exchange.failure
            raise ProviderError(failure.message, retryable=failure.retryable, status=failure.status, info=failure.info)

    def _next(self, request: ModelRequest) -> Exchange:
        """The first that was recorded for this and was not played. Raises `ProviderError`."""
        asked = tuple(redact(one, ()) for one in request_key(request))
        for number, exchange in enumerate(self._cassettes[request.model]):
            played = (request.model, request.cache_key, number)
            if exchange.said == asked and played not in self._played:
                self._played.add(played)
                return exchange
        last = asked[-1] if asked else "nothing"
        raise ProviderError(
            f"the cassette {request.model!r} has no (further) reply to {last[:80]!r}; "
            f"record it again with HAMES_RECORD={request.model}"
        )


def _read_cassette(path: str) -> tuple[Exchange, ...]:
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError:
        raise Misconfigured(f"no cassette at {path!r}; record one with HAMES_RECORD={path}") from None
    try:
        head = msgspec.json.decode(lines[0], type=CassetteHead)
        exchanges = tuple(msgspec.json.decode(line, type=Exchange) for line in lines[1:])
        for exchange in exchanges:
            for told in exchange.events:
                for name, event in told.items():
                    msgspec.convert(event, _KINDS[name])
    except (ValueError, KeyError, IndexError):
        raise Misconfigured(f"{path!r} is not a cassette; record it again with HAMES_RECORD={path}") from None
    if head.cassette != FORMAT:
        raise Misconfigured(f"{path!r} is a cassette of another version; record it again")
    return exchanges
