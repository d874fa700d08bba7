"""The tools that come with the house."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from hames.domain.value import Value
from hames.ports import Clock, Place, Report, Sandbox, Tool
from hames.tools.artifact import ArtifactTool
from hames.tools.ask_user import AskUserTool
from hames.tools.dialects.forms import with_forms
from hames.tools.edit import EditTool, MultiEditTool
from hames.tools.listing import ListTool
from hames.tools.patch import PatchTool
from hames.tools.plan import PlanTool
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
    fetch: WebFetchLimits = WebFetchLimits()


STANDARD = ToolLimits()


class BuiltinTools:
    """Implements `ports.Tools`. What the model has seen of files is remembered for as long as a thread is open.

    `ripgrep` names the program; None looks for it, and an empty name is a machine without one.
    `search_command` is the user's own way to search the web; empty: there is none.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        clock: Clock,
        *,
        limits: ToolLimits = STANDARD,
        ripgrep: str | None = None,
        search_command: Sequence[str] = (),
    ) -> None:
        self._sandbox = sandbox
        self._clock = clock
        self._limits = limits
        self._ripgrep = ripgrep
        self._search_command = search_command

    @asynccontextmanager
    async def open(self, place: Place, report: Report) -> AsyncGenerator[Sequence[Tool], None]:  # noqa: ARG002
        seen = Seen()
        ripgrep = Ripgrep(self._sandbox, self._limits.search, self._ripgrep)
        web = [WebSearchTool(self._sandbox, self._search_command, self._limits.web)] if self._search_command else []
        tools: list[Tool] = [
            ShellTool(self._sandbox, self._clock, self._limits.shell),
            ReadTool(seen, self._limits.read),
            WriteTool(seen),
            EditTool(seen),
            MultiEditTool(seen),
            PatchTool(seen),
            GrepTool(ripgrep),
            GlobTool(ripgrep),
            ListTool(),
            PlanTool(),
            ArtifactTool(),
            WebFetchTool(self._sandbox, self._limits.fetch),
            AskUserTool(),
            *web,
        ]
        yield with_forms(tools)
