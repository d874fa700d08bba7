"""Models of servers that speak chat completions, for the catalogue."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Choice, Selector
from hames.ports import Clock, Provider
from hames.providers.chat.servers import ChatServer
from hames.providers.model_list import ListedModel, with_listed_facts
from hames.providers.source import DEFAULT, checked_name


class ChatSource:
    """One server's models: those it listed, and those somebody asked for by name."""

    lists_when_used = True
    WINDOW = 32_768
    OUTPUT = 4096
    """Of a model whose server does not say. Servers refuse what does not fit; this is what most can do."""

    def __init__(self, server: ChatServer, environment: Mapping[str, str], clock: Clock) -> None:
        self.name = server.name
        self._server = server
        self._environment = environment
        self._clock = clock
        self._listed: dict[str, ListedModel] = {}
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
                description="How random the answers are",
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
        card = self._card(checked_name(model, self._server.title))
        if model not in self._listed:
            self._asked[model] = None
        return card

    def learn(self, listed: Sequence[ListedModel]) -> None:
        self._listed = {one.id: one for one in listed}

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        from hames.providers.chat.provider import ChatProvider

        return ChatProvider(
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
        return card if listed is None else replace(with_listed_facts(card, listed), model=model)

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
