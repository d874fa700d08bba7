"""What a turn needs of its agent beyond what every agent can do, and what is said when the agent cannot: abilities,
and rules that do not reach into an agent with a loop and a sandbox of its own."""

from collections.abc import Sequence

from msgspec.structs import replace

from hames.core.engine_rules import EngineRules
from hames.core.loaded import LoadedThread
from hames.core.rule_checks import rules_in_force
from hames.domain.events import Event, Noticed, SettingsChanged
from hames.domain.ids import TurnId
from hames.domain.options import Settings
from hames.domain.rules import Rule
from hames.domain.state import ThreadState
from hames.ports import Ability, RuleBook, TurnHandle

REFUSALS: dict[Ability, str] = {
    "review": "cannot do reviews: ask for one in a prompt",
    "compact": "cannot compact its conversation: it keeps its own history",
    "instructions": "does not accept instructions or a personality from a client",
    "mcpServers": "cannot use MCP servers that a client brings",
    "clientTools": "cannot use tools that a client carries out",
    "steer": "does not accept messages while it works: queue the prompt, or interrupt the turn",
}


def needed_abilities(settings: Settings, defaults: Settings) -> list[Ability]:
    """What these settings ask of an agent beyond what every agent can do."""
    needed: list[Ability] = []
    if _instructions(settings) != _instructions(defaults):
        needed.append("instructions")
    if settings.mcp_servers:
        needed.append("mcpServers")
    if settings.client_tools:
        needed.append("clientTools")
    return needed


def _instructions(settings: Settings) -> tuple[str, ...]:
    """Without those of a collaboration mode: clients send their own with every turn, and the mode has its effect."""
    return settings.instructions, settings.base_instructions, settings.personality


def moved_model(state: ThreadState, before: Sequence[Event], rules: EngineRules) -> list[Event]:
    """Where one agent runs every turn: moves a thread with another model to the default model, and says so.

    `before` is what will be written before the turn.
    """
    chosen = [event.settings for event in before if isinstance(event, SettingsChanged)]
    settings = chosen[-1] if chosen else state.settings
    if not rules.only_agent or settings.model.partition("/")[0] == rules.only_agent:
        return []
    model = rules.defaults.model
    words = f"This thread used {settings.model}. On this server every turn runs on {model}, so it continues there."
    return [
        SettingsChanged(settings=replace(settings, model=model, options={})),
        Noticed(source="hames", name="model_changed", severity="warning", message=words),
    ]


async def warn_once(loaded: LoadedThread, rules: EngineRules, turn_id: TurnId) -> None:
    """Says what is wrong with the configuration, once for each thread that is opened, and what else waits."""
    warnings = () if loaded.warned else rules.warnings
    waiting, loaded.notices, loaded.warned = loaded.notices, [], True
    told = (
        Noticed(source="hames", name="config", severity="warning", message=words, turn_id=turn_id) for words in warnings
    )
    if warnings or waiting:
        await loaded.thread.emit(*waiting, *told)


async def tell_agent_rules(book: RuleBook | None, loaded: LoadedThread, turn: TurnHandle) -> None:
    """Once for each thread that is opened. Such an agent asks nobody about what it does inside its own sandbox."""
    if loaded.rules_told:
        return
    loaded.rules_told = True
    if words := limits_of_rules(rules_in_force(book, turn.settings, turn.settings.cwd)):
        told = Noticed(source="hames", name="agent_rules", severity="warning", message=words, turn_id=turn.turn_id)
        await loaded.thread.emit(told)


def limits_of_rules(rules: tuple[Rule, ...]) -> str:
    """For people; empty: there is nothing to say.

    >>> limits_of_rules((Rule(action="allow", command="make *"),))
    ''
    """
    kinds = sorted({rule.subject for rule in rules if rule.action != "allow"})
    if not kinds:
        return ""
    return (
        f"Rules that ask or deny ({', '.join(kinds)}) hold for what this agent asks about. What it does without a"
        " question is limited by its own sandbox alone; plan mode and the sandbox readOnly make that read-only"
    )
