"""A list of models with one entry, for a program that brings its own provider."""

from collections.abc import Sequence

from hames.domain.errors import UnknownModel
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.ports import Provider


class SingleModel:
    """Implements `ports.Models`."""

    def __init__(self, provider: Provider, card: ModelCard, *, selectors: Sequence[Selector] = ()) -> None:
        self._provider = provider
        self._card = card
        self._selectors = selectors

    @property
    def default(self) -> str:
        return self._card.id

    def find(self, name: str) -> ModelCard:
        if name not in (self._card.id, self._card.model):
            raise UnknownModel(f"no model {name!r}; there is only {self._card.id}")
        return self._card

    def cards(self) -> Sequence[ModelCard]:
        return [self._card]

    def selectors(self) -> Sequence[Selector]:
        return self._selectors

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        return self._provider
