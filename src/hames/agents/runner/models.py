"""The models of a server whose turns all run on a sandbox runner: the runner's, and no others.

`runner/default` is whatever the runner was started with. A model of this machine is refused, whoever asks for it:
the point of a runner is that nothing runs here.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from hames.agents.runner.capabilities import NOTHING_ANNOUNCED, AnnouncedModel, Announcement
from hames.domain.errors import Misconfigured, UnknownModel
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.ports import Provider

NAME = "runner"
DEFAULT = f"{NAME}/default"
SHOWN = 5


class RunnerModels:
    """Implements `ports.Models`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.announced = NOTHING_ANNOUNCED
        self.default = DEFAULT

    def choose(self, name: str) -> None:
        """Makes a model the default, by this list's name for it or by the runner's. Raises `UnknownModel`."""
        known = {card.id for card in self.cards()}
        self.default = f"{NAME}/{name}" if f"{NAME}/{name}" in known else self.find(name).id

    def learn(self, announced: Announcement) -> None:
        self.announced = announced

    def cards(self) -> Sequence[ModelCard]:
        return [
            ModelCard(
                provider=NAME,
                model="default",
                display_name="Sandbox runner",
                description="The model that the runner was started with",
                images="images" in self.announced.can,
            ),
            *(_card(model) for model in self.announced.models),
        ]

    def selectors(self) -> Sequence[Selector]:
        return [
            replace(selector, models=tuple(f"{NAME}/{model}" for model in selector.models))
            for selector in self.announced.selectors
        ]

    def find(self, name: str) -> ModelCard:
        for card in self.cards():
            if card.id == name:
                return card
        there = [card.id for card in self.cards()]
        near = f"{NAME}/{name}"
        offered = ", ".join(there[:SHOWN]) + (" and more" if len(there) > SHOWN else "")
        hint = f"did you mean {near}" if near in there else f"its models are: {offered}"
        raise UnknownModel(f"turns run on the runner at {self._url}, which has no model {name!r}; {hint}")

    def provider(self, card: ModelCard) -> Provider:
        raise Misconfigured(f"{card.id} runs whole turns; it cannot answer a single model request")


def their_name(model: str) -> str:
    """The runner's own name for a model of this list; empty: the one it was started with.

    >>> their_name("runner/scripted/hello"), their_name("runner/default")
    ('scripted/hello', '')
    """
    _, _, name = model.partition("/")
    return "" if name == "default" else name


def _card(model: AnnouncedModel) -> ModelCard:
    return ModelCard(
        provider=NAME,
        model=model.id,
        display_name=model.name or model.id,
        description=model.description,
        context_window=model.context_window,
        images=model.images,
        reasoning=model.reasoning,
    )
