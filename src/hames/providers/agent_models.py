"""Agents in the list of models: an agent with a loop of its own is chosen as `NAME/default`."""

from collections.abc import Sequence

from hames.domain.errors import Misconfigured, UnknownModel
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.ports import Provider

MODEL = "default"


class AgentModels:
    """One agent's part of the catalogue: a single model, which runs whole turns."""

    usable = True

    def __init__(self, name: str, *, display_name: str, description: str) -> None:
        self.name = name
        self._card = ModelCard(
            provider=name, model=MODEL, display_name=display_name, description=description, images=False
        )

    def cards(self) -> Sequence[ModelCard]:
        return [self._card]

    def selectors(self) -> Sequence[Selector]:
        return []

    def known(self, model: str) -> ModelCard | None:  # noqa: ARG002 - a bare name never means an agent
        return None

    def named(self, model: str) -> ModelCard:
        if model != MODEL:
            raise UnknownModel(f"{self.name} has no model {model!r}; its only model is {self._card.id}")
        return self._card

    def provider(self, card: ModelCard) -> Provider:
        raise Misconfigured(f"{card.id} runs whole turns; it cannot answer a single model request")
