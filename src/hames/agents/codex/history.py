"""Turns that Codex did not run, as the items that its model is shown. Pure."""

from collections.abc import Sequence

from hames.agents.history import past_messages
from hames.domain.commands import PastMessage
from hames.domain.items import TextInput
from hames.domain.json import Json
from hames.domain.state import Turn


def told(turns: Sequence[Turn]) -> list[Json]:
    return [_item(message) for message in past_messages(turns)]


def told_instructions(instructions: str) -> Json:
    """Instructions of a client that take the place of those it gave before."""
    head = "These instructions replace the earlier instructions of the client"
    text = f"{head}:\n\n{instructions}" if instructions else "The earlier instructions of the client no longer apply."
    return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}


def _item(message: PastMessage) -> Json:
    text = "input_text" if message.role == "user" else "output_text"
    content = [
        {"type": text, "text": part.text}
        if isinstance(part, TextInput)
        else {"type": "input_image", "image_url": part.url}
        for part in message.content
    ]
    return {"type": "message", "role": message.role, "content": content}
