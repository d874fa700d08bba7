"""What a prompt points at, read once: history does not change when a file does."""

import base64
import os
import stat
from pathlib import Path

from anyio import to_thread

from hames.domain import pictures
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ItemId
from hames.domain.items import FileInput, LocalImageInput, Picture, UserInput, UserMessage
from hames.domain.json import Json

PICTURE_BYTES = 20 << 20
FILE_BYTES = 256 << 10


async def user_message(
    content: tuple[UserInput, ...], *, item_id: ItemId, step: int, cwd: str, client_id: str | None, meta: Json
) -> UserMessage:
    """Raises `InvalidCommand` for a file that cannot be read."""
    shown: list[Picture] = []
    attachments: list[str] = []
    for part in content:
        if isinstance(part, LocalImageInput):
            shown.append(await to_thread.run_sync(_picture, str(Path(cwd, part.path))))
        elif isinstance(part, FileInput):
            attachments.append(await to_thread.run_sync(_text, str(Path(cwd, part.path))))
    return UserMessage(
        id=item_id,
        step=step,
        content=content,
        pictures=tuple(shown),
        attachments=tuple(attachments),
        client_id=client_id,
        meta=meta,
    )


def _picture(path: str) -> Picture:
    """Judged by the size it declares, and never unfolded here."""
    data = _read(path, PICTURE_BYTES)
    shape = pictures.shape(data)
    if shape is None:
        raise InvalidCommand(f"{path!r} is not a PNG, JPEG, GIF or WebP picture")
    if shape.complaint:
        raise InvalidCommand(f"{path!r} cannot be shown to a model: {shape.complaint}")
    return Picture(media_type=shape.media_type, base64=base64.b64encode(data).decode())


def _text(path: str) -> str:
    data = _read(path, FILE_BYTES)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidCommand(f"{path!r} is not text in UTF-8") from None


def _read(path: str, limit: int) -> bytes:
    """Never blocks: a FIFO or a device is refused by what it is."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as problem:
        raise InvalidCommand(f"cannot read {path!r}: {getattr(problem, 'strerror', None) or problem}") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidCommand(f"{path!r} is not a plain file")
        if found.st_size > limit:
            raise InvalidCommand(f"{path!r} has {found.st_size} bytes; the limit is {limit}")
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(fd)
