"""The files and pictures that a prompt points at, read once: history does not change when a file does."""

import base64
from pathlib import PurePath

from hames.domain import pictures
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ItemId
from hames.domain.items import FileInput, LocalImageInput, Picture, UserInput, UserMessage
from hames.domain.json import Json
from hames.ports import Workspace

PICTURE_BYTES = 20 << 20
FILE_BYTES = 256 << 10


async def user_message(
    content: tuple[UserInput, ...],
    workspace: Workspace,
    *,
    item_id: ItemId,
    step: int,
    cwd: str,
    client_id: str | None,
    meta: Json,
) -> UserMessage:
    """Raises `InvalidCommand` for a file that cannot be read."""
    found: list[Picture] = []
    attachments: list[str] = []
    for part in content:
        if isinstance(part, LocalImageInput):
            path = str(PurePath(cwd, part.path))
            found.append(_picture(path, await workspace.read_file(path, limit=PICTURE_BYTES)))
        elif isinstance(part, FileInput):
            path = str(PurePath(cwd, part.path))
            attachments.append(_text(path, await workspace.read_file(path, limit=FILE_BYTES)))
    return UserMessage(
        id=item_id,
        step=step,
        content=content,
        pictures=tuple(found),
        attachments=tuple(attachments),
        client_id=client_id,
        meta=meta,
    )


def _picture(path: str, data: bytes) -> Picture:
    """Judged by the size it declares; it is not decoded here."""
    shape = pictures.shape(data)
    if shape is None:
        raise InvalidCommand(f"{path!r} is not a PNG, JPEG, GIF or WebP picture")
    if shape.complaint:
        raise InvalidCommand(f"{path!r} cannot be shown to a model: {shape.complaint}")
    return Picture(media_type=shape.media_type, base64=base64.b64encode(data).decode())


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidCommand(f"{path!r} is not text in UTF-8") from None
