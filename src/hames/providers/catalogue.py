"""Which models there are, and who serves them. Data and lookups; nothing here touches the network.

A provider is imported and built when its first model is used, so that starting up
costs nothing for services that are not. Keys come in with the environment that was
handed over; nobody here looks around for one.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from hames.domain.errors import Misconfigured, UnknownModel
from hames.domain.models import ModelCard
from hames.domain.options import Choice, Selector
from hames.ports import Clock, Provider
from hames.providers import claude

DEFAULT_MODEL = f"{claude.PROVIDER}/{claude.DEFAULT}"


class Shelf(Protocol):
    """One provider's part of the catalogue."""

    name: str

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
    ) -> None:
        """`scripts` are names for script files; `shelves` come beside the ones that are built in."""
        own: tuple[Shelf, ...] = (AnthropicShelf(environment, clock), ScriptedShelf(scripts or {}, clock))
        self._shelves = {shelf.name: shelf for shelf in (*own, *shelves)}
        self._default = default
        self._providers: dict[str, Provider] = {}

    @property
    def default(self) -> str:
        return self._default

    def cards(self) -> Sequence[ModelCard]:
        return [card for shelf in self._shelves.values() for card in shelf.cards()]

    def selectors(self) -> Sequence[Selector]:
        return [selector for shelf in self._shelves.values() for selector in shelf.selectors()]

    def find(self, name: str) -> ModelCard:
        provider, slash, model = name.partition("/")
        if slash and provider in self._shelves:
            return self._shelves[provider].named(model)
        for shelf in self._shelves.values():
            if (card := shelf.known(name)) is not None:
                return card
        raise UnknownModel(f"no model {name!r}; {self._suggestion(name)}")

    def provider(self, card: ModelCard) -> Provider:
        if card.provider not in self._shelves:
            raise Misconfigured(f"nobody serves models of {card.provider!r}")
        if card.provider not in self._providers:
            self._providers[card.provider] = self._shelves[card.provider].provider(card)
        return self._providers[card.provider]

    async def warm(self, card: ModelCard) -> None:
        """Have the provider ready before its first request. Raises `Misconfigured`."""
        provider = self.provider(card)
        if isinstance(provider, Closing):
            await provider.warm()

    async def aclose(self) -> None:
        for provider in self._providers.values():
            if isinstance(provider, Closing):
                await provider.aclose()
        self._providers.clear()

    def _suggestion(self, name: str) -> str:
        import difflib

        names = {card.model: card.id for card in self.cards() if not card.successor}
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        return "did you mean " + " or ".join(names[n] for n in near) if near else f"try {self._default}"


class AnthropicShelf:
    name = claude.PROVIDER

    def __init__(self, environment: Mapping[str, str], clock: Clock) -> None:
        self._environment = environment
        self._clock = clock

    def cards(self) -> Sequence[ModelCard]:
        return [model.card for model in claude.MODELS]

    def selectors(self) -> Sequence[Selector]:
        thinking = tuple(card.id for card in self.cards() if card.reasoning)
        searching = tuple(card.id for card in self.cards() if card.web_search)
        return [
            Selector(
                id="reasoning_effort",
                name="Reasoning effort",
                description="How hard the model thinks before it answers",
                group="Reasoning",
                choices=(
                    Choice(id="default", name="Default", description="What the model does by itself"),
                    Choice(id="low", name="Low"),
                    Choice(id="medium", name="Medium"),
                    Choice(id="high", name="High"),
                ),
                default="default",
                models=thinking,
            ),
            Selector(
                id="max_thinking_tokens",
                name="Thinking tokens",
                description="How many tokens the model may think; models that take no number get the nearest effort",
                group="Reasoning",
                choices=(
                    Choice(id="default", name="Default", description="What the model does by itself"),
                    Choice(id="8000", name="8,000"),
                    Choice(id="16000", name="16,000"),
                    Choice(id="32000", name="32,000"),
                ),
                default="default",
                models=thinking,
            ),
            Selector(
                id="web_search",
                name="Web search",
                description="Whether the model service may search the web",
                group="Tools",
                choices=(Choice(id="off", name="Off"), Choice(id="on", name="On")),
                default="off",
                models=searching,
            ),
        ]

    def known(self, model: str) -> ModelCard | None:
        found = claude.known(model)
        return found.card if found is not None else None

    def named(self, model: str) -> ModelCard:
        if not model or not model.isprintable() or " " in model:
            raise UnknownModel(f"no model {model!r} at Anthropic")
        return claude.claude(model).card

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        from hames.providers.anthropic import BASE_URL, AnthropicProvider

        return AnthropicProvider(
            api_key=self._environment.get("ANTHROPIC_API_KEY", ""),
            auth_token=self._environment.get("ANTHROPIC_AUTH_TOKEN", ""),
            base_url=self._environment.get("ANTHROPIC_BASE_URL", "") or BASE_URL,
            clock=self._clock,
        )


class ScriptedShelf:
    """Scripts are models: `scripted/NAME` or `scripted/PATH`. None is listed but the one that needs no file."""

    name = "scripted"

    def __init__(self, scripts: Mapping[str, str], clock: Clock) -> None:
        self._scripts = scripts
        self._clock = clock

    def cards(self) -> Sequence[ModelCard]:
        return [self.named(name) for name in ("hello", *self._scripts)]

    def selectors(self) -> Sequence[Selector]:
        return []

    def known(self, model: str) -> ModelCard | None:  # noqa: ARG002
        return None  # a bare name never means a script

    def named(self, model: str) -> ModelCard:
        if not model:
            raise UnknownModel("a script needs a name or a path: scripted/NAME")
        return ModelCard(
            provider=self.name,
            model=model,
            display_name=f"Script {model}",
            description="Plays what is written down; no key, no network",
            reasoning=True,
            web_search=True,
        )

    def provider(self, card: ModelCard) -> Provider:
        from hames.providers.scripted import ScriptedProvider

        provider = ScriptedProvider(clock=self._clock, scripts=self._scripts)
        provider.load(card.model)
        return provider
