"""Claude models for the catalogue: from Anthropic, and from clouds that serve them."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from hames.domain.errors import Misconfigured
from hames.domain.models import ModelCard
from hames.domain.options import Choice, Selector
from hames.ports import Clock, Provider
from hames.providers.anthropic import models
from hames.providers.source import (
    DEFAULT,
    ServiceSource,
    UnlistedSource,
    checked_name,
    effort_selector,
    web_search_selector,
)

CLOUDS = {"bedrock": "AsyncAnthropicBedrock", "vertex": "AsyncAnthropicVertex", "foundry": "AsyncAnthropicFoundry"}
"""Clouds that serve Claude, with the client of Anthropic's SDK for each."""


class AnthropicSource(ServiceSource):
    name = models.PROVIDER
    title = "Anthropic"
    base_url = models.BASE_URL
    url_variable = "ANTHROPIC_BASE_URL"
    key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    chat_models = re.compile("claude-")

    def selectors(self) -> Sequence[Selector]:
        cards = self.cards()
        effort = effort_selector(cards)
        return [
            effort,
            Selector(
                id="max_thinking_tokens",
                name="Thinking tokens",
                description="How many tokens the model may think; models that take no number get the nearest effort",
                group="Reasoning",
                choices=(DEFAULT, *(Choice(id=f"{n}", name=f"{n:,}") for n in (8000, 16000, 32000))),
                default="default",
                models=effort.models,
            ),
            Selector(
                id="thinking",
                name="Thinking",
                description="Whether the model thinks before it answers; models of version 5 and later always do",
                group="Reasoning",
                choices=(Choice(id="on", name="On"), Choice(id="off", name="Off")),
                default="on",
                models=tuple(card.id for card in cards if models.claude(card.model).thinking in ("budget", "asked")),
            ),
            web_search_selector(cards),
        ]

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        from hames.providers.anthropic.provider import AnthropicProvider

        return AnthropicProvider(
            api_key=self._environment.get("ANTHROPIC_API_KEY", ""),
            auth_token=self._environment.get("ANTHROPIC_AUTH_TOKEN", ""),
            base_url=self.url,
            clock=self._clock,
        )

    def _built_in(self) -> Sequence[ModelCard]:
        return [model.card for model in models.MODELS]

    def _find(self, model: str) -> ModelCard | None:
        found = models.known(model)
        return found.card if found is not None else None

    def _assume(self, model: str) -> ModelCard:
        return models.claude(model).card


class CloudSource(UnlistedSource):
    """`bedrock/MODEL`, `vertex/MODEL`, `foundry/MODEL`: named as the cloud names it."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock

    def named(self, model: str) -> ModelCard:
        return replace(models.claude(checked_name(model, self.name)).card, provider=self.name, model=model)

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        try:
            import anthropic
        except ImportError:
            raise Misconfigured(f"models on {self.name} need Anthropic's SDK: pip install 'hames[clouds]'") from None
        from hames.providers.anthropic.clouds import CloudProvider

        return CloudProvider(self.name, clock=self._clock, client=getattr(anthropic, CLOUDS[self.name]))
