"""Our own tools, the sandbox they run in, and the tools of others beside them."""

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from hames.config.load import Options
from hames.config.visibility import hidden_paths
from hames.deferred import deferred, is_built
from hames.plugins import Plugins
from hames.ports import AskSandboxHost, Clock, Launch, Place, Process, Report, Tool, Tools
from hames.ports.sandbox import ProcessGuard

if TYPE_CHECKING:
    from hames.sandbox.local import LocalSandbox, SandboxSettings
    from hames.tools.mcp.servers import McpServerSettings
    from hames.tools.registry import ToolLimits


class Toolbox:
    """Our own tools and their sandbox (`ports.Tools`, `ports.Sandbox`), imported when a thread first needs them."""

    def __init__(self, options: Options, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._loading = threading.Lock()
        self._opened: tuple[Tools, LocalSandbox] | None = None

    def load(self) -> Tools:
        with self._loading:
            if self._opened is None:
                self._opened = self._made()
            return self._opened[0]

    def _made(self) -> "tuple[Tools, LocalSandbox]":
        from hames.tools.registry import BuiltinTools

        options = self._options
        sandbox = deferred(self._made_sandbox)  # a turn without commands needs none
        outputs, search = str(options.state_dir / "outputs"), options.search_command
        own = BuiltinTools(
            sandbox,
            self._clock,
            limits=tool_limits(options),
            search_command=search,
            output_directory=outputs,
            language_servers=options.language_servers,
            search_path=os.pathsep.join((*options.extra_path, options.environment.get("PATH", ""))),
        )
        return offered_tools(options, own, deferred(lambda: sandbox.guardian)), sandbox

    def _made_sandbox(self) -> "LocalSandbox":
        from hames.sandbox.local import LocalSandbox

        return LocalSandbox(sandbox_settings(self._options), environ=self._options.environment)

    def _load_sandbox(self) -> "LocalSandbox":
        """In a thread: importing it takes a while."""
        self.load()
        assert self._opened is not None
        sandbox = self._opened[1]
        assert sandbox.guardian
        return sandbox

    def open(self, place: Place, report: Report) -> AbstractAsyncContextManager[Sequence[Tool]]:
        return self.load().open(place, report)

    async def spawn(self, launch: Launch, *, ask_host: AskSandboxHost | None = None) -> Process:
        sandbox = await anyio.to_thread.run_sync(self._load_sandbox)
        return await sandbox.spawn(launch, ask_host=ask_host)

    async def recover(self) -> None:
        """Looks at what commands left whose harness was killed before it could look."""
        sandbox = await anyio.to_thread.run_sync(self._load_sandbox)
        await sandbox.recover()

    def close(self) -> None:
        if self._opened is not None and is_built(self._opened[1]):
            self._opened[1].close()


def sandbox_settings(options: Options) -> "SandboxSettings":
    from hames.sandbox.local import SandboxSettings

    return SandboxSettings(
        extra_path=options.extra_path,
        user_path=True,
        extra_read=options.extra_read,
        extra_cache=options.extra_cache,
        allow_degraded=options.allow_degraded,
        hidden=hidden_paths(options),
        state=str(options.state_dir / "unchecked"),
    )


def tool_limits(options: Options) -> "ToolLimits":
    from hames.tools.registry import ToolLimits
    from hames.tools.shell import ShellLimits

    memory = None if options.max_memory_mb is None else options.max_memory_mb << 20
    return ToolLimits(
        shell=ShellLimits(processes=options.max_processes, memory_bytes=memory, file_bytes=options.max_file_mb << 20)
    )


def offered_tools(options: Options, own: Tools, guard: ProcessGuard) -> Tools:
    """Our own tools, those of installed packages, and those of the MCP servers of the user and of the thread."""
    from hames.tools.host import AddedTools
    from hames.tools.installed import installed_tools

    if installed := installed_tools(Plugins(str(options.cwd))):
        own = AddedTools(installed, own)
    from hames.tools.mcp.servers import McpTools

    return McpTools(own, mcp_servers(options), guard=guard)


def enabled_servers(options: Options) -> tuple[str, ...]:
    return tuple(name for name, server in options.mcp_servers.items() if server.enabled)


def mcp_servers(options: Options) -> "list[McpServerSettings]":
    """The configured MCP servers that are not disabled."""
    from hames.tools.mcp.settings import thread_server

    servers = (options.mcp_servers[name].named(name) for name in enabled_servers(options))
    return [replace(thread_server(server, options.environment), configured=True) for server in servers]
