"""Claude through the official SDK's own client: the same events, whoever signs in. No cloud is asked here."""

import pytest
from anthropic import AsyncAnthropic

from hames.domain.errors import ProviderError
from hames.providers.catalogue import Catalogue
from hames.providers.clouds import CloudProvider
from hames.providers.retry import Patience
from hames.providers.shelves import CLOUDS
from hames.testing.checks.provider import FULL, asking, assert_same, expected
from hames.testing.clock import FakeClock
from hames.testing.provider_anthropic import ANTHROPIC
from hames.testing.provider_outcome import heard, outcome
from hames.testing.provider_server import Close, ProviderServer, raw, talk


def through(url: str) -> CloudProvider:
    def client() -> AsyncAnthropic:
        return AsyncAnthropic(base_url=url, api_key="k", max_retries=0)

    return CloudProvider("bedrock", clock=FakeClock(), client=client, patience=Patience(retries=1))


async def test_a_reply_through_the_sdk_is_the_reply() -> None:
    async with ProviderServer(ANTHROPIC, FULL, talk("again")) as server:
        provider = through(server.url)
        assert_same(outcome(await heard(provider, asking())), expected(FULL))
        await provider.aclose()
        assert outcome(await heard(provider, asking("more"))).texts == ("again",)
        await provider.aclose()


@pytest.mark.parametrize(("status", "info"), [(401, "Unauthorized"), (529, "ServerOverloaded"), (400, "BadRequest")])
async def test_a_refusal_through_the_sdk_is_a_provider_error(status: int, info: str) -> None:
    async with ProviderServer(ANTHROPIC, then=ANTHROPIC.refusal(status)) as server:
        provider = through(server.url)
        with pytest.raises(ProviderError) as caught:
            async for _ in provider.stream(asking()):
                pass
        await provider.aclose()
    assert caught.value.info == info


async def test_a_stream_that_breaks_off_is_a_provider_error() -> None:
    first = ANTHROPIC.events(FULL)[:4]
    async with ProviderServer(ANTHROPIC, then=raw(*first, Close())) as server:
        provider = through(server.url)
        with pytest.raises(ProviderError):
            async for _ in provider.stream(asking()):
                pass
        await provider.aclose()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_clouds_models_are_named_as_the_cloud_names_them(cloud: str) -> None:
    card = Catalogue({}, clock=FakeClock()).find(f"{cloud}/anthropic.claude-sonnet-5-5-v1:0")
    assert (card.provider, card.model) == (cloud, "anthropic.claude-sonnet-5-5-v1:0")
