"""Which models there are, and who serves them. Data and lookups; only `refresh` and `warm` touch the network.

A provider is imported and built when its first model is used, so that starting up
costs nothing for services that are not used. Keys come from the environment that is
passed in, and from nowhere else.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hames.domain.errors import HarnessError, Misconfigured, ProviderError, UnknownModel
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.ports import Clock
from hames.providers import model_list
from hames.providers.anthropic import models
from hames.providers.anthropic.source import CLOUDS, AnthropicSource, CloudSource
from hames.providers.chat.servers import SERVERS
from hames.providers.chat.source import ChatSource
from hames.providers.model_list import RememberedList
from hames.providers.openai.source import OpenAISource
from hames.providers.source import FileProvider, ListedSource, ModelService, ModelSource, PathSource, as_service

if TYPE_CHECKING:
    from hames.providers.cassette import Recorder

DEFAULT_MODEL = f"{models.PROVIDER}/{models.DEFAULT}"
RECORD = "HAMES_RECORD"
"""The variable that names the file every exchange with a model is recorded in."""


class Catalogue:
    """All sources of models as one `Models`."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        clock: Clock,
        default: str = DEFAULT_MODEL,
        scripts: Mapping[str, str] | None = None,
        sources: Sequence[ModelSource] = (),
        cache: Path | None = None,
    ) -> None:
        """`scripts` are names for script files; `sources` come beside the ones that are built in;
        `cache` is a directory where services' own lists of models are remembered."""
        own: tuple[ModelSource, ...] = (
            AnthropicSource(environment, clock),
            *(CloudSource(name, clock) for name in CLOUDS),
            OpenAISource(environment, clock),
            *(ChatSource(server, environment, clock) for server in SERVERS),
            _scripted_source(scripts or {}, clock),
            _cassette_source(),
        )
        self._sources = {source.name: source for source in (*own, *sources)}
        self.environment = environment
        self._complete = False
        self._clock = clock
        self._default = default
        self._cache = cache
        self._recalled = cache is None
        self._providers: dict[str, ModelService] = {}
        self._recorder: Recorder | None = None

    @property
    def default(self) -> str:
        return self._default

    def cards(self) -> Sequence[ModelCard]:
        return [_with_usable(source, card) for source in self._sources_with_lists() for card in source.cards()]

    def selectors(self) -> Sequence[Selector]:
        """One of each: sources that offer the same choice offer it together."""
        offered: dict[tuple[str, object], Selector] = {}
        for source in self._sources_with_lists():
            for selector in source.selectors():
                key = (selector.id, selector.choices)
                there = offered.get(key)
                models = (*there.models, *selector.models) if there is not None else selector.models
                offered[key] = replace(there or selector, models=models)
        return list(offered.values())

    def find(self, name: str) -> ModelCard:
        provider, slash, model = name.partition("/")
        sources = self._remembered_sources()
        if slash and provider in self._sources:
            return _with_usable(self._sources[provider], self._sources[provider].named(model))
        for source in sources:
            if (card := source.known(name)) is not None:
                return _with_usable(source, card)
        if not self._complete:
            self._complete_sources()
            return self.find(name)
        raise UnknownModel(f"no model {name!r}; {self._suggestion(name)}")

    def provider(self, card: ModelCard) -> ModelService:
        if card.provider not in self._sources:
            raise Misconfigured(f"there is no provider {card.provider!r}")
        if card.provider not in self._providers:
            self._providers[card.provider] = self._with_recorder(
                as_service(self._sources[card.provider].provider(card))
            )
        return self._providers[card.provider]

    def _with_recorder(self, provider: ModelService) -> ModelService:
        path = self.environment.get(RECORD, "").strip()
        if not path or provider.name == "cassette":
            return provider
        from hames.providers.cassette import Recorder, RecordingProvider

        if self._recorder is None:
            self._recorder = Recorder(path, self.environment)
        return RecordingProvider(provider, self._recorder)

    def refreshable(self) -> Sequence[str]:
        """Providers that have a list of models and everything it takes to ask for it."""
        found: list[str] = []
        for source in self._sources.values():
            with suppress(Misconfigured):
                if isinstance(source, ListedSource):
                    source.provider(_no_model_in_particular(source.name))
                    found.append(source.name)
        return found

    async def refresh(self, name: str) -> int:
        """Ask a service for its own list, and remember it. How many models there were.

        Raises `Misconfigured` and `ProviderError`; `InvalidCommand` for a provider nobody knows.
        """
        source = self._sources.get(name)
        if source is None or not isinstance(source, ListedSource):
            raise UnknownModel(f"{name!r} has no list of models")
        provider = self.provider(_no_model_in_particular(name))
        try:
            listed = model_list.read_list(await provider.models())
        except (ValueError, RecursionError):
            raise ProviderError(f"{name} sent no list of models; check its address") from None
        source.learn(listed)
        if self._cache is not None:
            kept = RememberedList(url=source.url, at_ms=self._clock.now_ms(), models=listed)
            model_list.remember_list(self._cache, name, kept)
        return len(listed)

    async def warm(self, card: ModelCard) -> None:
        """Have the provider ready before its first request. Raises `Misconfigured`.

        A server whose models only it knows is asked for them; whether it answers is not waited for by anybody.
        """
        await self.provider(card).warm()
        source = self._sources[card.provider]
        if isinstance(source, ListedSource) and source.lists_when_used:
            with suppress(HarnessError):
                await self.refresh(card.provider)

    async def aclose(self) -> None:
        for provider in self._providers.values():
            await provider.aclose()
        self._providers.clear()

    def added_sources(self) -> Sequence[ModelSource]:
        """Sources from elsewhere. They are asked for when no other one has the model, or all are to be listed."""
        return ()

    def _complete_sources(self) -> None:
        if not self._complete:
            self._complete = True
            for source in self.added_sources():
                self._sources.setdefault(source.name, source)

    def _sources_with_lists(self) -> Sequence[ModelSource]:
        self._complete_sources()
        return self._remembered_sources()

    def _remembered_sources(self) -> Sequence[ModelSource]:
        """The sources, with what was remembered the last time."""
        if not self._recalled and self._cache is not None:
            self._recalled = True
            for source in self._sources.values():
                if isinstance(source, ListedSource) and (
                    listed := model_list.recall_list(self._cache, source.name, source.url)
                ):
                    source.learn(listed)
        return list(self._sources.values())

    def _suggestion(self, name: str) -> str:
        import difflib

        names = {card.model: card.id for card in self.cards() if not card.successor}
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        return "did you mean " + " or ".join(names[n] for n in near) if near else f"try {self._default}"


def _scripted_source(scripts: Mapping[str, str], clock: Clock) -> PathSource:
    def provider() -> FileProvider:
        from hames.providers.scripted.provider import ScriptedProvider

        return ScriptedProvider(clock=clock, scripts=scripts)

    description = "Plays a script; no key, no network"
    return PathSource("scripted", description=description, provider=provider, listed=("hello", *scripts))


def _cassette_source() -> PathSource:
    def provider() -> FileProvider:
        from hames.providers.cassette import CassetteProvider

        return CassetteProvider()

    return PathSource("cassette", description="Plays a recording; no key, no network", provider=provider)


def _with_usable(source: ModelSource, card: ModelCard) -> ModelCard:
    """The card, which says whether its provider has what it takes to be asked. Whether it answers is not known here."""
    return card if source.usable else replace(card, usable=False)


def _no_model_in_particular(provider: str) -> ModelCard:
    """No model in particular."""
    return ModelCard(provider=provider, model="", display_name=provider)
