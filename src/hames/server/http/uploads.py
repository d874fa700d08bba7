"""Pictures on their way into a prompt: kept beside the threads until a turn has read them.

Where several servers share a store they are kept there: the turn may run on another machine.
"""

import os
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import Protocol

import anyio

from hames.domain.errors import InvalidCommand
from hames.domain.pictures import shape
from hames.domain.uploads import is_upload_id, shared_path
from hames.ports.server_state import ServerState
from hames.private_files import private_directory
from hames.protocols.sync.pages import Upload

PICTURE_BYTES = 10 << 20
KEPT_SECONDS = 7 * 24 * 3600.0
SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}

_UNSAFE = re.compile(r"[^A-Za-z0-9._ -]+")


class Uploads(Protocol):
    async def keep(self, data: bytes, media_type: str, name: str) -> Upload:
        """Raises `InvalidCommand` for bytes that are not what they are said to be, or no model would take."""
        ...

    def path(self, upload_id: str) -> str:
        """What a prompt names. Raises `InvalidCommand`."""
        ...

    async def read(self, upload_id: str) -> bytes:
        """Raises `InvalidCommand`."""
        ...

    async def sweep(self) -> None:
        """Delete uploads that no prompt used. A turn that started has its own copy."""
        ...


class UploadDirectory:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def keep(self, data: bytes, media_type: str, name: str) -> Upload:
        made = _checked(data, media_type, name)
        path = self._directory / made.id / made.name
        private_directory(path.parent)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        return made

    def path(self, upload_id: str) -> str:
        if is_upload_id(upload_id):
            for found in (self._directory / upload_id).glob("*"):
                return str(found)
        raise InvalidCommand(f"no upload {upload_id!r}")

    async def read(self, upload_id: str) -> bytes:
        return await anyio.Path(self.path(upload_id)).read_bytes()

    async def sweep(self) -> None:
        now = time.time()
        for old in self._directory.glob("up_*"):
            if now - old.lstat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(old, ignore_errors=True)


class SharedUploads:
    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def keep(self, data: bytes, media_type: str, name: str) -> Upload:
        made = _checked(data, media_type, name)
        await self._state.put_upload(made.id, made.name, data)
        return made

    def path(self, upload_id: str) -> str:
        if not is_upload_id(upload_id):
            raise InvalidCommand(f"no upload {upload_id!r}")
        return shared_path(upload_id)

    async def read(self, upload_id: str) -> bytes:
        found = await self._state.find_upload(upload_id) if is_upload_id(upload_id) else None
        if found is None:
            raise InvalidCommand(f"no upload {upload_id!r}")
        return found

    async def sweep(self) -> None:
        await self._state.delete_old_uploads(KEPT_SECONDS)


def _checked(data: bytes, media_type: str, name: str) -> Upload:
    """Raises `InvalidCommand`."""
    found = shape(data)
    if found is None or found.media_type != media_type:
        raise InvalidCommand(f"the data is not {media_type}")
    if found.complaint:
        raise InvalidCommand(f"the picture cannot be used: {found.complaint}")
    plain = Path(_UNSAFE.sub("_", name.replace("/", "_"))).stem.strip(" .")[:80] or "picture"
    return Upload(
        id=f"up_{secrets.token_hex(16)}", name=plain + SUFFIXES[media_type], media_type=media_type, size=len(data)
    )
