"""The files of a thread, wherever they are. Neither the engine nor a tool opens one itself.

`Workspace.open` and `Workspace.apply` block: call them in a thread. They refuse with a sentence that the model reads:

* ToolFailed
  · FileRefused
    - Outside        the path leaves the workspace, by its name or through a link
    - LinkInTheWay   a change would go through a symbolic link
    - Missing
    - NotRegular     a directory, FIFO, socket or device, or a file the kernel makes up
    - TooLarge
    - Unsteady       it changes while it is read, or has changed since
    - Denied         the system said no: permissions, a full disk, a failing one
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, runtime_checkable

from hames.domain.project_notes import Note
from hames.domain.situation import Facts
from hames.domain.value import Value


class ToolFailed(Exception):
    """A sentence for the model: the call was not carried out."""


class FileRefused(ToolFailed):
    """The base of all refusals."""


class Outside(FileRefused):
    pass


class LinkInTheWay(FileRefused):
    pass


class Missing(FileRefused):
    pass


class NotRegular(FileRefused):
    pass


class TooLarge(FileRefused):
    pass


class Unsteady(FileRefused):
    pass


class Denied(FileRefused):
    pass


class DirectoryEntry(Value):
    """One name in a directory. `target` is where a link points."""

    path: str
    kind: Literal["file", "directory", "link", "other"]
    size: int = 0
    target: str = ""


class FileEdit(Value):
    """One file before and after; None: there is none. `mode` None keeps the mode, or takes the usual one."""

    root: str
    path: str
    before: bytes | None
    after: bytes | None
    mode: int | None = None


class Directory(Protocol):
    """A directory held open. Paths are relative to it and have no `..`; nothing outside of it is ever reached.

    `follow`: links are followed as long as they stay below; otherwise any link is refused.
    """

    def read(self, path: str, *, limit: int, follow: bool = True) -> bytes:
        """The whole file, or a refusal: more than `limit` bytes, or a file that changes meanwhile."""
        ...

    def mode(self, path: str, *, follow: bool = True) -> int:
        """Type and permissions as the system gives them (`st_mode`), without opening it."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def walk(
        self, path: str, *, depth: int, limit: int, skip: frozenset[str] = frozenset()
    ) -> Iterator[DirectoryEntry]:
        """What is in a directory, sorted, `depth` levels of it, `limit` entries at most. Enters no link."""
        ...


class Workspace(Protocol):
    """The files that people name (a working directory, a file that a prompt points at) and those that tools touch."""

    def open(self, root: str) -> AbstractContextManager[Directory]: ...

    def apply(self, edits: Sequence[FileEdit]) -> None:
        """Carries them all out, or none. `Unsteady` when a file is not what it was `before`."""
        ...

    async def resolve_directory(self, path: str) -> str:
        """The directory's absolute path without links. Raises `InvalidCommand` when there is no such directory."""
        ...

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """A whole plain file of at most `limit` bytes; `path` is absolute. Never blocks on a FIFO or a device.

        Raises `InvalidCommand`.
        """
        ...


@runtime_checkable
class UnsavedFiles(Protocol):
    """A workspace whose files may be open in an editor, with changes that are not saved yet."""

    def save_unsaved(self, paths: Sequence[str]) -> None:
        """Before these files are changed. It blocks, and raises nothing."""
        ...


class Notes(Protocol):
    """Project notes, the most general first and the nearest last. It reads files, and raises nothing."""

    def read(self, cwd: str) -> tuple[Note, ...]: ...


class Glance(Value):
    """What may change under a running thread. `stamps` has a value for each file that changes when the file does;
    a missing file has an empty one."""

    date: str
    branch: str
    stamps: dict[str, str] = {}


class Environment(Protocol):
    """What the model is told about the machine and the working directory. It raises nothing.

    It starts no program that a file of the workspace could name outside of a sandbox.
    """

    git_wait: float
    """How many seconds the first request waits for `git_state`. Later it is told with the results of a tool."""

    async def describe(self, cwd: str) -> Facts:
        """Everything that no program has to be started for."""
        ...

    async def git_state(self, cwd: str) -> str:
        """What git says of uncommitted changes, in words; empty if it says nothing in time."""
        ...

    async def look(self, cwd: str, files: Sequence[str]) -> Glance:
        """Called before every step: it only looks at files. Paths are absolute."""
        ...
