"""The provider for chat completions keeps every promise of the port, whatever the server does."""

from collections.abc import Awaitable, Callable

import pytest

from hames.providers.chat.provider import ChatProvider
from hames.providers.chat.servers import SERVERS
from hames.providers.retry import PATIENCE, Patience
from hames.testing.checks.provider import CHECKS, ProviderStage
from hames.testing.fakes.clock import FakeClock
from hames.testing.services.chat import CHAT

OPENROUTER = next(server for server in SERVERS if server.name == "openrouter")


def make(url: str, patience: Patience = PATIENCE) -> ChatProvider:
    return ChatProvider(OPENROUTER, url=url + "/v1", api_key="sk-or-canary-key", clock=FakeClock(), patience=patience)


def impatient(url: str) -> ChatProvider:
    return make(url, Patience(retries=0, idle_s=0.2))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
async def test_the_contract(check: Callable[[ProviderStage], Awaitable[None]]) -> None:
    await check(ProviderStage(dialect=CHAT, make=make, impatient=impatient))
