"""Pictures on their way into a prompt: kept beside the threads until a turn has read them."""

import os
import re
import secrets
import shutil
import time
from pathlib import Path

from hames.domain.errors import InvalidCommand
from hames.domain.pictures import shape
from hames.private_files import private_directory
from hames.protocols.sync.pages import Upload

PICTURE_BYTES = 10 << 20
KEPT_SECONDS = 7 * 24 * 3600.0
SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}

_ID = re.compile(r"up_[0-9a-f]{32}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._ -]+")


class Uploads:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, data: bytes, media_type: str, name: str) -> Upload:
        """Raises `InvalidCommand` for bytes that are not what they are said to be, or no model would take."""
        found = shape(data)
        if found is None or found.media_type != media_type:
            raise InvalidCommand(f"the data is not {media_type}")
        if found.complaint:
            raise InvalidCommand(f"the picture cannot be used: {found.complaint}")
        upload_id = f"up_{secrets.token_hex(16)}"
        plain = Path(_UNSAFE.sub("_", name.replace("/", "_"))).stem.strip(" .")[:80] or "picture"
        path = self._directory / upload_id / (plain + SUFFIXES[media_type])
        private_directory(path.parent)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        return Upload(id=upload_id, name=path.name, media_type=media_type, size=len(data))

    def path(self, upload_id: str) -> str:
        """Raises `InvalidCommand`."""
        if _ID.fullmatch(upload_id):
            for found in (self._directory / upload_id).glob("*"):
                return str(found)
        raise InvalidCommand(f"no upload {upload_id!r}")

    def sweep(self) -> None:
        """Delete uploads that no prompt used. A turn that started has its own copy."""
        now = time.time()
        for old in self._directory.glob("up_*"):
            if now - old.lstat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
