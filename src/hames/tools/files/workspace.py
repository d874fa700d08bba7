"""The files of this machine, for the engine and the tools."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from hames.domain.errors import InvalidCommand
from hames.ports import FileEdit
from hames.tools.files.directory import LocalDirectory


class LocalWorkspace:
    """Implements `ports.Workspace`.

    What people name is read wherever it is, if the user of this process may; what tools touch lies below a root.
    """

    def open(self, root: str) -> LocalDirectory:
        return LocalDirectory(root)

    def apply(self, edits: Sequence[FileEdit]) -> None:
        from hames.tools.files.apply_changes import apply

        apply(edits)

    async def resolve_directory(self, path: str) -> str:
        if "\0" in path or not Path(path).is_absolute():
            raise InvalidCommand(f"not an absolute path: {path!r}")
        return _resolve(path)

    async def read_file(self, path: str, *, limit: int) -> bytes:
        return await to_thread.run_sync(_read, path, limit)


def _resolve(path: str) -> str:
    try:
        found = Path(path).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise InvalidCommand(f"no directory {path!r}") from None
    if not found.is_dir():
        raise InvalidCommand(f"not a directory: {path!r}")
    return str(found)


def _read(path: str, limit: int) -> bytes:
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
