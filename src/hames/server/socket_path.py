"""The path of a unix socket, however deep its directory is."""

import os
from pathlib import Path

from hames.domain.guardrails import SOCKET

PATH_BYTES = 107
"""The longest path of a socket that the kernel takes."""


class short_path:  # noqa: N801 - reads as a function
    """The socket's path, or one that means the same where it is longer than the kernel takes."""

    def __init__(self, directory: Path, name: str = SOCKET) -> None:
        self._directory = directory
        self._name = name
        self._fd = -1

    def __enter__(self) -> str:
        path = str(self._directory / self._name)
        if len(os.fsencode(path)) <= PATH_BYTES:
            return path
        self._fd = os.open(self._directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._fd}/{self._name}"

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
