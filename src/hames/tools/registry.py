"""The built-in tools: which there are, and how they are opened for a thread."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio

from hames.domain.language_servers import LanguageServerOptions
from hames.domain.value import Value
from hames.ports import Clock, Place, Report, Sandbox, Tool
from hames.tools.artifact import ArtifactTool
from hames.tools.ask_user import AskUserTool
from hames.tools.background import BackgroundLimits, BackgroundProcesses
from hames.tools.dialects.forms import with_forms
from hames.tools.edit import EditTool, MultiEditTool
from hames.tools.language_servers.edit_checks import CheckLimits, EditChecks
from hames.tools.listing import ListTool
from hames.tools.output_files import OutputFiles, OutputLimits
from hames.tools.patch import PatchTool
from hames.tools.plan import PlanTool
from hames.tools.process import ProcessTool
from hames.tools.read import ReadLimits, ReadTool
from hames.tools.ripgrep import Ripgrep, SearchLimits
from hames.tools.search import GlobTool, GrepTool
from hames.tools.shell import ShellLimits, ShellTool
from hames.tools.web_fetch import WebFetchLimits, WebFetchTool
from hames.tools.websearch import WebSearchLimits, WebSearchTool
from hames.tools.works import Seen
from hames.tools.write import WriteTool


class ToolLimits(Value):
    shell: ShellLimits = ShellLimits()
    read: ReadLimits = ReadLimits()
    search: SearchLimits = SearchLimits()
    web: WebSearchLimits = WebSearchLimits()
    background: BackgroundLimits = BackgroundLimits()
    output: OutputLimits = OutputLimits()
    fetch: WebFetchLimits = WebFetchLimits()
    checks: CheckLimits = CheckLimits()


STANDARD = ToolLimits()
NO_SERVERS = LanguageServerOptions(mode="off")


class BuiltinTools:
    """Implements `ports.Tools`. What the model has seen of files is remembered for as long as a thread is open.

    `ripgrep` names the program; None looks for it, and an empty name is a machine without one.
    `search_command` is the user's own way to search the web; empty: there is none. `output_directory` is where long
    output is kept; empty: among the temporary files. `search_path` is where the user's language servers are found.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        clock: Clock,
        *,
        limits: ToolLimits = STANDARD,
        ripgrep: str | None = None,
        search_command: Sequence[str] = (),
        output_directory: str = "",
        language_servers: LanguageServerOptions = NO_SERVERS,
        search_path: str = "",
    ) -> None:
        self._sandbox = sandbox
        self._clock = clock
        self._limits = limits
        self._ripgrep = ripgrep
        self._search_command = search_command
        self._output_directory = output_directory
        self._language_servers = language_servers
        self._search_path = search_path

    @asynccontextmanager
    async def open(self, place: Place, report: Report) -> AsyncGenerator[Sequence[Tool], None]:  # noqa: ARG002
        files = OutputFiles(self._output_directory, self._limits.output)
        tasks = await anyio.create_task_group().__aenter__()
        try:
            checks = EditChecks(tasks, self._sandbox, self._language_servers, self._limits.checks, self._search_path)
            yield self._tools(BackgroundProcesses(tasks, self._clock, self._limits.background, files), files, checks)
        finally:
            tasks.cancel_scope.cancel()  # ends the processes
            try:
                # Without the error: the group would wrap it, and whoever left with it wants it as it was.
                await tasks.__aexit__(None, None, None)
            finally:
                files.close()

    def _tools(self, processes: BackgroundProcesses, files: OutputFiles, checks: EditChecks) -> Sequence[Tool]:
        seen = Seen()
        ripgrep = Ripgrep(self._sandbox, self._limits.search, self._ripgrep)
        web = [WebSearchTool(self._sandbox, self._search_command, self._limits.web)] if self._search_command else []
        tools: list[Tool] = [
            ShellTool(self._sandbox, self._clock, self._limits.shell, processes, files),
            ProcessTool(processes),
            ReadTool(seen, self._limits.read, files),
            WriteTool(seen, checks),
            EditTool(seen, checks),
            MultiEditTool(seen, checks),
            PatchTool(seen, checks),
            GrepTool(ripgrep),
            GlobTool(ripgrep),
            ListTool(),
            PlanTool(),
            ArtifactTool(),
            WebFetchTool(self._sandbox, self._limits.fetch),
            AskUserTool(),
            *web,
        ]
        return with_forms(tools)
