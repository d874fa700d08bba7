"""Model services, and the list of models they serve."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.domain.request import ModelEvent, ModelRequest


class Provider(Protocol):
    """A model service.

    `stream` yields what the model produces, in order, ends with `ReplyEnded`, and
    raises `ProviderError` and nothing else. A `ToolCallEnded` is a whole call: one
    that was cut off is never reported. It retries only before its first event.
    It may be cancelled or closed at any await.
    """

    name: str

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]: ...


class Models(Protocol):
    """Which models there are, and who serves them."""

    @property
    def default(self) -> str: ...

    def find(self, name: str) -> ModelCard:
        """By `provider/model` or a bare model name. Raises `UnknownModel`."""
        ...

    def cards(self) -> Sequence[ModelCard]: ...

    def selectors(self) -> Sequence[Selector]: ...

    def provider(self, card: ModelCard) -> Provider:
        """Raises `Misconfigured` when a key or an endpoint is missing."""
        ...
