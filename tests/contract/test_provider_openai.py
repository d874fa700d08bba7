"""The OpenAI provider keeps every promise of the port, whatever the service does."""

from collections.abc import Awaitable, Callable

import pytest

from hames.providers.openai import OpenAIProvider
from hames.providers.retry import Patience
from hames.testing.checks.provider import CHECKS, Stage
from hames.testing.clock import FakeClock
from hames.testing.provider_openai import OPENAI

KEY = "sk-proj-canary-key"


def make(url: str) -> OpenAIProvider:
    return OpenAIProvider(base_url=url + "/v1", api_key=KEY, clock=FakeClock())


def impatient(url: str) -> OpenAIProvider:
    patience = Patience(retries=0, idle_s=0.2)
    return OpenAIProvider(base_url=url + "/v1", api_key=KEY, clock=FakeClock(), patience=patience)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
async def test_the_contract(check: Callable[[Stage], Awaitable[None]]) -> None:
    await check(Stage(dialect=OPENAI, make=make, impatient=impatient))
