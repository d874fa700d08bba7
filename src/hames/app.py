"""The door: the one place that knows every room. Configuration in, an engine out."""

import contextlib
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from hames.agents.codex import NAME as CODEX
from hames.agents.codex import CodexAgent, codex_command
from hames.agents.codex_models import CodexShelf
from hames.config.options import Options
from hames.core.engine import Engine
from hames.core.rules import Rules
from hames.domain.errors import HarnessError
from hames.domain.options import Settings
from hames.ports import Agent, Models, Store, Tools
from hames.providers.catalogue import Catalogue
from hames.sandbox.choose import LocalSandbox
from hames.sandbox.choose import Settings as SandboxSettings
from hames.sandbox.conceal import conceal
from hames.sandbox.trust import ShellTrust
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.system import RandomIds, SystemClock
from hames.tools.mcp import McpTools, Server
from hames.tools.notes import WorkspaceNotes
from hames.tools.registry import BuiltinTools

CLOSING_SECONDS = 1.0


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
    walls = SandboxSettings(extra_path=options.extra_path, allow_degraded=options.allow_degraded)
    sandbox = LocalSandbox(walls, environ=options.environment)
    engine = Engine(
        store=store or JsonlStore(options.data_dir, places=Places(options.state_dir)),
        models=models or known,
        tools=tools or offered_tools(options, BuiltinTools(sandbox, clock, search_command=options.search_command)),
        trust=ShellTrust(),
        clock=clock,
        ids=RandomIds(),
        rules=Rules(
            defaults=default_settings(options, models or known),
            max_steps=options.max_steps,
            mcp_servers=tuple(server.name for server in mcp_servers(options)) if tools is None else (),
            warnings=options.warnings,
        ),
        agents={**own_agents(options), **(agents or {})},
        notes=WorkspaceNotes(options.notes_dir),
    )
    try:
        async with engine:
            engine.beside(lambda: _warm(known, engine.rules.defaults.model))
            yield engine
    finally:
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await known.aclose()
        sandbox.close()


def own_agents(options: Options) -> dict[str, Agent]:
    """Agents with a loop of their own that this machine has."""
    command = codex_command(options.environment)
    if not command:
        return {}
    memory, models = options.data_dir / "codex", _codex_models(options)
    return {CODEX: CodexAgent([command], memory=memory, models=models, environment=options.environment)}


async def _warm(known: Catalogue, model: str) -> None:
    """Have the first request's connection pool ready while nobody waits for it yet."""
    with contextlib.suppress(HarnessError):
        await known.warm(known.find(model))


def offered_tools(options: Options, own: Tools) -> Tools:
    """Our own tools, and those of the MCP servers that are configured."""
    servers = mcp_servers(options)
    return McpTools(own, servers) if servers else own


def mcp_servers(options: Options) -> list[Server]:
    """The configured MCP servers that are not disabled."""
    return [
        Server(
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
    clock, command = SystemClock(), codex_command(options.environment)
    found = CodexShelf([command], models=_codex_models(options), environment=options.environment) if command else None
    shelves = [found] if found is not None else []
    return Catalogue(options.environment, clock=clock, shelves=shelves, cache=options.state_dir / "models")


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
