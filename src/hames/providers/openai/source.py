"""OpenAI's models for the catalogue."""

import re
from collections.abc import Sequence

from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.ports import Provider
from hames.providers.openai import models
from hames.providers.source import ServiceSource, effort_selector, web_search_selector


class OpenAISource(ServiceSource):
    name = models.PROVIDER
    title = "OpenAI"
    base_url = models.BASE_URL
    url_variable = "OPENAI_BASE_URL"
    key_variables = ("OPENAI_API_KEY",)
    chat_models = re.compile(r"(?:gpt-[5-9]|gpt-\d\d|o\d)(?!.*(?:audio|realtime|image|tts|transcribe|search|research))")

    def selectors(self) -> Sequence[Selector]:
        cards = self.cards()
        return [effort_selector(cards), web_search_selector(cards)]

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        from hames.providers.openai.provider import OpenAIProvider

        return OpenAIProvider(api_key=self._environment.get("OPENAI_API_KEY", ""), base_url=self.url, clock=self._clock)

    def _built_in(self) -> Sequence[ModelCard]:
        return models.MODELS

    def _find(self, model: str) -> ModelCard | None:
        return models.known(model)

    def _assume(self, model: str) -> ModelCard:
        return models.gpt(model)
