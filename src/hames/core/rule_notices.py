"""Says at the start of a turn how far rules hold for an agent that has a loop and a sandbox of its own."""

from hames.core.loaded import LoadedThread
from hames.core.rule_checks import rules_in_force
from hames.domain.events import Noticed
from hames.domain.rules import Rule
from hames.ports import RuleBook, TurnHandle


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
