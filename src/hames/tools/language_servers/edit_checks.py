"""After an edit: asks the language server that is installed for the file, and says which errors are new.

A language server runs the project's code: its plugins, its interpreter, its build scripts. So it gets the sandbox of a
command that may only read, and starts by itself only where a command would start without a question.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from hames.domain.language_servers import LanguageServerOptions
from hames.domain.policy import ExternalSandbox, ReadOnly, SandboxPolicy
from hames.domain.value import Value
from hames.ports import FileEdit, Place, Sandbox
from hames.tools.files.places import relative
from hames.tools.files.texts import decoded
from hames.tools.language_servers.installed import InstalledServer, extension, find_server
from hames.tools.works import off_the_loop

if TYPE_CHECKING:
    from hames.tools.language_servers.server import LanguageServer, TextEdit

MAX_CHARS = 500_000


class CheckLimits(Value):
    seconds: float = 2.0
    """How long an edit waits for the answer."""
    slow_seconds: float = 0.2
    """How long, when the last answers came too late."""
    servers: int = 4
    """In one thread."""
    told_errors: int = 10
    idle_seconds: float = 900.0
    """After so long without an edit a server is ended. The next edit starts it again."""


class EditChecks:
    """Of one thread. Nothing is started, and nothing imported, before a file is edited that a server is there for."""

    def __init__(
        self,
        tasks: TaskGroup,
        sandbox: Sandbox,
        options: LanguageServerOptions,
        limits: CheckLimits,
        search_path: str,
    ) -> None:
        self._tasks = tasks
        self._sandbox = sandbox
        self._options = options
        self._limits = limits
        self._search_path = search_path
        self._found: dict[tuple[str, str], InstalledServer | None] = {}
        self._servers: dict[tuple[str, str, tuple[str, ...]], LanguageServer] = {}
        self._late = 0

    async def after(self, place: Place, changes: Sequence[tuple[str, FileEdit]]) -> str:
        """What is to be told about these changes, each with its path; empty: nothing. It raises nothing."""
        if self._options.mode == "off":
            return ""
        edits: dict[LanguageServer, list[TextEdit]] = {}
        for path, change in changes:
            if (server := await self._server(place, path)) is not None and (edit := _text_edit(path, change)):
                edits.setdefault(server, []).append(edit)
        if not edits:
            return ""
        checks = [server.submit(some) for server, some in edits.items()]
        with anyio.move_on_after(self._limits.slow_seconds if self._late > 1 else self._limits.seconds) as wait:
            for check in checks:
                await check.done.wait()
        self._late = self._late + 1 if wait.cancelled_caught else 0
        return "\n".join(filter(None, (self._words(place, server) for server in edits)))

    async def _server(self, place: Place, path: str) -> "LanguageServer | None":
        kind = (extension(path), path.rpartition("/")[0])
        if kind not in self._found:
            self._found[kind] = await off_the_loop(
                lambda: find_server(path, place.workspace, self._options, self._search_path)
            )
        found = self._found[kind]
        if found is None or not (place.runs_unasked or self._is_allowed(place, found)):
            return None
        hidden = tuple(rule.read for rule in place.denied if rule.read)
        key = (found.name, found.root, hidden)
        if key not in self._servers:
            if len(self._servers) >= self._limits.servers:
                return None
            from hames.tools.language_servers.server import LanguageServer

            server = LanguageServer(
                found,
                self._sandbox,
                _policy(place.sandbox),
                workspace=place.workspace,
                idle_seconds=self._limits.idle_seconds,
                hidden=hidden,
            )
            self._servers[key] = server
            self._tasks.start_soon(server.run)
        return self._servers[key]

    def _is_allowed(self, place: Place, found: InstalledServer) -> bool:
        """Whether the user has said, somewhere, that it may start."""
        options = self._options
        return found.named or options.mode == "on" or (options.trusted != "" and options.trusted == place.workspace)

    def _words(self, place: Place, server: "LanguageServer") -> str:
        rows = [
            f"{relative(place, path)}:{error.line}: {error.message}"
            for path, errors in server.take_new_errors().items()
            for error in errors
        ]
        if not rows:
            return ""
        more = [f"… and {len(rows) - self._limits.told_errors} more"] if len(rows) > self._limits.told_errors else []
        count = f"{len(rows)} new error{'' if len(rows) == 1 else 's'}"
        return "\n".join([f"[{server.name} finds {count}:", *rows[: self._limits.told_errors], *more]) + "]"


def _policy(policy: SandboxPolicy) -> SandboxPolicy:
    """It may read what commands read. Where there is no sandbox at all, it does not run."""
    return policy if isinstance(policy, ExternalSandbox) else ReadOnly()


def _text_edit(path: str, change: FileEdit) -> "TextEdit | None":
    from hames.tools.language_servers.server import TextEdit

    texts: list[str | None] = []
    for content in (change.before, change.after):
        text = None if content is None else decoded(content)
        if content is not None and (text is None or len(text.body) > MAX_CHARS):
            return None
        texts.append(None if text is None else text.body)
    return TextEdit(path=path, before=texts[0], after=texts[1])
