"""A review turn: the same loop, with an eye for what is wrong and no hand to change it."""

from dataclasses import replace as changed

from msgspec.structs import replace

from hames.core.prompts import effective, system_prompt
from hames.core.turn import TurnWork
from hames.domain.commands import ReviewTarget
from hames.domain.errors import InvalidCommand
from hames.domain.items import TextInput

WHAT = {
    "uncommittedChanges": "Review the uncommitted changes of this workspace: staged, unstaged and untracked files.",
    "baseBranch": "Review what this branch changes against the branch {text!r}: from their merge base to now.",
    "commit": "Review the commit {text!r}.",
    "custom": "{text}",
}


def prompt(target: ReviewTarget) -> tuple[TextInput, ...]:
    """Raises `InvalidCommand` for a target that names nothing."""
    text = target.text.strip()
    if target.kind != "uncommittedChanges" and not text:
        raise InvalidCommand(f"a review of kind {target.kind!r} needs to be told what to look at")
    return (TextInput(text=WHAT[target.kind].format(text=text) if target.kind != "custom" else text),)


def reading(work: TurnWork) -> TurnWork:
    """The turn with the reviewer's instructions, its read-only sandbox and its tools."""
    settings = effective(replace(work.settings, agent="review"))
    return changed(
        work,
        settings=settings,
        place=replace(work.place, sandbox=settings.sandbox),
        tools={name: tool for name, tool in work.tools.items() if not tool.spec.writes},
        system=system_prompt(settings, work.notes),
    )
