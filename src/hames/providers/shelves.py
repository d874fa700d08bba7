"""The catalogue's shelves: one for each kind of provider, built from data and the environment that was handed over.

Providers are imported when their first model is used. A shelf that can learn is taught by the
service's own list, now or from what was remembered; it never waits for one.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from hames.domain.errors import Misconfigured, UnknownModel
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Choice, Selector
from hames.ports import Clock, Provider
from hames.providers import claude, discovery, gpt
from hames.providers.compatible_servers import Server
from hames.providers.discovery import Listed

CLOUDS = {"bedrock": "AsyncAnthropicBedrock", "vertex": "AsyncAnthropicVertex", "foundry": "AsyncAnthropicFoundry"}
"""Clouds that serve Claude, with the client of Anthropic's SDK for each."""

DEFAULT = Choice(id="default", name="Default", description="What the model does by itself")


def effort(models: Sequence[ModelCard]) -> Selector:
    return Selector(
        id="reasoning_effort",
        name="Reasoning effort",
        description="How hard the model thinks before it answers",
        group="Reasoning",
        choices=(
            DEFAULT,
            Choice(id="low", name="Low"),
            Choice(id="medium", name="Medium"),
            Choice(id="high", name="High"),
        ),
        default="default",
        models=tuple(card.id for card in models if card.reasoning),
    )


def web_search(models: Sequence[ModelCard]) -> Selector:
    return Selector(
        id="web_search",
        name="Web search",
        description="Whether the model service may search the web",
        group="Tools",
        choices=(Choice(id="off", name="Off"), Choice(id="on", name="On")),
        default="off",
        models=tuple(card.id for card in models if card.web_search),
    )


class AnthropicShelf:
    name = claude.PROVIDER

    def __init__(self, environment: Mapping[str, str], clock: Clock) -> None:
        self._environment = environment
        self._clock = clock
        self._learned: dict[str, ModelCard] = {}

    @property
    def url(self) -> str:
        return self._environment.get("ANTHROPIC_BASE_URL", "") or claude.BASE_URL

    @property
    def usable(self) -> bool:
        return any(self._environment.get(name, "").strip() for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"))

    def cards(self) -> Sequence[ModelCard]:
        return [*(model.card for model in claude.MODELS), *self._learned.values()]

    def selectors(self) -> Sequence[Selector]:
        cards = self.cards()
        thinking = effort(cards)
        return [
            thinking,
            Selector(
                id="max_thinking_tokens",
                name="Thinking tokens",
                description="How many tokens the model may think; models that take no number get the nearest effort",
                group="Reasoning",
                choices=(
                    DEFAULT,
                    Choice(id="8000", name="8,000"),
                    Choice(id="16000", name="16,000"),
                    Choice(id="32000", name="32,000"),
                ),
                default="default",
                models=thinking.models,
            ),
            web_search(cards),
        ]

    def known(self, model: str) -> ModelCard | None:
        found = claude.known(model)
        return found.card if found is not None else self._learned.get(model)

    def named(self, model: str) -> ModelCard:
        return self._learned.get(model) or claude.claude(_named(model, "Anthropic")).card

    def learn(self, listed: Sequence[Listed]) -> None:
        for one in listed:
            if one.id.startswith("claude-") and claude.known(one.id) is None:
                self._learned[one.id] = discovery.told(claude.claude(one.id).card, one)

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        from hames.providers.anthropic import AnthropicProvider

        return AnthropicProvider(
            api_key=self._environment.get("ANTHROPIC_API_KEY", ""),
            auth_token=self._environment.get("ANTHROPIC_AUTH_TOKEN", ""),
            base_url=self.url,
            clock=self._clock,
        )


class OpenAIShelf:
    name = gpt.PROVIDER

    _CHATS = re.compile(r"(?:gpt-[5-9]|gpt-\d\d|o\d)(?!.*(?:audio|realtime|image|tts|transcribe|search|research))")

    def __init__(self, environment: Mapping[str, str], clock: Clock) -> None:
        self._environment = environment
        self._clock = clock
        self._learned: dict[str, ModelCard] = {}

    @property
    def url(self) -> str:
        return self._environment.get("OPENAI_BASE_URL", "") or gpt.BASE_URL

    @property
    def usable(self) -> bool:
        return bool(self._environment.get("OPENAI_API_KEY", "").strip())

    def cards(self) -> Sequence[ModelCard]:
        return [*gpt.MODELS, *self._learned.values()]

    def selectors(self) -> Sequence[Selector]:
        cards = self.cards()
        return [effort(cards), web_search(cards)]

    def known(self, model: str) -> ModelCard | None:
        return gpt.known(model) or self._learned.get(model)

    def named(self, model: str) -> ModelCard:
        return self._learned.get(model) or gpt.gpt(_named(model, "OpenAI"))

    def learn(self, listed: Sequence[Listed]) -> None:
        for one in listed:
            if self._CHATS.match(one.id) and gpt.known(one.id) is None:
                self._learned[one.id] = discovery.told(gpt.gpt(one.id), one)

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        from hames.providers.openai import OpenAIProvider

        return OpenAIProvider(api_key=self._environment.get("OPENAI_API_KEY", ""), base_url=self.url, clock=self._clock)


class CompatibleShelf:
    """One server's models: those it listed, and those somebody asked for by name."""

    WINDOW = 32_768
    OUTPUT = 4096
    """Of a model whose server does not say. Servers refuse what does not fit; this is what most can do."""

    def __init__(self, server: Server, environment: Mapping[str, str], clock: Clock) -> None:
        self.name = server.name
        self._server = server
        self._environment = environment
        self._clock = clock
        self._listed: dict[str, Listed] = {}
        self._asked: dict[str, None] = {}

    @property
    def url(self) -> str:
        return self._environment.get(self._server.url_variable, "").strip() or self._server.url

    @property
    def usable(self) -> bool:
        has_key = bool(self._environment.get(self._server.key_variable, "").strip())
        return bool(self.url) and (has_key or not self._server.needs_key)

    def cards(self) -> Sequence[ModelCard]:
        return [self._card(model) for model in dict.fromkeys((*self._listed, *self._asked))]

    def selectors(self) -> Sequence[Selector]:
        models = tuple(card.id for card in self.cards())
        if not models:
            return []
        return [
            Selector(
                id="temperature",
                name="Temperature",
                description="How freely the model chooses its words",
                group="Sampling",
                choices=(DEFAULT, *(Choice(id=degree, name=degree) for degree in ("0.0", "0.3", "0.7", "1.0"))),
                default="default",
                models=models,
            ),
            Selector(
                id="context_length",
                name="Context length",
                description="How many tokens a request and its reply may have together; no more is sent",
                group="Sampling",
                choices=(DEFAULT, *(Choice(id=f"{n}", name=f"{n:,}") for n in (4096, 8192, 16384))),
                default="default",
                models=models,
            ),
        ]

    def known(self, model: str) -> ModelCard | None:
        return self._card(model) if model in self._listed else None

    def named(self, model: str) -> ModelCard:
        card = self._card(_named(model, self._server.title))
        if model not in self._listed:
            self._asked[model] = None
        return card

    def learn(self, listed: Sequence[Listed]) -> None:
        self._listed = {one.id: one for one in listed}

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        from hames.providers.compatible import CompatibleProvider

        return CompatibleProvider(
            self._server,
            url=self.url,
            api_key=self._environment.get(self._server.key_variable, ""),
            extra=self._extra(),
            card=self._card,
            clock=self._clock,
        )

    def _card(self, model: str) -> ModelCard:
        card = ModelCard(
            provider=self.name,
            model=model,
            display_name=model,
            description=self._description(),
            context_window=self.WINDOW,
            max_output=self.OUTPUT,
        )
        listed = self._listed.get(model) or self._listed.get(f"{model}:latest")
        return card if listed is None else replace(discovery.told(card, listed), model=model)

    def _description(self) -> str:
        """A server without a name of its own is named by its address; a name or password in the URL stays out."""
        if self._server.name != "compatible":
            return f"Served by {self._server.title}"
        address = urlsplit(self.url).netloc.rpartition("@")[2] if self.url else ""
        return f"Served by {address}" if address else ""

    def _extra(self) -> dict[str, Json]:
        given = self._environment.get(self._server.extra_variable, "").strip()
        if not given:
            return {}
        try:
            return msgspec.json.decode(given, type=dict[str, Json])
        except ValueError:
            raise Misconfigured(f"{self._server.extra_variable} must be a JSON object") from None


class ScriptedShelf:
    """Scripts are models: `scripted/NAME` or `scripted/PATH`. None is listed but the one that needs no file."""

    name = "scripted"
    usable = True

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


class CassetteShelf:
    """Recorded exchanges are models: `cassette/PATH`. None is listed."""

    name = "cassette"
    usable = True

    def cards(self) -> Sequence[ModelCard]:
        return []

    def selectors(self) -> Sequence[Selector]:
        return []

    def known(self, model: str) -> ModelCard | None:  # noqa: ARG002
        return None

    def named(self, model: str) -> ModelCard:
        if not model:
            raise UnknownModel("a cassette needs a path: cassette/PATH")
        return ModelCard(
            provider=self.name,
            model=model,
            display_name=f"Cassette {Path(model).name}",
            description="Plays what was recorded; no key, no network",
            reasoning=True,
            web_search=True,
        )

    def provider(self, card: ModelCard) -> Provider:
        from hames.providers.cassette import CassetteProvider

        provider = CassetteProvider()
        provider.load(card.model)
        return provider


def _named(model: str, who: str) -> str:
    if not model or not model.isprintable() or " " in model:
        raise UnknownModel(f"no model {model!r} at {who}")
    return model


class CloudShelf:
    """`bedrock/MODEL`, `vertex/MODEL`, `foundry/MODEL`: named as the cloud names it. None is listed."""

    usable = True

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock

    def cards(self) -> Sequence[ModelCard]:
        return ()

    def selectors(self) -> Sequence[Selector]:
        return ()

    def known(self, model: str) -> ModelCard | None:  # noqa: ARG002 - a bare name never means a cloud
        return None

    def named(self, model: str) -> ModelCard:
        if not model or " " in model or not model.isprintable():
            raise UnknownModel(f"no model {model!r} on {self.name}")
        return replace(claude.claude(model).card, provider=self.name, model=model)

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        try:
            import anthropic
        except ImportError:
            raise Misconfigured(f"models on {self.name} need Anthropic's SDK: pip install 'hames[clouds]'") from None
        from hames.providers.clouds import CloudProvider

        return CloudProvider(self.name, clock=self._clock, client=getattr(anthropic, CLOUDS[self.name]))
