"""The pictures of a thread's messages, as bytes. Only kinds that a browser shows and does not run."""

import base64
import binascii

from hames.domain.items import FileInput, ImageInput, LocalImageInput, TextInput, UserMessage
from hames.domain.state import ThreadState
from hames.protocols.sync.turns import message_id
from hames.server.guard.gate import PICTURES


def picture(state: ThreadState, message: str, position: int) -> tuple[str, bytes] | None:
    """Media type and bytes of a message's attachment, counted as `attachments` counts them. None: there is none."""
    for turn in state.turns:
        for item in turn.items:
            if isinstance(item, UserMessage) and message_id(item) == message:
                return _picture(item, position)
    return None


def _picture(item: UserMessage, position: int) -> tuple[str, bytes] | None:
    local = 0
    attached = [part for part in item.content if not isinstance(part, TextInput)]
    for number, part in enumerate(attached):
        match part:
            case LocalImageInput():
                if number == position and local < len(item.pictures):
                    return decode_picture(item.pictures[local].media_type, item.pictures[local].base64)
                local += 1
            case ImageInput(url=url) if number == position and url.startswith("data:"):
                kind, _, data = url.removeprefix("data:").partition(",")
                return decode_picture(kind.removesuffix(";base64"), data) if kind.endswith(";base64") else None
            case ImageInput() | FileInput():
                pass
    return None


def decode_picture(media_type: str, text: str) -> tuple[str, bytes] | None:
    """Media type and bytes; None for what is no picture that a browser shows."""
    if media_type not in PICTURES:
        return None
    try:
        return media_type, base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
