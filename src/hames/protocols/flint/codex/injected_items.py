"""`thread/inject_items`: messages that the model is to know of, added to a thread without a turn of its own."""

from typing import Literal

from hames.codecs.jsonrpc_peer import Params
from hames.domain.commands import TURN_NAME, AddHistory, PastMessage, PastTurn
from hames.domain.errors import InvalidCommand
from hames.domain.items import ImageInput, TextInput
from hames.domain.json import Json
from hames.domain.state import Turn
from hames.protocols.flint.inbound import read, thread_id
from hames.protocols.flint.wire import Wire

_ROLES: dict[Json, Literal["user", "assistant"]] = {
    "user": "user",
    "assistant": "assistant",
    "developer": "user",
    "system": "user",
}
"""What a client injects is never more than a message: instructions have a member of their own."""


INJECTED = "injected"
"""The name of a turn that is none: it holds what was injected."""


class ThreadInjectItems(Wire):
    thread_id: str
    items: list[Json]


def decode_injected_items(params: Params) -> AddHistory:
    """Raises `InvalidCommand` that names the item."""
    given = read(params, ThreadInjectItems)
    messages = tuple(_message(item, f"items[{index}]") for index, item in enumerate(given.items))
    return AddHistory(
        thread_id=thread_id(given.thread_id), turns=(PastTurn(id=INJECTED, messages=messages),) if messages else ()
    )


def is_injected(turn: Turn) -> bool:
    return isinstance(turn.meta, dict) and turn.meta.get(TURN_NAME) == INJECTED


def _message(item: Json, where: str) -> PastMessage:
    match item:
        case {"type": "message", "role": role, "content": [*parts]} if role in _ROLES:
            return PastMessage(role=_ROLES[role], content=tuple(_part(part, where) for part in parts))
        case _:
            raise InvalidCommand(f"{where}: must be a message with a role and content; other items cannot be injected")


def _part(part: Json, where: str) -> TextInput | ImageInput:
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
            return TextInput(text=text)
        case {"type": "input_image", "image_url": str(url)}:
            return ImageInput(url=url)
        case _:
            raise InvalidCommand(f"{where}: content must be text or images with an address")
