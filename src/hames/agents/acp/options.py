"""What an ACP agent lets people choose: its models, modes and other options, as our models and selectors. Pure.

Version 1 has modes and, in older agents, models beside the options; version 2 has options alone. All of them become
`AgentOption`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from hames.domain.json import Json
from hames.domain.options import Choice, Selector
from hames.domain.value import Value

DEFAULT = "default"
MODEL, MODE, EFFORT = "model", "mode", "thought_level"
"""The categories that ACP names."""
SELECTORS = {MODE: "agent_mode", EFFORT: "reasoning_effort"}
RESERVED = frozenset({"agent", "model", "mode", "approval_policy", "sandbox", *SELECTORS.values()})
READ_ONLY_MODES = ("plan", "read-only", "read_only", "readonly", "architect", "chat")
"""Modes in which agents change nothing, the best first."""
UNATTENDED_MODES = frozenset({"auto", "yolo", "auto-approve", "bypassPermissions", "full-access", "autopilot"})
ASKING_MODES = ("approve", "ask", "default", "manual", "smart_approve")
"""Modes in which agents ask, the most careful first."""
MAX_CHOICES = 500


class AgentOption(Value):
    """One thing to choose at an agent. `how` is the request that sets it."""

    id: str
    name: str
    category: str
    current: str
    choices: tuple[Choice, ...]
    description: str = ""
    how: Literal["config", "boolean", "mode", "model"] = "config"


class AgentCatalog(Value):
    """What an agent offered the last time a session was opened. `current` of its options is the agent's own default."""

    options: tuple[AgentOption, ...] = ()
    commands: tuple[str, ...] = ()
    images: bool = False
    title: str = ""

    def option(self, category: str) -> AgentOption | None:
        return next((one for one in self.options if one.category == category), None)

    def learned(self, options: Sequence[AgentOption], *, is_new: bool) -> "AgentCatalog":
        """`is_new`: a session that nobody has chosen anything for, so what it has now is the default."""
        if is_new:
            return replace(self, options=tuple(options))
        defaults = {one.id: one.current for one in self.options}
        kept = (replace(one, current=defaults.get(one.id, one.current)) for one in options)
        return replace(self, options=tuple(kept))

    def with_commands(self, told: Json) -> "AgentCatalog":
        """With the commands that an answer or an update names; as it was, where none are named."""
        rows = told.get("availableCommands") if isinstance(told, dict) else None
        if not isinstance(rows, list):
            return self
        names = (_text(row.get("name")) for row in rows if isinstance(row, dict))
        return replace(self, commands=tuple(name for name in names if name)[:MAX_CHOICES])


def read_options(opened: Json) -> tuple[AgentOption, ...]:
    """The options in the answer that opens a session, or in an update about them."""
    if not isinstance(opened, dict):
        return ()
    listed = opened.get("configOptions")
    found = [one for row in (listed if isinstance(listed, list) else []) for one in _config_option(row)]
    categories = {one.category for one in found}
    if MODE not in categories:
        found += _older(opened.get("modes"), "currentModeId", "availableModes", "id", MODE)
    if MODEL not in categories:
        found += _older(opened.get("models"), "currentModelId", "availableModels", "modelId", MODEL)
    return tuple(_one_of_each_category(found))


def _one_of_each_category(options: Sequence[AgentOption]) -> Iterator[AgentOption]:
    """A second option of a category that has a meaning here is one without a meaning."""
    seen: set[str] = set()
    for one in options:
        if one.category in seen and one.category in (MODEL, MODE, EFFORT):
            yield replace(one, category="")
        else:
            yield one
        seen.add(one.category)


def _config_option(row: Json) -> Iterator[AgentOption]:
    match row:
        case {"type": "boolean", "name": str(name)} if option_id := _id(row):
            current = "true" if row.get("currentValue") is True else "false"
            choices = (Choice(id="true", name="On"), Choice(id="false", name="Off"))
            yield AgentOption(
                id=option_id,
                name=name,
                category="",
                current=current,
                choices=choices,
                how="boolean",
                description=_text(row.get("description")),
            )
        case {"name": str(name), "currentValue": str(current), "options": [*values]} if option_id := _id(row):
            choices = tuple(_choices(values))[:MAX_CHOICES]
            if choices:
                category = _text(row.get("category"))
                yield AgentOption(
                    id=option_id,
                    name=name,
                    category=category,
                    current=current,
                    choices=choices,
                    description=_text(row.get("description")),
                )
        case _:
            return


def _id(row: dict[str, Json]) -> str:
    """Version 1 calls it `id`, version 2 `configId`."""
    return _text(row.get("configId") or row.get("id"))


def _choices(values: Sequence[Json]) -> Iterator[Choice]:
    for value in values:
        match value:
            case {"options": [*inner]}:  # a group
                yield from _choices(inner)
            case {"value": str(chosen)} if chosen and chosen.isprintable():
                name = _text(value.get("name")) or chosen
                yield Choice(id=chosen, name=name, description=_text(value.get("description")))
            case _:
                pass


def _older(
    state: Json, current: str, available: str, member: str, category: Literal["mode", "model"]
) -> list[AgentOption]:
    if not isinstance(state, dict) or not isinstance(state.get(available), list):
        return []
    rows = [{**row, "value": row.get(member)} for row in state[available] if isinstance(row, dict)]
    choices = tuple(_choices(rows))[:MAX_CHOICES]
    if not choices:
        return []
    chosen = _text(state.get(current)) or choices[0].id
    name = category.capitalize()
    return [AgentOption(id=category, name=name, category=category, current=chosen, choices=choices, how=category)]


def selector_id(option: AgentOption) -> str:
    """The name of our selector for it; empty for models, which are in the list of models."""
    if option.category == MODEL:
        return ""
    if option.category in SELECTORS:
        return SELECTORS[option.category]
    plain = re.sub(r"[^a-z0-9_]+", "_", option.id.lower()).strip("_") or "option"
    return f"agent_{plain}" if plain in RESERVED else plain


def selectors(catalog: AgentCatalog, agent: str, models: tuple[str, ...]) -> list[Selector]:
    """The agent's options as our selectors. `default` leaves the choice to the agent."""
    made: list[Selector] = []
    for option in catalog.options:
        if not (name := selector_id(option)) or any(one.id == name for one in made):
            continue
        usual = next((one.name for one in option.choices if one.id == option.current), option.current)
        unset = Choice(id=DEFAULT, name="Default", description=f"As {agent} does it: {usual}")
        rest = tuple(one for one in option.choices if one.id != DEFAULT)
        group = "Reasoning" if option.category == EFFORT else catalog.title or agent
        made.append(
            Selector(
                id=name,
                name=option.name,
                group=group,
                choices=(unset, *rest),
                default=DEFAULT,
                models=models,
                description=option.description,
            )
        )
    return made


def wanted_values(
    options: Sequence[AgentOption], catalog: AgentCatalog, model: str, chosen: Mapping[str, str], *, asks: bool
) -> Iterator[tuple[AgentOption, str]]:
    """What has to be set at the agent: options that do not have the value that people chose for the thread.

    `asks`: people want to be asked, so a mode that the agent chose by itself and that asks nothing is not used where
    it has one that asks.
    """
    defaults = {one.id: one.current for one in catalog.options}
    for option in options:
        wanted = model if option.category == MODEL else chosen.get(selector_id(option), DEFAULT)
        if wanted == DEFAULT or not wanted:
            wanted = defaults.get(option.id, option.current)
            offered = {one.id for one in option.choices}
            if asks and option.category == MODE and wanted in UNATTENDED_MODES:
                wanted = next((one for one in ASKING_MODES if one in offered), wanted)
            if wanted not in offered:
                continue
        if wanted != option.current:
            yield option, wanted


def read_only_mode(options: Sequence[AgentOption]) -> tuple[AgentOption, str] | None:
    """The option and the value with which the agent changes nothing. None: it has no such mode."""
    option = next((one for one in options if one.category == MODE), None)
    if option is None:
        return None
    for wanted in READ_ONLY_MODES:
        for choice in option.choices:
            if choice.id.lower().rpartition("#")[2].rpartition("/")[2] == wanted:
                return option, choice.id
    return None


def _text(value: Json) -> str:
    return value if isinstance(value, str) and value.isprintable() else ""
