"""Where models come from: what a provider offers the catalogue, and what the catalogue needs of a provider."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from hames.domain.errors import ProviderError, UnknownModel
from hames.domain.models import ModelCard
from hames.domain.options import Choice, Selector
from hames.ports import Clock, Provider
from hames.providers.model_list import ListedModel, with_listed_facts

DEFAULT = Choice(id="default", name="Default", description="The model's own default")


class ModelSource(Protocol):
    """One provider's part of the catalogue. Providers are imported when their first model is used."""

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
class ListedSource(ModelSource, Protocol):
    """A source that learns from its service's own list of models, now or from what was remembered."""

    lists_when_used: bool
    """Only the service knows its models, so it is asked for them when the first one is used."""

    @property
    def url(self) -> str:
        """Whose list it is: another address has another list."""
        ...

    def learn(self, listed: Sequence[ListedModel]) -> None: ...


@runtime_checkable
class ModelService(Provider, Protocol):
    """A provider with connections to prepare and to close, and a list of models."""

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...

    async def models(self) -> bytes:
        """The service's own list, as it sent it. Raises `ProviderError`."""
        ...


def as_service(provider: Provider) -> ModelService:
    """A provider that only streams becomes a service with nothing to prepare and no list."""
    return provider if isinstance(provider, ModelService) else _Wrapped(provider)


class StreamOnly:
    """A service with nothing to prepare and no list."""

    name: str

    async def warm(self) -> None:
        return

    async def aclose(self) -> None:
        return

    async def models(self) -> bytes:
        raise ProviderError(f"{self.name} has no list of models")


class _Wrapped(StreamOnly):
    def __init__(self, provider: Provider) -> None:
        self.name = provider.name
        self.stream = provider.stream


class UnlistedSource:
    """A source whose models are only ever asked for by name."""

    name: str
    usable = True

    def cards(self) -> Sequence[ModelCard]:
        return ()

    def selectors(self) -> Sequence[Selector]:
        return ()

    def known(self, model: str) -> ModelCard | None:  # noqa: ARG002 - a bare name never means one of these
        return None


class FileProvider(Provider, Protocol):
    def load(self, path: str) -> object:
        """Raises `Misconfigured`."""
        ...


class PathSource(UnlistedSource):
    """Files as models: `scripted/PATH` and `cassette/PATH`."""

    def __init__(
        self, name: str, *, description: str, provider: Callable[[], FileProvider], listed: Sequence[str] = ()
    ) -> None:
        self.name = name
        self._description = description
        self._provider = provider
        self._listed = listed

    def cards(self) -> Sequence[ModelCard]:
        return [self.named(model) for model in self._listed]

    def named(self, model: str) -> ModelCard:
        if not model:
            raise UnknownModel(f"{self.name}/ needs the path of a file: {self.name}/PATH")
        return ModelCard(
            provider=self.name,
            model=model,
            display_name=f"Cassette {Path(model).name}" if self.name == "cassette" else f"Script {model}",
            description=self._description,
            reasoning=True,
            web_search=True,
        )

    def provider(self, card: ModelCard) -> Provider:
        provider = self._provider()
        provider.load(card.model)
        return provider


class ServiceSource(ABC):
    """Models of a service that are known beforehand, and those its own list adds."""

    name: str
    title: ClassVar[str]
    base_url: ClassVar[str]
    url_variable: ClassVar[str]
    key_variables: ClassVar[tuple[str, ...]]
    chat_models: ClassVar[re.Pattern[str]]
    """Listed models that can hold a conversation, by how their names begin."""
    lists_when_used = False

    def __init__(self, environment: Mapping[str, str], clock: Clock) -> None:
        self._environment = environment
        self._clock = clock
        self._learned: dict[str, ModelCard] = {}

    @property
    def url(self) -> str:
        return self._environment.get(self.url_variable, "") or self.base_url

    @property
    def usable(self) -> bool:
        return any(self._environment.get(name, "").strip() for name in self.key_variables)

    def cards(self) -> Sequence[ModelCard]:
        return [*self._built_in(), *self._learned.values()]

    def known(self, model: str) -> ModelCard | None:
        return self._find(model) or self._learned.get(model)

    def named(self, model: str) -> ModelCard:
        return self._learned.get(model) or self._assume(checked_name(model, self.title))

    def learn(self, listed: Sequence[ListedModel]) -> None:
        for one in listed:
            if self.chat_models.match(one.id) and self._find(one.id) is None:
                self._learned[one.id] = with_listed_facts(self._assume(one.id), one)

    @abstractmethod
    def _built_in(self) -> Sequence[ModelCard]: ...

    @abstractmethod
    def _find(self, model: str) -> ModelCard | None: ...

    @abstractmethod
    def _assume(self, model: str) -> ModelCard:
        """What is known of the model, or taken for granted."""


def checked_name(model: str, owner: str) -> str:
    """Raises `UnknownModel`."""
    if not model or not model.isprintable() or " " in model:
        raise UnknownModel(f"no model {model!r} at {owner}")
    return model


def effort_selector(models: Sequence[ModelCard]) -> Selector:
    return Selector(
        id="reasoning_effort",
        name="Reasoning effort",
        description="How hard the model thinks before it answers",
        group="Reasoning",
        choices=(DEFAULT, *(Choice(id=name.lower(), name=name) for name in ("Low", "Medium", "High"))),
        default="default",
        models=tuple(card.id for card in models if card.reasoning),
    )


def web_search_selector(models: Sequence[ModelCard]) -> Selector:
    return Selector(
        id="web_search",
        name="Web search",
        description="Whether the model service may search the web",
        group="Tools",
        choices=(Choice(id="off", name="Off"), Choice(id="on", name="On")),
        default="off",
        models=tuple(card.id for card in models if card.web_search),
    )
