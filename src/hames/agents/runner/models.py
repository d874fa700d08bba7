"""The runner in the list of models: one model, which runs whole turns."""

from collections.abc import Sequence

from hames.domain.errors import Misconfigured, UnknownModel
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.ports import Provider

NAME = "runner"
MODEL = "default"


class RunnerShelf:
    """The runner's part of the catalogue."""

    name = NAME
    usable = True

    def cards(self) -> Sequence[ModelCard]:
        return [self.named(MODEL)]

    def selectors(self) -> Sequence[Selector]:
        return []

    def known(self, model: str) -> ModelCard | None:  # noqa: ARG002
        return None

    def named(self, model: str) -> ModelCard:
        if model != MODEL:
            raise UnknownModel(f"the runner has no model {model!r}; its only model is {NAME}/{MODEL}")
        return ModelCard(
            provider=NAME,
            model=MODEL,
            display_name="Sandbox runner",
            description="An agent in its own sandbox, on another machine or in a container",
            images=False,
        )

    def provider(self, card: ModelCard) -> Provider:
        raise Misconfigured(f"{card.id} runs whole turns; it cannot answer a single model request")
