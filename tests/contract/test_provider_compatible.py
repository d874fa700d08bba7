"""The provider for chat completions keeps every promise of the port, whatever the server does."""

from collections.abc import Awaitable, Callable

import pytest

from hames.providers.compatible import CompatibleProvider
from hames.providers.compatible_servers import SERVERS
from hames.providers.retry import PATIENCE, Patience
from hames.testing.checks.provider import CHECKS, Stage
from hames.testing.clock import FakeClock
from hames.testing.provider_chat import CHAT

OPENROUTER = next(server for server in SERVERS if server.name == "openrouter")


def make(url: str, patience: Patience = PATIENCE) -> CompatibleProvider:
    return CompatibleProvider(
        OPENROUTER, url=url + "/v1", api_key="sk-or-canary-key", clock=FakeClock(), patience=patience
    )


def impatient(url: str) -> CompatibleProvider:
    return make(url, Patience(retries=0, idle_s=0.2))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
async def test_the_contract(check: Callable[[Stage], Awaitable[None]]) -> None:
    await check(Stage(dialect=CHAT, make=make, impatient=impatient))
