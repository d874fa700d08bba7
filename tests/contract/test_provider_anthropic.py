"""The Anthropic provider keeps every promise of the port, whatever the service does."""

from collections.abc import Awaitable, Callable

import pytest

from hames.providers.anthropic import AnthropicProvider
from hames.providers.retry import Patience
from hames.testing.checks.provider import CHECKS, Stage
from hames.testing.clock import FakeClock
from hames.testing.provider_anthropic import ANTHROPIC


def make(url: str) -> AnthropicProvider:
    return AnthropicProvider(base_url=url, api_key="sk-ant-canary-key", clock=FakeClock())


def impatient(url: str) -> AnthropicProvider:
    patience = Patience(retries=0, idle_s=0.2)
    return AnthropicProvider(base_url=url, api_key="sk-ant-canary-key", clock=FakeClock(), patience=patience)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
async def test_the_contract(check: Callable[[Stage], Awaitable[None]]) -> None:
    await check(Stage(dialect=ANTHROPIC, make=make, impatient=impatient))
