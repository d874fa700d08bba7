"""The door: the one place that knows every room. Configuration in, an engine out."""

import contextlib
import threading
import zlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from hames.agents.codex_command import NAME as CODEX
from hames.agents.codex_command import codex_command
from hames.clock_and_ids import RandomIds, SystemClock
from hames.config.credentials import Credentials
from hames.config.options import Options
from hames.config.paths import DATA, user_config
from hames.core.engine import Engine
from hames.core.rules import Rules
from hames.domain.errors import HarnessError
from hames.domain.guardrails import SOCKET
from hames.domain.options import Settings
from hames.ports import Agent, Clock, Models, Place, Report, Store, Tool, Tools
from hames.private_files import private_directory
from hames.providers.catalogue import Catalogue
from hames.providers.chat.servers import ChatServer
from hames.providers.chat.source import ChatSource
from hames.providers.source import ModelSource
from hames.sandbox.processes.hide_environment import conceal
from hames.sandbox.trust.shell_trust import ShellTrust
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.tools.notes import WorkspaceNotes

if TYPE_CHECKING:
    from hames.sandbox.local import LocalSandbox, SandboxSettings
    from hames.tools.mcp.servers import McpServerSettings
    from hames.tools.registry import ToolLimits

CLOSING_SECONDS = 1.0
WARM_UP_SECONDS = 0.05


@asynccontextmanager
async def open_engine(
    options: Options,
    *,
    models: Models | None = None,
    store: Store | None = None,
    tools: Tools | None = None,
    agents: Mapping[str, Agent] | None = None,
) -> AsyncGenerator[Engine]:
    """An engine for one workspace. Raises `Misconfigured`.

    Any room can be replaced; what is not given is the real thing.
    """
    conceal()  # what holds keys can be read by nobody it starts
    clock = SystemClock()
    known = catalogue(options)
    toolbox = Toolbox(options, clock)
    kept = store or JsonlStore(options.data_dir, places=Places(options.state_dir))
    engine = Engine(
        store=kept,
        models=models or known,
        tools=tools or toolbox,
        trust=ShellTrust(),
        clock=clock,
        ids=RandomIds(),
        rules=Rules(
            defaults=default_settings(options, models or known),
            max_steps=options.max_steps,
            mcp_servers=tuple(name for name, server in options.mcp_servers.items() if server.enabled)
            if tools is None
            else (),
            warnings=options.warnings,
        ),
        agents={**own_agents(options, kept), **(agents or {})},
        notes=WorkspaceNotes(options.notes_dir),
    )
    try:
        async with engine:
            engine.beside(lambda: _warm(known, engine.rules.defaults.model, toolbox))
            yield engine
    finally:
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await known.aclose()
        toolbox.close()


def sandbox_settings(options: Options) -> "SandboxSettings":
    from hames.sandbox.local import SandboxSettings

    return SandboxSettings(
        extra_path=options.extra_path,
        extra_read=options.extra_read,
        extra_cache=options.extra_cache,
        allow_degraded=options.allow_degraded,
        hidden=hidden_paths(options),
        state=str(options.state_dir / "unchecked"),
    )


def hidden_paths(options: Options) -> tuple[str, ...]:
    """What is ours and no command may see, wherever it has been moved to: keys, tokens, logs, other threads.

    Threads in the workspace's own `.harness` can be read, as ever, and not changed.
    """
    config = Path(user_config(options.environment))
    # A directory of our own holds nothing else; one that was named may.
    ours = (
        [config, Credentials.of_user(options.environment).file]
        if "HAMES_CONFIG" in options.environment
        else [config.parent]
    )
    data = [options.data_dir / SOCKET] if options.data_dir == options.cwd / DATA else [options.data_dir]
    log = [Path(options.log_file).absolute()] if options.log_file else []
    if options.state_dir.is_relative_to(options.cwd):
        # A directory that does not exist could be made by a command, and would be believed.
        private_directory(options.state_dir)
    return tuple(str(path.absolute()) for path in (*ours, options.state_dir, *data, *log))


def tool_limits(options: Options) -> "ToolLimits":
    from hames.tools.registry import ToolLimits
    from hames.tools.shell import ShellLimits

    memory = None if options.max_memory_mb is None else options.max_memory_mb << 20
    return ToolLimits(
        shell=ShellLimits(processes=options.max_processes, memory_bytes=memory, file_bytes=options.max_file_mb << 20)
    )


def own_agents(options: Options, store: Store) -> dict[str, Agent]:
    """Agents with a loop of their own that this machine has. What they remember belongs to the threads of the store."""
    command = codex_command(options.environment, str(options.cwd))
    if not command:
        return {}
    from hames.agents.codex import CodexAgent

    models = _codex_models(options)

    def memory() -> Path | None:
        return store.private_directory(CODEX) if isinstance(store, JsonlStore) else None

    return {CODEX: CodexAgent(command, memory=memory, models=models, environment=options.environment)}


class Toolbox:
    """Our own tools and the sandbox they run in. Implements `ports.Tools`.

    Imported when a thread first needs them: a server answers before it has any.
    """

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
        from hames.sandbox.local import LocalSandbox
        from hames.tools.registry import BuiltinTools

        options = self._options
        sandbox = LocalSandbox(sandbox_settings(options), environ=options.environment)
        limits = tool_limits(options)
        own = BuiltinTools(sandbox, self._clock, limits=limits, search_command=options.search_command)
        return offered_tools(options, own), sandbox

    def open(self, place: Place, report: Report) -> AbstractAsyncContextManager[Sequence[Tool]]:
        return self.load().open(place, report)

    async def recover(self) -> None:
        """Looks at what commands left whose harness was killed before it could look."""
        await anyio.to_thread.run_sync(self.load)
        if self._opened is not None:
            await self._opened[1].recover()

    def close(self) -> None:
        if self._opened is not None:
            self._opened[1].close()


async def _warm(known: Catalogue, model: str, toolbox: Toolbox) -> None:
    """Have ready what the first turn needs. Not at once: a client that starts a server sends its first request now."""
    await anyio.sleep(WARM_UP_SECONDS)
    await toolbox.recover()
    with contextlib.suppress(HarnessError):
        await known.warm(known.find(model))


def offered_tools(options: Options, own: Tools) -> Tools:
    """Our own tools, and those of the MCP servers that are configured."""
    if not _enabled_servers(options):
        return own
    from hames.tools.mcp.servers import McpTools

    return McpTools(own, mcp_servers(options))


def _enabled_servers(options: Options) -> tuple[str, ...]:
    return tuple(name for name, server in options.mcp_servers.items() if server.enabled)


def mcp_servers(options: Options) -> "list[McpServerSettings]":
    """The configured MCP servers that are not disabled."""
    from hames.tools.mcp.servers import McpServerSettings

    return [
        McpServerSettings(
            name=name,
            command=server.command,
            args=server.args,
            env=server.env,
            url=server.url,
            headers=server.headers,
            start_seconds=server.startup_timeout_sec,
        )
        for name, server in options.mcp_servers.items()
        if server.enabled
    ]


def catalogue(options: Options) -> Catalogue:
    clock, command = SystemClock(), codex_command(options.environment, str(options.cwd))
    sources: list[ModelSource] = []
    if command:
        from hames.agents.codex_models import CodexShelf

        sources = [CodexShelf(command, models=_codex_models(options), environment=options.environment)]
    sources += [
        ChatSource(ChatServer(name=name, title=f"the server {name!r}"), options.environment, clock)
        for name in options.own_providers
    ]
    return Catalogue(options.environment, clock=clock, sources=sources, cache=options.state_dir / "models")


def _codex_models(options: Options) -> Path:
    """Where Codex's own list of models is kept: another configuration of Codex's may have another list."""
    home = options.environment.get("CODEX_HOME") or options.environment.get("HOME", "")
    return options.state_dir / "models" / f"codex-{zlib.crc32(home.encode()):08x}.json"


def default_settings(options: Options, models: Models) -> Settings:
    """What a thread runs with unless its client says otherwise. Raises `UnknownModel`."""
    return Settings(
        model=models.find(options.model or models.default).id,
        cwd=str(options.cwd),
        approval_policy=options.approval_policy,
        sandbox=options.sandbox,
        instructions=options.instructions,
    )
