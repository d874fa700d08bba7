"""Which models there are, and who serves them. Data and lookups; only `refresh` and `warm` touch the network.

A provider is imported and built when its first model is used, so that starting up
costs nothing for services that are not. Keys come in with the environment that was
handed over; nobody here looks around for one.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec.structs import replace

from hames.domain.errors import HarnessError, Misconfigured, ProviderError, UnknownModel
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.ports import Clock, Provider
from hames.providers import claude, discovery
from hames.providers.compatible_servers import SERVERS
from hames.providers.discovery import Listed, Remembered
from hames.providers.shelves import (
    CLOUDS,
    AnthropicShelf,
    CassetteShelf,
    CloudShelf,
    CompatibleShelf,
    OpenAIShelf,
    ScriptedShelf,
)

if TYPE_CHECKING:
    from hames.providers.cassette import Recorder

DEFAULT_MODEL = f"{claude.PROVIDER}/{claude.DEFAULT}"
RECORD = "HAMES_RECORD"
"""The variable that names the file every exchange with a model is recorded in."""


class Shelf(Protocol):
    """One provider's part of the catalogue."""

    name: str

    @property
    def usable(self) -> bool:
        """Whether there is what it takes to ask it: a key, an address. Not whether it answers."""
        ...

    def cards(self) -> Sequence[ModelCard]: ...

    def selectors(self) -> Sequence[Selector]: ...

    def known(self, model: str) -> ModelCard | None:
        """By the provider's own name for it; None if it is not listed."""
        ...

    def named(self, model: str) -> ModelCard:
        """Asked for by `provider/model`: taken at its word. Raises `UnknownModel` when it cannot be."""
        ...

    def provider(self, card: ModelCard) -> Provider:
        """Raises `Misconfigured`."""
        ...


@runtime_checkable
class Learning(Protocol):
    """A shelf that can be taught by its service's own list of models."""

    @property
    def url(self) -> str: ...

    def learn(self, listed: Sequence[Listed]) -> None: ...


@runtime_checkable
class Listing(Protocol):
    """A provider whose service has a list of models."""

    async def models(self) -> bytes:
        """Raises `ProviderError`."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A provider that holds connections."""

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


class Catalogue:
    """All shelves as one `Models`."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        clock: Clock,
        default: str = DEFAULT_MODEL,
        scripts: Mapping[str, str] | None = None,
        shelves: Sequence[Shelf] = (),
        cache: Path | None = None,
    ) -> None:
        """`scripts` are names for script files; `shelves` come beside the ones that are built in;
        `cache` is a directory where services' own lists of models are remembered."""
        own: tuple[Shelf, ...] = (
            AnthropicShelf(environment, clock),
            *(CloudShelf(name, clock) for name in CLOUDS),
            OpenAIShelf(environment, clock),
            *(CompatibleShelf(server, environment, clock) for server in SERVERS),
            ScriptedShelf(scripts or {}, clock),
            CassetteShelf(),
        )
        self._shelves = {shelf.name: shelf for shelf in (*own, *shelves)}
        self._environment = environment
        self._clock = clock
        self._default = default
        self._cache = cache
        self._recalled = cache is None
        self._providers: dict[str, Provider] = {}
        self._recorder: Recorder | None = None

    @property
    def default(self) -> str:
        return self._default

    def cards(self) -> Sequence[ModelCard]:
        return [_marked(shelf, card) for shelf in self._taught() for card in shelf.cards()]

    def selectors(self) -> Sequence[Selector]:
        """One of each: shelves that offer the same choice offer it together."""
        offered: dict[tuple[str, object], Selector] = {}
        for shelf in self._taught():
            for selector in shelf.selectors():
                key = (selector.id, selector.choices)
                there = offered.get(key)
                models = (*there.models, *selector.models) if there is not None else selector.models
                offered[key] = replace(there or selector, models=models)
        return list(offered.values())

    def find(self, name: str) -> ModelCard:
        provider, slash, model = name.partition("/")
        shelves = self._taught()
        if slash and provider in self._shelves:
            return _marked(self._shelves[provider], self._shelves[provider].named(model))
        for shelf in shelves:
            if (card := shelf.known(name)) is not None:
                return _marked(shelf, card)
        raise UnknownModel(f"no model {name!r}; {self._suggestion(name)}")

    def provider(self, card: ModelCard) -> Provider:
        if card.provider not in self._shelves:
            raise Misconfigured(f"nobody serves models of {card.provider!r}")
        if card.provider not in self._providers:
            self._providers[card.provider] = self._recorded(self._shelves[card.provider].provider(card))
        return self._providers[card.provider]

    def _recorded(self, provider: Provider) -> Provider:
        path = self._environment.get(RECORD, "").strip()
        if not path or provider.name == CassetteShelf.name:
            return provider
        from hames.providers.cassette import Recorder, RecordingProvider

        if self._recorder is None:
            self._recorder = Recorder(path, self._environment)
        return RecordingProvider(provider, self._recorder)

    def refreshable(self) -> Sequence[str]:
        """Providers that have a list of models and everything it takes to ask for it."""
        found: list[str] = []
        for shelf in self._shelves.values():
            with suppress(Misconfigured):
                if isinstance(shelf, Learning) and isinstance(shelf.provider(_anything(shelf.name)), Listing):
                    found.append(shelf.name)
        return found

    async def refresh(self, name: str) -> int:
        """Ask a service for its own list, and remember it. How many models there were.

        Raises `Misconfigured` and `ProviderError`; `InvalidCommand` for a provider nobody knows.
        """
        shelf = self._shelves.get(name)
        if shelf is None or not isinstance(shelf, Learning):
            raise UnknownModel(f"{name!r} has no list of models")
        provider = self.provider(_anything(name))
        if not isinstance(provider, Listing):
            raise UnknownModel(f"{name!r} has no list of models")
        try:
            listed = discovery.read(await provider.models())
        except (ValueError, RecursionError):
            raise ProviderError(f"{name} sent no list of models; check its address") from None
        shelf.learn(listed)
        if self._cache is not None:
            kept = Remembered(url=shelf.url, at_ms=self._clock.now_ms(), models=listed)
            discovery.remember(self._cache, name, kept)
        return len(listed)

    async def warm(self, card: ModelCard) -> None:
        """Have the provider ready before its first request. Raises `Misconfigured`.

        A server whose models only it knows is asked for them; whether it answers is not waited for by anybody.
        """
        provider = self.provider(card)
        if isinstance(provider, Closing):
            await provider.warm()
        if isinstance(self._shelves[card.provider], CompatibleShelf):
            with suppress(HarnessError):
                await self.refresh(card.provider)

    async def aclose(self) -> None:
        for provider in self._providers.values():
            if isinstance(provider, Closing):
                await provider.aclose()
        self._providers.clear()

    def _taught(self) -> Sequence[Shelf]:
        """The shelves, with what was remembered the last time."""
        if not self._recalled and self._cache is not None:
            self._recalled = True
            for shelf in self._shelves.values():
                if isinstance(shelf, Learning) and (listed := discovery.recall(self._cache, shelf.name, shelf.url)):
                    shelf.learn(listed)
        return list(self._shelves.values())

    def _suggestion(self, name: str) -> str:
        import difflib

        names = {card.model: card.id for card in self.cards() if not card.successor}
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        return "did you mean " + " or ".join(names[n] for n in near) if near else f"try {self._default}"


def _marked(shelf: Shelf, card: ModelCard) -> ModelCard:
    """The card, which says whether its provider has what it takes to be asked. Whether it answers is not known here."""
    return card if shelf.usable else replace(card, usable=False)


def _anything(provider: str) -> ModelCard:
    """No model in particular."""
    return ModelCard(provider=provider, model="", display_name=provider)
