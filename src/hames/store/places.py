"""Which data directories are ours.

A `.harness` can come with a cloned repository: its logs are data to look at,
never consent. A directory is ours when it holds a token that this user's own
state directory knows together with the directory's identity; a copy has another
identity, and a planted one cannot know the token.
"""

import contextlib
import os
import re
import secrets
from pathlib import Path

from hames.store.disk import FILE, read_small

TOKEN = re.compile(r"[0-9a-f]{32}")
OWNER = "owner"


class Places:
    """`home` is the user's state directory; None: nothing is remembered, and so nothing is ours."""

    def __init__(self, home: Path | None) -> None:
        self._home = home / "places" if home else None

    def claim(self, directory_fd: int) -> None:
        """Called right after we made the directory ourselves."""
        if self._home is None:
            return
        token = secrets.token_hex(16)
        with contextlib.suppress(OSError):
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._home / token).write_text(_identity(directory_fd))
            fd = os.open(OWNER, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE, 0o600, dir_fd=directory_fd)
            with os.fdopen(fd, "w") as file:
                file.write(token)

    def token(self, directory_fd: int) -> str:
        """The directory's token if it is ours, else nothing."""
        if self._home is None:
            return ""
        try:
            token = read_small(OWNER, at=directory_fd, limit=64).decode("ascii", "replace").strip()
            if TOKEN.fullmatch(token) and (self._home / token).read_text() == _identity(directory_fd):
                return token
        except OSError:
            pass
        return ""


def _identity(directory_fd: int) -> str:
    found = os.fstat(directory_fd)
    return f"{found.st_dev}:{found.st_ino}"
