"""/undo, /redo and /rewind: what turns did to files is shown, then taken back or done again."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from msgspec.structs import replace

from hames.client.appserver.client import AppServerClient, text_of
from hames.domain.display import visible
from hames.domain.undo import TO_DO
from hames.protocols.flint import messages as m
from hames.protocols.flint.items import TextInput, UserMessageItem
from hames.tui.conversation import Conversation
from hames.tui.pickers import PickerChoice

MOST_SHOWN = 12
Choose = Callable[[str, list[PickerChoice]], Awaitable[str]]
"""Shows a list under a title. Returns the id of what was chosen; empty: the list was closed."""


async def undo(client: AppServerClient, given: m.ThreadUndoParams, choose: Choose, talk: Conversation) -> str:
    """Shows what would happen and asks. Returns the sentence that says what was done."""
    found = await client.undo(replace(given, preview=True))
    if not found.restored and not found.conflicts:
        return shown(found)
    verb = "Redo" if given.redo else "Undo"
    choices = [PickerChoice(id="yes", label=_files(verb, len(found.restored)), detail=_names(found))]
    if found.conflicts:
        label = _files(f"{verb}, and overwrite what was changed since:", len(found.restored) + len(found.conflicts))
        names = ", ".join(visible(one.path) for one in found.conflicts[:MOST_SHOWN])
        choices.append(PickerChoice(id="overwrite", label=label, detail=f"Changed since: {names}"))
    if not found.restored:
        del choices[0]
    choices.append(PickerChoice(id="", label="Cancel"))
    if not (picked := await choose(f"{verb} changes to files", choices)):
        return "Nothing was changed"
    talk.own_undos += 1
    comes = False
    try:
        done = await client.undo(replace(given, preview=False, overwrite=picked == "overwrite"))
        comes = bool(done.restored)
        return shown(done)
    finally:
        if not comes:
            talk.own_undos -= 1


def shown(found: m.ThreadUndoResult) -> str:
    """What was done, a line for each path."""
    lines = [found.message]
    lines += [f"  {one.action:<12}  {visible(one.path)}" for one in found.restored[:MOST_SHOWN]]
    if len(found.restored) > MOST_SHOWN:
        lines.append(f"  and {len(found.restored) - MOST_SHOWN} more")
    left = [*found.conflicts, *found.not_kept]
    lines += [f"  left alone    {visible(one.path)}: {one.why}" for one in left[:MOST_SHOWN]]
    return "\n".join(lines)


def _files(verb: str, count: int) -> str:
    return f"{verb} {count} {'file' if count == 1 else 'files'}"


def _names(found: m.ThreadUndoResult) -> str:
    # What turns made (also caches) is the longer part of the list; what they changed matters more and comes first.
    ordered = sorted(found.restored, key=lambda one: one.action == "removed")
    names = [f"{TO_DO.get(one.action, one.action)} {visible(one.path)}" for one in ordered[:MOST_SHOWN]]
    return ", ".join(names) + (", …" if len(found.restored) > MOST_SHOWN else "")


class Rewind(NamedTuple):
    """What to go back to: before this turn."""

    turn_id: str
    turn_before: str
    """Empty: it was the first."""
    prompt: str
    files: bool
    conversation: bool


async def choose_rewind(thread: m.Thread, choose: Choose) -> Rewind | None:
    """Asks which message to go back to, and with what. None: the list was closed."""
    turns = [(turn, prompt) for turn in thread.turns if (prompt := _prompt(turn))]
    choices = [
        PickerChoice(id=turn.id, label=prompt.replace("\n", " "), detail=text_of(turn).partition("\n")[0])
        for turn, prompt in reversed(turns)
    ]
    turn_id = await choose("Go back to before this message", choices)
    found = next((place for place, (turn, _) in enumerate(turns) if turn.id == turn_id), None)
    if found is None:
        return None
    what = await choose(
        "Go back with",
        [
            PickerChoice(id="both", label="Files and conversation"),
            PickerChoice(id="files", label="Files", detail="The conversation stays as it is"),
            PickerChoice(id="conversation", label="Conversation", detail="The files stay as they are"),
        ],
    )
    if not what:
        return None
    return Rewind(
        turn_id=turn_id,
        turn_before=turns[found - 1][0].id if found else "",
        prompt=turns[found][1],
        files=what != "conversation",
        conversation=what != "files",
    )


def _prompt(turn: m.Turn) -> str:
    """What the person said first in it."""
    said = next((item for item in turn.items if isinstance(item, UserMessageItem)), None)
    return "\n".join(part.text for part in said.content if isinstance(part, TextInput)) if said is not None else ""
