"""Selectors as flint's clients see them: every option looks alike, whatever it means."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from hames.domain.errors import InvalidCommand
from hames.domain.options import Choice, Selector, Settings
from hames.protocols.flint import messages as m
from hames.protocols.flint.inbound import AGENT_OPTION
from hames.protocols.flint.inbound import agent as agent_name
from hames.protocols.flint.wire import text_or_unset

AGENT = Selector(
    id=AGENT_OPTION,
    name="Agent",
    description="How the agent works on the next prompt",
    group="Agent",
    default="code",
    choices=(
        Choice(id="code", name="Code", description="Reads, writes and runs commands"),
        Choice(id="plan", name="Plan", description="Reads and plans, changes nothing"),
        Choice(id="review", name="Review", description="Reviews, changes nothing"),
    ),
)
"""Ours; every other selector is a provider's."""


def config_options(selectors: Sequence[Selector], chosen: Mapping[str, str]) -> list[m.ConfigOption]:
    """The provider's first, as they were advertised; ours last."""
    return [_option(selector, chosen) for selector in (*selectors, AGENT)]


def check_option(selectors: Sequence[Selector], name: str, value: str) -> None:
    """Raises `InvalidCommand` for an option or a value that is not on offer."""
    offered = [selector for selector in (*selectors, AGENT) if selector.id == name]
    if not offered:
        known = ", ".join(dict.fromkeys(selector.id for selector in (*selectors, AGENT)))
        raise InvalidCommand(f"no option {name!r}; there are: {known}")
    choices = dict.fromkeys(choice.id for selector in offered for choice in selector.choices)
    if value not in choices:
        raise InvalidCommand(f"option {name!r} has no value {value!r}; its values are: {', '.join(choices)}")


def applicable_options(selectors: Sequence[Selector], model: str, chosen: Mapping[str, str]) -> dict[str, str]:
    """Of these choices, the ones that mean something to this model."""
    return {
        name: value
        for name, value in chosen.items()
        if any(
            selector.id == name
            and (not selector.models or model in selector.models)
            and any(choice.id == value for choice in selector.choices)
            for selector in selectors
        )
    }


def _option(selector: Selector, chosen: Mapping[str, str]) -> m.ConfigOption:
    value = chosen.get(selector.id, selector.default)
    if all(choice.id != value for choice in selector.choices):
        value = selector.default
    return m.ConfigOption(
        type="select",
        id=selector.id,
        name=selector.name,
        description=text_or_unset(selector.description),
        group=text_or_unset(selector.group),
        options=[
            m.ConfigSelectOption(id=choice.id, name=choice.name, description=text_or_unset(choice.description))
            for choice in selector.choices
        ],
        value=value,
        model_ids=list(selector.models) or UNSET,
    )


def with_options(settings: Settings, chosen: Mapping[str, str]) -> Settings:
    """The settings with what `config/set` chose."""
    options = {**settings.options, **{name: value for name, value in chosen.items() if name != AGENT_OPTION}}
    agent = chosen.get(AGENT_OPTION)
    return replace(settings, options=options, agent=agent_name(agent) if agent else settings.agent)
