"""What an ACP agent is sent as a prompt: the user's message, and in front of it what the agent has not seen. Pure."""

from collections.abc import Sequence

from hames.agents.history import past_messages, shown_content
from hames.domain.commands import PastMessage
from hames.domain.items import ImageInput, TextInput, UserMessage
from hames.domain.json import Json
from hames.domain.state import Turn
from hames.ports import TurnHandle

HISTORY_CHARS = 120_000
"""How much of a conversation an agent that has not seen it is told. The newest part is kept, and the first prompt."""


def prompt_blocks(message: UserMessage) -> list[Json]:
    blocks: list[Json] = []
    for part in shown_content(message):
        match part:
            case TextInput(text=text):
                blocks.append({"type": "text", "text": text})
            case ImageInput(url=url) if url.startswith("data:") and ";base64," in url:
                kind, _, data = url.removeprefix("data:").partition(";base64,")
                blocks.append({"type": "image", "mimeType": kind, "data": data})
            case ImageInput(url=url):
                blocks.append({"type": "resource_link", "uri": url, "name": url.rpartition("/")[2] or url})
    return blocks


def unseen_note(turns: Sequence[Turn]) -> str:
    """Turns that another agent ran, or that this one has lost. Empty: nothing was said in them."""
    if not (said := _bounded(past_messages(turns))):
        return ""
    return "\n\n".join(("The conversation so far, which you have not seen:", *said, "What follows is new."))


def cut_off_note(lost: TurnHandle | None) -> str:
    """`lost` is the turn if the agent does not know any more what it did in it."""
    words = (
        "The turn with the following prompt was cut off when you were stopped. Go on where it stopped. A command that "
        "was running then may have run, wholly or in part: look before you run it again."
    )
    turn = lost.state.turn(lost.turn_id) if lost is not None else None
    if turn is None:
        return words
    done = _bounded(past_messages([turn])[1:])
    return "\n\n".join((words, "What was said and done in it so far:", *done)) if done else words


def instructions_note(instructions: str) -> str:
    return f"Instructions of the program through which the user talks to you:\n\n{instructions}"


def _bounded(messages: Sequence[PastMessage]) -> list[str]:
    said = [f"{one.role}: {part.text}" for one in messages for part in one.content if isinstance(part, TextInput)]
    if sum(map(len, said)) <= HISTORY_CHARS:
        return said
    first, rest = said[0][: HISTORY_CHARS // 4], said[1:]
    kept: list[str] = []
    room = HISTORY_CHARS - len(first)
    while rest and len(rest[-1]) <= room:
        room -= len(rest[-1])
        kept.append(rest.pop())
    if rest and not kept:
        kept.append(rest.pop()[-room:])
    left_out = [f"({len(rest)} older messages are left out here)"] if rest else []
    return [first, *left_out, *reversed(kept)]
