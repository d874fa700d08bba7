"""The one place that knows every room: configuration in, an engine or a server out."""

import contextlib
import os
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from hames import __version__
from hames.agents.acp.known import find_known
from hames.agents.codex.command import NAME as CODEX
from hames.agents.codex.command import codex_command
from hames.app import parts, sandboxes
from hames.app.acp_agents import acp_models, acp_programs, missing_agent, open_acp_agents
from hames.app.toolbox import Toolbox, enabled_servers
from hames.clock_and_ids import RandomIds, SystemClock
from hames.config.load import Options
from hames.config.network import says_network
from hames.config.paths import user_state
from hames.config.visibility import readable_directories
from hames.core.engine import Engine
from hames.core.engine_rules import EngineRules
from hames.deferred import is_built
from hames.domain.errors import HarnessError, Misconfigured
from hames.domain.ids import ItemId
from hames.domain.items import UserInput
from hames.domain.models import ModelCard
from hames.domain.modes import default_policy
from hames.domain.options import Settings
from hames.domain.policy import ApprovalPolicy
from hames.plugins import Plugins
from hames.ports import (
    Agent,
    Clock,
    DaySpending,
    HostTool,
    Models,
    Nodes,
    Peers,
    Provider,
    Store,
    Tool,
    Tools,
    Workspace,
)
from hames.providers.catalogue import Catalogue
from hames.providers.installed import InstalledCatalogue
from hames.providers.source import ModelSource
from hames.sandbox.processes.hide_environment import conceal
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.project_notes import WorkspaceNotes

if TYPE_CHECKING:
    from hames.ports.server_state import ServerState
    from hames.protocols.session import Session
    from hames.protocols.sync.pages import GitChanges
    from hames.server.app import Server
    from hames.server.listener import Address
    from hames.store.postgres.store import PostgresStore
    from hames.store.postgres.upkeep import DatabaseReport

DEMO_MODEL = "scripted/hello"
PAGE = Path(__file__).resolve().parent.parent / "web" / "static"
CLOSING_SECONDS, LAST_SPANS_SECONDS = 1.0, 2.0
TIDY_SECONDS = 5.0
"""Second names of logs are looked after when nobody waits for the first answer any more."""
STALL_SECONDS = 120.0  # after so much silence the run of a sandbox runner is given up
WARM_UP_SECONDS = 0.05


@asynccontextmanager
async def open_engine(
    options: Options,
    *,
    models: Models | None = None,
    store: Store | None = None,
    tools: Tools | None = None,
    added_tools: Sequence[Tool] = (),
    builtin_tools: bool = True,
    agents: dict[str, Agent] | None = None,
    only_agent: str = "",
    rules: EngineRules | None = None,
    clock: Clock | None = None,
    continues: bool = True,
    leaves_turns: bool = False,
    shares: bool = True,
    works: bool = True,
    nodes: Nodes | None = None,
    peers: Peers | None = None,
    workspace: Workspace | None = None,
    place: str = "",
    day_spending: DaySpending | None = None,
) -> AsyncGenerator[Engine]:
    """An engine for one workspace. Raises `Misconfigured`.

    Any part can be replaced; what is not given is the real thing. `added_tools` are offered beside our own.
    `only_agent` is the one of `agents` that runs every turn. `continues` and `leaves_turns`: see `EngineRules`.
    `shares`: other processes on the same data directory send their commands for its threads here, and it sends its own.
    `nodes`, `peers`, `works`, `place` and `day_spending`: for a node of a shared store (`app/nodes.py`).
    """
    clock = clock or SystemClock()
    known = models if isinstance(models, Catalogue) else catalogue(options) if models is None else None
    toolbox = Toolbox(options, clock) if tools is None and builtin_tools else None
    if known is not None or toolbox is not None or agents:
        conceal()  # what holds keys can be read by nobody it starts
    kept = store or thread_store(options)
    models = models or known
    assert models is not None
    running = known.agents if isinstance(known, InstalledCatalogue) else {}
    if known is not None:
        running |= own_agents(options, kept)
    running |= agents or {}
    kept_files = parts.checkpoints(options) if toolbox is not None and not agents else None
    engine = Engine(
        store=kept,
        models=models,
        workspace=workspace or LocalWorkspace(),
        tools=parts.added_tools(added_tools, tools or toolbox),
        trust=parts.trust(),
        clock=clock,
        ids=RandomIds(),
        rules=rules
        or EngineRules(
            defaults=replace(default_settings(options, models), place=place),
            max_steps=options.max_steps,
            compact_at=options.compact_at,
            readable=readable_directories(options),
            mcp_servers=enabled_servers(options) if toolbox is not None else (),
            only_agent=only_agent,
            warnings=options.warnings,
            approval_deadline_s=options.approval_deadline,
            approval_default=options.approval_default,
            after_crash=options.after_crash,
            continues=continues,
            leaves_turns=leaves_turns,
            works=works,
            budgets=options.budgets,
            asks_about_hosts="sandbox" in options.settings and not says_network(options.settings["sandbox"].value),
            day_spending=day_spending or parts.day_spending(options),
        ),
        agents=running,
        notes=WorkspaceNotes(options.notes_dir),
        environment=parts.environment(options, toolbox, clock) if toolbox is not None else None,
        peers=peers or (parts.peers(kept.private_directory) if shares and isinstance(kept, JsonlStore) else None),
        nodes=nodes,
        checkpoints=kept_files,
        rulebook=parts.rule_book(options),
        worktrees=parts.worktrees(options, toolbox) if toolbox is not None and not agents else None,
        sandbox=None if agents else toolbox,  # where a runner does the work, nothing runs on this machine
    )
    try:
        async with engine:
            if toolbox is not None:
                engine.beside(lambda: _warm(known, engine.rules.defaults.model, toolbox))
            if isinstance(kept, JsonlStore):
                engine.beside(lambda: _tidy(kept))
            yield engine
    finally:
        if known is not None:
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await known.aclose()
        if kept_files is not None and is_built(kept_files):
            kept_files.close()
        if toolbox is not None:
            toolbox.close()


async def _tidy(store: JsonlStore) -> None:
    await anyio.sleep(TIDY_SECONDS)
    with contextlib.suppress(HarnessError, OSError):
        await store.tidy_second_names()


def thread_store(options: Options) -> JsonlStore:
    return JsonlStore(options.data_dir, places=Places(options.state_dir), copy_days=options.thread_copy_days)


def data_store(directory: Path) -> JsonlStore:
    """The threads of a data directory."""
    return JsonlStore(directory, places=Places(Path(user_state(os.environ))))


def database_store(address: str, *, name: str = "") -> "PostgresStore":
    """Threads in PostgreSQL. Nothing is connected yet. Raises `Misconfigured`."""
    from hames.store.postgres.store import PostgresStore

    return PostgresStore(address, name=name)


async def database_report(address: str) -> "DatabaseReport":
    """What an operator should know of a database. Raises `Misconfigured`, `StorageFailed`."""
    from hames.store.postgres.upkeep import report

    return await report(address)


def memory_store() -> Store:
    from hames.store.memory import MemoryStore

    return MemoryStore()


@asynccontextmanager
async def serve_engine(
    engine: Engine,
    options: Options,
    address: "Address",
    *,
    token: str | None = None,
    git_changes: "Callable[[str], Awaitable[GitChanges]] | None" = None,
    api_policy: ApprovalPolicy | None = None,
    shared: "ServerState | None" = None,
) -> "AsyncGenerator[Server]":
    """Every networked protocol on one port, for as long as the block lasts. Raises `Misconfigured`.

    `shared`: what the servers of a shared store have in common beside threads.
    """
    from hames.protocols.acp.session import AcpSession
    from hames.protocols.bootstrap.session import BootstrapSession
    from hames.protocols.flint.session import FlintSession
    from hames.server.app import Extras, serving

    home, chosen = str(options.data_dir), has_chosen_policy(options)
    extras = Extras(
        data_dir=options.data_dir,
        uploads_dir=options.state_dir / "uploads",
        tokens_dir=options.state_dir,
        shared=shared,
        version=__version__,
        sessions={
            "acp": lambda: AcpSession(engine.models, engine.rules.defaults),
            "bootstrap": BootstrapSession,
            "mcp": partial(_mcp_session, engine),
            "flint": lambda: FlintSession(engine.models, engine.rules.defaults, home=home, policy_chosen=chosen),
        },
        page=PAGE,
        api_policy=api_policy,
        demo_model="" if engine.rules.only_agent else DEMO_MODEL,
        page_policy=None if engine.rules.only_agent else own_default_policy(options),
        sandbox=lambda: sandboxes.sandbox_report(options, runs_here=not engine.rules.only_agent),
        notice=lambda: _missing_notice(options),
    )
    if git_changes is not None:
        extras = replace(extras, git_changes=git_changes)
    async with serving(engine, address, extras, token=token) as server:
        yield server


def _mcp_session(engine: Engine) -> "Session":
    from hames.protocols.mcp.session import McpServerSession

    return McpServerSession(engine.rules.defaults)


async def _missing_notice(options: Options) -> str:
    from hames.app.missing_threads import missing_notice

    return await missing_notice(options)


@asynccontextmanager
async def traced(engine: Engine, options: Options) -> AsyncGenerator[None]:
    """Sends traces of the turns where the environment says so."""
    from hames.observe import traces

    sender = traces.set_up(options.environment, version=__version__)
    if sender is None:
        yield
        return
    engine.observers.append(sender.observe)
    try:
        yield
    finally:
        engine.observers.remove(sender.observe)
        with anyio.move_on_after(LAST_SPANS_SECONDS, shield=True):
            await anyio.to_thread.run_sync(sender.close, abandon_on_cancel=True)


async def check_attachments(content: tuple[UserInput, ...], cwd: str) -> None:
    """Raises `InvalidCommand` for a file that a prompt points at and that cannot be read."""
    from hames.core.attachments import user_message

    await user_message(content, LocalWorkspace(), item_id=ItemId(""), step=0, cwd=cwd, client_id=None, meta=None)


def check_agent_name(name: str, environment: Mapping[str, str], configured: Collection[str] = ()) -> None:
    """Raises `Misconfigured` for an agent that is not on this machine. `configured` are those of `[agents.NAME]`."""
    if name in configured:
        return
    if name == CODEX and not codex_command(environment):
        raise Misconfigured("codex is not installed: npm install -g @openai/codex, or set HAMES_CODEX to its path")
    found = [agent.name for agent, _ in find_known(environment)]
    if name != CODEX and name not in found and name not in (installed := Plugins().names("agents")):
        there = ", ".join((CODEX, *found, *installed, *configured))
        raise Misconfigured(missing_agent(name) or f"no agent {name!r}; there is: {there}. hames agents lists them")


def own_agents(options: Options, store: Store) -> dict[str, Agent]:
    """Agents with a loop of their own that this machine has. What they remember belongs to the threads of the store."""
    command = codex_command(options.environment, str(options.cwd))
    if not command and not acp_programs(options):
        return {}
    from hames.agents.codex.agent import CodexAgent
    from hames.sandbox.processes.guardian import Guardian

    models, guard = _codex_models(options), Guardian()

    def memory(name: str) -> Path | None:
        return store.private_directory(name) if isinstance(store, JsonlStore) else None

    environment = options.environment
    found: dict[str, Agent] = {**open_acp_agents(options, memory=memory, guard=guard)}
    if command:
        memory_of_codex = partial(memory, CODEX)
        found[CODEX] = CodexAgent(
            command, memory=memory_of_codex, model_list=models, environment=environment, guard=guard
        )
    return found


async def _warm(known: Catalogue | None, model: str, toolbox: Toolbox) -> None:
    """Have ready what the first turn needs. Not at once: a client that starts a server sends its first request now."""
    await anyio.sleep(WARM_UP_SECONDS)
    await toolbox.recover()
    if known is not None:
        with contextlib.suppress(HarnessError):
            await known.warm(known.find(model))


def check_plugins(options: Options) -> tuple[list[str], list[str]]:
    """What installed packages add, as `kind NAME`, and a sentence for each that cannot be used."""
    from hames.tools.installed import installed_tools

    plugins = Plugins(str(options.cwd))
    installed_tools(plugins)
    InstalledCatalogue(options.environment, plugins, clock=SystemClock()).cards()
    list(plugins.load("protocols"))
    return plugins.working(), plugins.problems


def installed_session(options: Options, models: Models, name: str) -> "Session":
    """The protocol of an installed package. Raises `Misconfigured`."""
    plugins = Plugins(str(options.cwd))
    make = plugins.find("protocols", name)
    try:
        return make(models, default_settings(options, models))
    except HarnessError:
        raise
    except Exception as problem:  # somebody else's code
        raise Misconfigured(plugins.refuse("protocols", name, problem)) from problem


def catalogue(options: Options) -> Catalogue:
    clock, command = SystemClock(), codex_command(options.environment, str(options.cwd))
    sources: list[ModelSource] = []
    if command:
        from hames.agents.codex.models import CodexModels

        sources = [CodexModels(command, models=_codex_models(options), environment=options.environment)]
    if options.own_providers:
        from hames.providers.chat.servers import ChatServer
        from hames.providers.chat.source import ChatSource

        sources += [
            ChatSource(ChatServer(name=name, title=f"the server {name!r}"), options.environment, clock)
            for name in options.own_providers
        ]
    sources += acp_models(options)
    cache, plugins = options.state_dir / "models", Plugins(str(options.cwd))
    return InstalledCatalogue(options.environment, plugins, clock=clock, sources=sources, cache=cache)


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
        agent=options.agent,
        sandbox=options.sandbox,
        instructions=options.instructions,
    )


def has_chosen_policy(options: Options) -> bool:
    """Whether somebody set the approval policy, or it is the one that everybody has."""
    setting = options.settings.get("approval_policy")
    return setting is None or setting.origin != "default"


def own_default_policy(options: Options) -> ApprovalPolicy:
    """Of threads that our own page starts, as the terminal starts its own: `auto` where the sandbox was proved."""
    if has_chosen_policy(options):
        return options.approval_policy
    from hames.config.sandbox_proof import is_sandbox_proved

    return default_policy(options.sandbox, proved=is_sandbox_proved(options.state_dir))


def one_model(provider: Provider, model: str) -> Models:
    from hames.providers.single_model import SingleModel

    return SingleModel(provider, ModelCard(provider=provider.name, model=model, display_name=model))


def anthropic(api_key: str, base_url: str) -> Provider:
    from hames.providers.anthropic.provider import AnthropicProvider

    return AnthropicProvider(clock=SystemClock(), api_key=api_key, base_url=base_url)


def host_tools(tools: Sequence[HostTool]) -> list[Tool]:
    """The tools of the program that runs us."""
    from hames.tools.host import as_tool

    return [as_tool(tool, vouched=True) for tool in tools]
