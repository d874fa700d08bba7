"""The files of a thread as an editor shows them: unsaved changes are read, and what we change is told to it.

The disk stays the truth. A file is first read, and changed, as every file is, with all the checks of the workspace;
only then the editor is asked for its text of the same file, or given the new one. An editor that refuses or says
nothing changes nothing. Nothing is asked while a background command runs: it could put a link where the file was, and
the editor would follow it with the rights of the user.
"""

import os.path
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from anyio import from_thread

from hames.core.thread import Thread
from hames.domain.options import Settings
from hames.domain.policy import DangerFullAccess, ExternalSandbox, WorkspaceWrite
from hames.ports import Directory, DirectoryEntry, EditorClient, FileEdit, ToolFailed, Workspace

MAX_BYTES = 8 << 20
SNIFFED_BYTES = 8192
MARK = "\ufeff"
R = TypeVar("R")


class EditorWorkspace:
    """Implements `ports.Workspace` and `ports.UnsavedFiles` for one thread."""

    def __init__(
        self, files: Workspace, thread: Thread, settings: Settings, *, is_steady: Callable[[], bool] = lambda: True
    ) -> None:
        """`is_steady`: no command of the thread could move files meanwhile."""
        self._files = files
        self._thread = thread
        self._roots = _roots(settings)
        self._is_steady = is_steady

    @contextmanager
    def open(self, root: str) -> Generator[Directory]:
        with self._files.open(root) as directory:
            yield EditorDirectory(directory, root, self) if self._editors() else directory

    def apply(self, edits: Sequence[FileEdit]) -> None:
        self._files.apply(edits)
        for edit in edits:
            if edit.after is not None and (text := _text(edit.after)) is not None:
                path = _joined(edit.root, edit.path)
                self._ask(path, lambda editor, path=path, text=text: editor.write_file(self._thread.id, path, text))

    async def resolve_directory(self, path: str) -> str:
        return await self._files.resolve_directory(path)

    async def read_file(self, path: str, *, limit: int) -> bytes:
        return await self._files.read_file(path, limit=limit)

    def save_unsaved(self, paths: Sequence[str]) -> None:
        """So that the change that was shown fits the file, and undo brings back what the editor showed."""
        for path in paths if self._editors() else ():
            root = next((one for one in self._roots if path.startswith(_joined(one, ""))), None)
            if root is None:
                continue
            below = path[len(_joined(root, "")) :]
            with suppress(ToolFailed), self._files.open(root) as directory:
                disk = directory.read(below, limit=MAX_BYTES, follow=False)
                shown = self.shown(path, disk, MAX_BYTES)
                if shown != disk:
                    self._files.apply([FileEdit(root=root, path=below, before=disk, after=shown)])

    def shown(self, path: str, disk: bytes, limit: int) -> bytes:
        """What the editor shows of a file; the file itself where it shows nothing else."""
        saved = _text(disk)
        if saved is None:
            return disk
        text = self._ask(path, lambda editor: editor.read_file(self._thread.id, path))
        if text is None or _plain(text) in (_plain(saved), _plain(saved).removesuffix("\n")):
            return disk
        body = _plain(text)
        if saved.count("\n") == saved.count("\r\n") > 0:
            body = body.replace("\n", "\r\n")
        mark = MARK if saved.startswith(MARK) else ""
        try:
            found = (mark + body).encode()
        except UnicodeEncodeError:
            return disk
        return found if len(found) <= limit else disk

    def _editors(self) -> list[EditorClient]:
        """The best is last."""
        clients = [one for one in self._thread.tool_clients() if isinstance(one, EditorClient)]
        ranked = [(one.editor_rank(self._thread.id), one) for one in clients]
        return [one for rank, one in sorted(ranked, key=lambda pair: pair[0]) if rank > 0]

    def _ask(self, path: str, request: Callable[[EditorClient], Awaitable[R]]) -> R | None:
        """From the thread in which files are read. None: nobody was asked, or nobody answered."""
        editors = self._editors()
        if not editors or not self._is_steady() or os.path.realpath(path) != path:
            return None

        async def ask() -> R:
            return await request(editors[-1])

        try:
            answer = from_thread.run(ask)
        except RuntimeError:  # not a thread of the event loop's, or the loop ends
            return None
        return answer if os.path.realpath(path) == path else None


class EditorDirectory:
    """Implements `ports.Directory`."""

    def __init__(self, directory: Directory, root: str, files: EditorWorkspace) -> None:
        self._directory = directory
        self._root = root
        self._files = files

    def read(self, path: str, *, limit: int, follow: bool = True) -> bytes:
        content = self._directory.read(path, limit=limit, follow=follow)
        return self._files.shown(_joined(self._root, path), content, limit)

    def mode(self, path: str, *, follow: bool = True) -> int:
        return self._directory.mode(path, follow=follow)

    def is_directory(self, path: str) -> bool:
        return self._directory.is_directory(path)

    def walk(
        self, path: str, *, depth: int, limit: int, skip: frozenset[str] = frozenset()
    ) -> Iterator[DirectoryEntry]:
        return self._directory.walk(path, depth=depth, limit=limit, skip=skip)


def _roots(settings: Settings) -> tuple[str, ...]:
    match settings.sandbox:
        case WorkspaceWrite(writable_roots=roots):
            return (settings.cwd, *roots)
        case DangerFullAccess() | ExternalSandbox():
            return (settings.cwd, "/")
        case _:
            return (settings.cwd,)


def _joined(root: str, path: str) -> str:
    return f"{root.rstrip('/')}/{path}"


def _plain(text: str) -> str:
    return text.removeprefix(MARK).replace("\r\n", "\n")


def _text(content: bytes) -> str | None:
    """None for what an editor of text would not show as it is."""
    if b"\0" in content[:SNIFFED_BYTES]:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
