"""The engine of `hames serve --runner`: every turn runs on the runner, and there is nothing here to run one with."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from hames.agents.runner.agent import connected
from hames.app import Engine, open_engine
from hames.config.load import Options
from hames.domain.errors import Misconfigured
from hames.ports import Store, Workspace


def check_runner_address(url: str) -> None:
    """Raises `Misconfigured` for what is no address: without a runner the turns would run on this machine."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misconfigured(f"--runner is {url!r}, which is not an address such as http://host:4900")


@asynccontextmanager
async def open_runner_engine(
    options: Options,
    store: Store,
    url: str,
    *,
    model: str,
    token: str,
    stall_s: float,
    memory: Callable[[], Path | None],
    workspace: Workspace | None = None,
) -> AsyncGenerator[Engine]:
    """`model` is one of the runner's; empty: the one it was started with. Raises `Misconfigured`, `UnknownModel`."""
    async with (
        connected(url, model, token=token, stall_s=stall_s, cwd=str(options.cwd), memory=memory) as agent,
        open_engine(
            replace(options, model=agent.models.default),
            models=agent.models,
            store=store,
            builtin_tools=False,
            agents={agent.name: agent},
            only_agent=agent.name,
            leaves_turns=True,
            workspace=workspace,
        ) as engine,
    ):
        yield engine
