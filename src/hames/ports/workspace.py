"""The files of a thread, wherever they are. The engine opens none itself."""

from typing import Protocol

from hames.domain.notes import Note


class Workspace(Protocol):
    """The files that people name: a working directory, a file that a prompt points at."""

    async def resolve_directory(self, path: str) -> str:
        """The directory's absolute path without links. Raises `InvalidCommand` when there is no such directory."""
        ...

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """A whole plain file of at most `limit` bytes; `path` is absolute. Never blocks on a FIFO or a device.

        Raises `InvalidCommand`.
        """
        ...


class Notes(Protocol):
    """Project notes, the most general first and the nearest last. It reads files, and raises nothing."""

    def read(self, cwd: str) -> tuple[Note, ...]: ...
