"""One language server of one thread: started at the first edit of a file it knows, and ended with the thread.

A task of its own carries out the checks, one after the other. Whoever edits waits for a moment only: what comes later
is told with a later edit.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import anyio

from hames.domain.json import Json
from hames.domain.policy import SandboxPolicy
from hames.domain.value import Value
from hames.ports import BackgroundProcess, Launch, Limits, Sandbox, ToolFailed
from hames.tools.language_servers.connection import (
    LanguageServerConnection,
    LanguageServerGone,
    Params,
    RequestRefused,
    launch_argv,
)
from hames.tools.language_servers.diagnostics import FileError, new_errors, read_errors
from hames.tools.language_servers.installed import InstalledServer, language_id

log = logging.getLogger(__name__)

STARTS = 3
"""So often a server may fail. One that keeps ending is left alone."""
START_SECONDS = 60.0
CHECK_SECONDS = 30.0
"""How long a server may take for one file. It works in the background; who edits does not wait so long."""
QUIET_SECONDS, UNVERSIONED_QUIET_SECONDS = 0.1, 0.3
"""Servers may speak twice of the same text: once fast, once thoroughly. Without a version it may be the text before."""
SILENT_SECONDS = 1.0
"""Servers without versions say nothing, when what they would say is what they said before."""
OPEN_FILES = 32
CHECKED_AGAIN = 8
"""Files edited before that are asked about again, because an edit of one file breaks another."""
QUEUED = 32
_CHANGED, _CREATED, _DELETED = 2, 1, 3


class TextEdit(Value):
    """A file before and after; None: there is none."""

    path: str
    before: str | None
    after: str | None


class FileCheck:
    """Edits to be checked. `done` is set when they were, or never will be."""

    def __init__(self, edits: Iterable[TextEdit]) -> None:
        self.edits = tuple(edits)
        self.done = anyio.Event()


class _OpenFile:
    def __init__(self, path: str, text: str) -> None:
        self.uri = Path(path).as_uri()
        self.text = text
        self.version = 1
        self.known: list[FileError] | None = None
        """The errors that the model was told of, or that were there before its edits. None: not known yet."""
        self.errors: list[FileError] | None = None
        """The errors there are now; None: the server has not said."""
        self.unversioned: Json = None
        """What a server that names no versions said of an earlier version."""


class LanguageServer:
    """`run` is its task. It takes one check after the other, and starts the program when there is something to do."""

    def __init__(
        self,
        server: InstalledServer,
        sandbox: Sandbox,
        policy: SandboxPolicy,
        *,
        workspace: str,
        idle_seconds: float,
        hidden: tuple[str, ...] = (),
    ) -> None:
        self.name = server.name
        self._idle_seconds = idle_seconds
        self.is_over = False
        self._server = server
        self._sandbox = sandbox
        self._launch = Launch(
            argv=launch_argv(server.argv),
            cwd=server.root,
            workspace=workspace,
            policy=policy,
            limits=Limits(seconds=0),
            background=True,
            hidden=hidden,
        )
        self._queue: deque[FileCheck] = deque()
        self._work = anyio.Event()
        self._files: OrderedDict[str, _OpenFile] = OrderedDict()
        self._published: dict[str, tuple[int | None, Json]] = {}
        self._heard = anyio.Event()
        self._pulls = False

    def submit(self, edits: Iterable[TextEdit]) -> FileCheck:
        check = FileCheck(edits)
        if self.is_over:
            check.done.set()
            return check
        if len(self._queue) >= QUEUED:
            self._queue.popleft().done.set()
        self._queue.append(check)
        self._work.set()
        return check

    def take_new_errors(self) -> dict[str, list[FileError]]:
        """By path: the errors that nobody was told of and that were not there before. Each is returned once."""
        found: dict[str, list[FileError]] = {}
        for path, file in self._files.items():
            if file.errors is None:
                continue
            if file.known is not None and (fresh := new_errors(file.known, file.errors)):
                found[path] = fresh
            file.known = file.errors
        return found

    async def run(self) -> None:
        try:
            failures = 0
            while failures < STARTS:
                await self._wait_for_work()
                try:
                    await self._run_once()
                except Exception:  # it is over, and the next edit may try again
                    failures += 1
                    log.info("language_server.ended", extra={"server": self.name}, exc_info=True)
                self._forget_files()
        finally:
            self.is_over = True
            self._forget_files()
            while self._queue:
                self._queue.popleft().done.set()

    async def _wait_for_work(self) -> None:
        while not self._queue:
            self._work = anyio.Event()
            await self._work.wait()

    def _forget_files(self) -> None:
        self._files.clear()
        self._published.clear()

    async def _run_once(self) -> None:
        """Until there is nothing to do for a while. Raises whatever ends the server before that."""
        async with self._connected() as connection:
            while True:
                with anyio.move_on_after(self._idle_seconds):
                    await self._wait_for_work()
                if not self._queue:
                    return
                check = self._queue.popleft()
                try:
                    connection.expect_more()
                    for edit in check.edits:
                        await self._check(connection, edit)
                    await self._check_again(connection, check)
                finally:
                    check.done.set()

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[LanguageServerConnection]:
        """Raises `LanguageServerGone` when the server ends, and whatever a sandbox says that cannot start it."""
        process = await self._sandbox.spawn(self._launch)
        try:
            if not isinstance(process, BackgroundProcess):
                raise ToolFailed("this sandbox runs no processes in the background")
            connection = LanguageServerConnection(process, self._server.settings, self._note)
            failure: Exception | None = LanguageServerGone("it has ended")
            async with anyio.create_task_group() as tasks:

                async def read() -> None:
                    await connection.read()
                    tasks.cancel_scope.cancel()  # whoever waits for it waits in vain

                tasks.start_soon(read)
                try:
                    await self._initialize(connection)
                    yield connection
                    failure = None
                except Exception as error:
                    failure = error  # a task group would wrap it
                tasks.cancel_scope.cancel()
            if failure is not None:
                raise failure
        finally:
            with anyio.CancelScope(shield=True):
                await process.kill()

    async def _initialize(self, connection: LanguageServerConnection) -> None:
        root = Path(self._server.root).as_uri()
        answer = await connection.request(
            "initialize",
            {
                "processId": None,
                "clientInfo": {"name": "hames"},
                "rootUri": root,
                "rootPath": self._server.root,
                "workspaceFolders": [{"uri": root, "name": Path(root).name}],
                "initializationOptions": {"settings": dict(self._server.settings)},
                "capabilities": {
                    "general": {"positionEncodings": ["utf-16"]},
                    "workspace": {
                        "configuration": True,
                        "workspaceFolders": True,
                        "didChangeWatchedFiles": {"dynamicRegistration": True},
                    },
                    "textDocument": {
                        "synchronization": {"didSave": True},
                        "publishDiagnostics": {"versionSupport": True},
                        "diagnostic": {"dynamicRegistration": False, "relatedDocumentSupport": False},
                    },
                },
            },
            seconds=START_SECONDS,
        )
        abilities = answer.get("capabilities") if isinstance(answer, dict) else None
        self._pulls = isinstance(abilities, dict) and bool(abilities.get("diagnosticProvider"))
        await connection.notify("initialized", {})
        await connection.notify("workspace/didChangeConfiguration", {"settings": dict(self._server.settings)})

    async def _check(self, connection: LanguageServerConnection, edit: TextEdit) -> None:
        file = self._files.get(edit.path)
        if edit.after is None:
            if file is not None:
                await self._close(connection, edit.path)
            await self._tell_changed(connection, edit)
            return
        if file is None:
            file = await self._open(connection, edit.path, edit.after if edit.before is None else edit.before)
            file.known = [] if edit.before is None else await self._errors(connection, file)
        elif edit.before is not None and file.text != edit.before:  # others have changed it in the meantime
            await self._change(connection, file, edit.before)
            file.known = await self._errors(connection, file)
        if file.text != edit.after:
            await self._change(connection, file, edit.after)
        self._files.move_to_end(edit.path)
        file.errors = None
        await connection.notify("textDocument/didSave", {"textDocument": {"uri": file.uri}, "text": file.text})
        # In the order of an editor: a server told earlier would read the changed file and take its errors for old ones.
        await self._tell_changed(connection, edit)
        file.errors = await self._errors(connection, file)

    async def _tell_changed(self, connection: LanguageServerConnection, edit: TextEdit) -> None:
        kind = _DELETED if edit.after is None else _CREATED if edit.before is None else _CHANGED
        changed: Params = {"changes": [{"uri": Path(edit.path).as_uri(), "type": kind}]}
        await connection.notify("workspace/didChangeWatchedFiles", changed)

    async def _check_again(self, connection: LanguageServerConnection, check: FileCheck) -> None:
        edited = {edit.path for edit in check.edits}
        for path, file in list(self._files.items())[-CHECKED_AGAIN - len(edited) :]:
            if path in edited or file.errors is None:
                continue
            if self._pulls:
                file.errors = await self._errors(connection, file) or file.errors
            elif (found := self._published.get(path)) is not None:
                file.errors = read_errors(found[1], file.text)

    async def _open(self, connection: LanguageServerConnection, path: str, text: str) -> _OpenFile:
        while len(self._files) >= OPEN_FILES:
            await self._close(connection, next(iter(self._files)))
        file = self._files[path] = _OpenFile(path, text)
        about: Params = {"uri": file.uri, "languageId": language_id(path), "version": 1, "text": text}
        await connection.notify("textDocument/didOpen", {"textDocument": about})
        return file

    async def _change(self, connection: LanguageServerConnection, file: _OpenFile, text: str) -> None:
        file.text, file.version = text, file.version + 1
        if (published := self._published.pop(_path_of(file.uri), None)) is not None and published[0] is None:
            file.unversioned = published[1]
        about: Params = {"uri": file.uri, "version": file.version}
        await connection.notify("textDocument/didChange", {"textDocument": about, "contentChanges": [{"text": text}]})

    async def _close(self, connection: LanguageServerConnection, path: str) -> None:
        file = self._files.pop(path)
        self._published.pop(path, None)
        await connection.notify("textDocument/didClose", {"textDocument": {"uri": file.uri}})

    async def _errors(self, connection: LanguageServerConnection, file: _OpenFile) -> list[FileError] | None:
        """None: the server does not say, or not in time."""
        if self._pulls:
            try:
                about: Params = {"textDocument": {"uri": file.uri}}
                answer = await connection.request("textDocument/diagnostic", about, seconds=CHECK_SECONDS)
            except RequestRefused:  # busy, or the file has changed
                return None
            return read_errors(answer.get("items") if isinstance(answer, dict) else None, file.text)
        return await self._published_errors(file)

    async def _published_errors(self, file: _OpenFile) -> list[FileError] | None:
        path = _path_of(file.uri)
        with anyio.move_on_after(CHECK_SECONDS if file.unversioned is None else SILENT_SECONDS):
            while True:
                found, heard = self._published.get(path), self._heard
                if found is not None and found[0] in (file.version, None):
                    with anyio.move_on_after(UNVERSIONED_QUIET_SECONDS if found[0] is None else QUIET_SECONDS) as pause:
                        await heard.wait()
                    if pause.cancelled_caught:
                        return read_errors(found[1], file.text)
                else:
                    await heard.wait()
        return None if file.unversioned is None else read_errors(file.unversioned, file.text)

    def _note(self, method: str, params: Params) -> None:
        if method != "textDocument/publishDiagnostics" or not isinstance(uri := params.get("uri"), str):
            return
        if (path := _path_of(uri)) in self._files:
            version = params.get("version")
            self._published[path] = (version if isinstance(version, int) else None, params.get("diagnostics"))
            self._heard.set()
            self._heard = anyio.Event()


def _path_of(uri: str) -> str:
    return unquote(urlsplit(uri).path)
