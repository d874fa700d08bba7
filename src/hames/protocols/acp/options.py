"""Modes and options of a session: what our selectors offer, in the words of ACP.

A mode is an approval policy of the profile `code`, or one of the profiles that only read.
"""

from collections.abc import Sequence

from hames.domain.errors import HarnessError, InvalidCommand
from hames.domain.models import ModelCard
from hames.domain.options import Choice, Overrides, Selector, Settings
from hames.domain.policy import AgentName, ApprovalPolicy
from hames.domain.value import Value
from hames.ports import Models

MODEL = "model"
MODE = "mode"
EFFORTS = frozenset({"reasoning_effort", "max_thinking_tokens", "thinking"})
"""Selectors that say how long a model thinks."""

POLICIES: dict[ApprovalPolicy, Choice] = {
    "unlessTrusted": Choice(
        id="unlessTrusted",
        name="Ask for risky actions",
        description="Commands known to be safe run without a question",
    ),
    "onRequest": Choice(
        id="onRequest",
        name="Ask to leave the sandbox",
        description="Commands and changes inside the sandbox run without a question; leaving it needs your approval",
    ),
    "always": Choice(
        id="always", name="Ask every time", description="Every command and every file change needs your approval"
    ),
    "never": Choice(
        id="never",
        name="Never ask",
        description="Careful: every command and every change runs without a question; only the sandbox limits them",
    ),
}
PROFILES: dict[AgentName, Choice] = {
    "plan": Choice(id="plan", name="Plan", description="Reads and plans, changes nothing"),
    "review": Choice(id="review", name="Review", description="Reviews, changes nothing"),
}
MODES: tuple[Choice, ...] = (*POLICIES.values(), *PROFILES.values())


class Option(Value):
    """One thing to choose, with what is chosen now."""

    id: str
    name: str
    category: str
    current: str
    choices: tuple[Choice, ...]
    description: str = ""


def mode_of(settings: Settings) -> str:
    return settings.approval_policy if settings.agent == "code" else settings.agent


def mode_overrides(mode: str) -> Overrides:
    """Raises `InvalidCommand`."""
    for policy in POLICIES:
        if policy == mode:
            return Overrides(approval_policy=policy, agent="code")
    for profile in PROFILES:
        if profile == mode:
            return Overrides(agent=profile)
    raise InvalidCommand(f"no mode {mode!r}; there are: {', '.join(choice.id for choice in MODES)}")


class OptionMenu:
    """What can be chosen for a session."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def options(self, settings: Settings) -> list[Option]:
        model = self._card(settings.model)
        current = settings.model if model is None else model.id
        shown = [
            Option(id=MODE, name="Mode", category="mode", current=mode_of(settings), choices=MODES),
            Option(id=MODEL, name="Model", category="model", current=current, choices=self._model_choices(current)),
        ]
        for selector in self._selectors(current):
            value = settings.options.get(selector.id, selector.default)
            if all(choice.id != value for choice in selector.choices):
                value = selector.default
            shown.append(
                Option(
                    id=selector.id,
                    name=selector.name,
                    category="thought_level" if selector.id in EFFORTS else "model_config",
                    current=value,
                    choices=selector.choices,
                    description=selector.description,
                )
            )
        return shown

    def overrides(self, option_id: str, value: str, settings: Settings) -> Overrides:
        """What choosing this means. Raises `InvalidCommand` for what is not offered."""
        options = self.options(settings)
        option = next((one for one in options if one.id == option_id), None)
        if option is None:
            raise InvalidCommand(f"no option {option_id!r}; there are: {', '.join(one.id for one in options)}")
        if all(choice.id != value for choice in option.choices):
            words = ", ".join(choice.id for choice in option.choices)
            raise InvalidCommand(f"option {option_id!r} has no value {value!r}; its values are: {words}")
        if option_id == MODE:
            return mode_overrides(value)
        return Overrides(model=value) if option_id == MODEL else Overrides(options={option_id: value})

    def window(self, model: str) -> int | None:
        card = self._card(model)
        return None if card is None else card.context_window

    def card(self, model: str) -> ModelCard | None:
        return self._card(model)

    def _card(self, model: str) -> ModelCard | None:
        try:
            return self._models.find(model)
        except HarnessError:
            return None

    def _model_choices(self, current: str) -> tuple[Choice, ...]:
        cards = [one for one in self._models.cards() if one.id == current or (one.usable and not one.successor)]
        choices = [Choice(id=one.id, name=one.display_name, description=one.description) for one in cards]
        if all(choice.id != current for choice in choices):  # a name that no list has
            choices.insert(0, Choice(id=current, name=current))
        return tuple(choices)

    def _selectors(self, model: str) -> Sequence[Selector]:
        found: dict[str, Selector] = {}
        for selector in self._models.selectors():
            if selector.choices and (not selector.models or model in selector.models):
                found.setdefault(selector.id, selector)
        return [one for one in found.values() if one.id not in (MODEL, MODE)]
