"""The door: the one place that knows every room. Configuration in, an engine out."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from hames.config.options import Options
from hames.core.engine import Engine, Rules
from hames.domain.options import Settings
from hames.ports import Models, Store, Tools
from hames.providers.catalogue import Catalogue
from hames.sandbox.choose import LocalSandbox
from hames.sandbox.choose import Settings as SandboxSettings
from hames.sandbox.trust import ShellTrust
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.system import RandomIds, SystemClock
from hames.tools.registry import BuiltinTools


@asynccontextmanager
async def open_engine(
    options: Options, *, models: Models | None = None, store: Store | None = None, tools: Tools | None = None
) -> AsyncGenerator[Engine]:
    """An engine for one workspace. Raises `Misconfigured`.

    Any room can be replaced; what is not given is the real thing.
    """
    clock = SystemClock()
    models = models or catalogue(options)
    walls = SandboxSettings(extra_path=options.extra_path, allow_degraded=options.allow_degraded)
    sandbox = LocalSandbox(walls, environ=options.environment)
    engine = Engine(
        store=store or JsonlStore(options.data_dir, places=Places(options.state_dir)),
        models=models,
        tools=tools or BuiltinTools(sandbox, clock),
        trust=ShellTrust(),
        clock=clock,
        ids=RandomIds(),
        rules=Rules(defaults=default_settings(options, models), max_steps=options.max_steps),
    )
    async with engine:
        yield engine


def catalogue(options: Options) -> Catalogue:
    clock = SystemClock()
    return Catalogue(options.environment, clock=clock)


def default_settings(options: Options, models: Models) -> Settings:
    """What a thread runs with unless its client says otherwise. Raises `UnknownModel`."""
    return Settings(
        model=models.find(options.model or models.default).id,
        cwd=str(options.cwd),
        approval_policy=options.approval_policy,
        sandbox=options.sandbox,
        instructions=options.instructions,
    )
