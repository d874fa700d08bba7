"""The files of a thread."""

from typing import Protocol

from hames.domain.notes import Note


class Notes(Protocol):
    """Project notes, the most general first and the nearest last. It reads files, and raises nothing."""

    def read(self, cwd: str) -> tuple[Note, ...]: ...
