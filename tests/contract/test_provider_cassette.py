"""A cassette is a provider like any other, and recording changes nothing about the one it records."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from hames.providers.anthropic import AnthropicProvider
from hames.providers.cassette import CassetteProvider, Recorder, RecordingProvider
from hames.providers.retry import PATIENCE, Patience
from hames.testing.checks.provider import (
    CHECKS,
    FULL,
    Stage,
    asking,
    assert_same,
    check_stopping,
    check_stream,
    expected,
)
from hames.testing.clock import FakeClock
from hames.testing.provider_anthropic import ANTHROPIC
from hames.testing.provider_outcome import heard
from hames.testing.provider_server import ProviderServer


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
async def test_the_contract_while_recording(check: Callable[[Stage], Awaitable[None]], tmp_path: Path) -> None:
    def make(url: str, patience: Patience = PATIENCE) -> RecordingProvider:
        provider = AnthropicProvider(base_url=url, api_key="sk-ant-canary-key", clock=FakeClock(), patience=patience)
        return RecordingProvider(provider, Recorder(str(tmp_path / "c.jsonl"), {}))

    await check(Stage(dialect=ANTHROPIC, make=make, impatient=lambda url: make(url, Patience(retries=0, idle_s=0.2))))


async def test_a_cassette_streams_lawfully_and_may_be_stopped_anywhere(tmp_path: Path) -> None:
    path = str(tmp_path / "c.jsonl")
    async with ProviderServer(ANTHROPIC, FULL) as server:
        provider = AnthropicProvider(base_url=server.url, api_key="k", clock=FakeClock())
        await heard(RecordingProvider(provider, Recorder(path, {})), asking())
        await provider.aclose()
    request = msgspec.structs.replace(asking(), model=path)
    assert_same(await check_stream(CassetteProvider(), request), expected(FULL))
    await check_stopping(_Forgetful(), request)


class _Forgetful:
    """A fresh player for every request: what was played once is played again."""

    name = "cassette"

    def stream(self, request):
        return CassetteProvider().stream(request)
