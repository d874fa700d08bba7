"""The OpenAI provider on the wire: what only it does, and what only shows there."""

import subprocess
import sys

import pytest

from hames.domain.errors import ErrorInfo, Misconfigured
from hames.domain.ids import CallId
from hames.domain.items import Call
from hames.domain.json import Json
from hames.domain.request import (
    CallBlock,
    Message,
    ModelRequest,
    ProviderNotice,
    ReasoningBlock,
    ResultBlock,
    SearchEnded,
    SearchStarted,
    SummaryDelta,
    TextBlock,
)
from hames.providers.openai.provider import OpenAIProvider
from hames.testing.checks.provider import asking
from hames.testing.fakes.clock import FakeClock
from hames.testing.services.openai import OPENAI, ResponseEvents, response, say_words, search, sse
from hames.testing.services.outcome import failed, heard, outcome
from hames.testing.services.server import (
    ProviderServer,
    SeenRequest,
    ServerReply,
    ServerTalk,
    raw,
    talk,
)

KEY = "sk-proj-canary-key"


def provider(url: str) -> OpenAIProvider:
    return OpenAIProvider(base_url=url + "/v1", api_key=KEY, clock=FakeClock())


async def test_the_request_goes_to_the_responses_api_with_the_key() -> None:
    async with ProviderServer(OPENAI, talk("Hi")) as server:
        await heard(provider(server.url), asking())
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/v1/responses")
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.body["stream"] is True


@pytest.mark.parametrize("key", ["", "  ", "sk-ä", "two\nlines"])
def test_a_key_that_cannot_be_one_is_a_sentence_that_does_not_repeat_it(key: str) -> None:
    with pytest.raises(Misconfigured, match="OPENAI_API_KEY") as error:
        OpenAIProvider(api_key=key, clock=FakeClock())
    assert not key.strip() or key not in str(error.value)


def _thoughtful() -> ModelRequest:
    made = Call(id=CallId("t1"), name="shell", arguments="{}")
    opaque = {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "of another key"}
    return ModelRequest(
        model="gpt-6.1-sol",
        messages=(
            Message(role="user", blocks=(TextBlock(text="Hi"),)),
            Message(
                role="assistant",
                blocks=(ReasoningBlock(provider="openai", text="Hm", opaque=opaque), CallBlock(call=made)),
            ),
            Message(role="user", blocks=(ResultBlock(call=made, text="ok"),)),
        ),
    )


REFUSED_THOUGHTS = [
    (400, "The encrypted content gAAA could not be verified. Reason: Encrypted content could not be decrypted."),
    (404, "Item with id 'rs_9' not found. Items are not persisted when `store` is set to false."),
    (400, "Item 'rs_9' of type 'reasoning' was provided without its required following item."),
]


@pytest.mark.parametrize(("status", "message"), REFUSED_THOUGHTS)
async def test_a_thread_goes_on_without_thoughts_the_service_will_not_take_back(status: int, message: str) -> None:
    def judge(seen: SeenRequest) -> ServerReply | ServerTalk:
        return OPENAI.refusal(status, message=message) if "rs_9" in seen.raw.decode() else talk("Still here")

    async with ProviderServer(OPENAI, then=judge) as server:
        events = await heard(provider(server.url), _thoughtful())
    assert outcome(events).texts == ("Still here",)
    assert isinstance(events[0], ProviderNotice)
    assert len(server.seen) == 2


async def test_a_refusal_that_thoughts_cannot_explain_is_not_tried_again() -> None:
    async with ProviderServer(OPENAI, then=OPENAI.refusal(400, message=REFUSED_THOUGHTS[0][1])) as server:
        await failed(provider(server.url), asking())
    assert len(server.seen) == 1


async def test_a_search_is_shown_when_it_starts_and_named_when_it_ends() -> None:
    told = ResponseEvents()
    told.begin()
    search(told, {"type": "search", "query": "hames"})
    say_words(told, "Found.")
    told.end()
    async with ProviderServer(OPENAI, raw(*told.events)) as server:
        events = await heard(provider(server.url), asking(web_search="on"))
    assert SearchStarted(block=0, query="") in events
    (ended,) = (event for event in events if isinstance(event, SearchEnded))
    assert (ended.query, ended.failed) == ("hames", False)
    assert ended.opaque["action"] == {"type": "search", "query": "hames"}


FAILURES: list[tuple[Json, ErrorInfo, bool]] = [
    ({"code": "rate_limit_exceeded", "message": "Slow down"}, "UsageLimitExceeded", True),
    ({"code": "server_error", "message": "Sorry"}, "InternalServerError", True),
    ({"code": "server_is_overloaded", "message": "Busy"}, "ServerOverloaded", True),
    ({"code": "slow_down", "message": "Busy"}, "ServerOverloaded", True),
    ({"code": "context_length_exceeded", "message": "Too much"}, "ContextWindowExceeded", False),
    ({"code": "insufficient_quota", "message": "No money"}, "UsageLimitExceeded", False),
    ({"code": "invalid_prompt", "message": "Not like this"}, "BadRequest", False),
    ({"code": "bio_policy", "message": "No"}, "Refusal", False),
    ({"code": "misalignment_policy_violation", "message": "No"}, "Refusal", False),
    ({"code": "image_content_policy_violation", "message": "No"}, "Refusal", False),
    ({"code": "invalid_image", "message": "Not a picture"}, "BadRequest", False),
    (None, "BadRequest", False),
]


@pytest.mark.parametrize(("error", "info", "retryable"), FAILURES, ids=lambda value: str(value)[:30])
async def test_every_way_a_reply_can_fail(error: Json, info: ErrorInfo, retryable: bool) -> None:
    events = OPENAI.events(talk("Half an ans"))[:6]
    gone = sse({"type": "response.failed", "sequence_number": 9, "response": {**response("failed"), "error": error}})
    async with ProviderServer(OPENAI, raw(*events, gone)) as server:
        told, raised = await failed(provider(server.url), asking())
    assert told
    assert (raised.info, raised.retryable) == (info, retryable)


async def test_an_error_event_is_a_failure_too() -> None:
    events = OPENAI.events(talk("Half an ans"))[:6]
    for error in (
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down", "param": None},
        {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}},
    ):
        async with ProviderServer(OPENAI, raw(*events, sse(error))) as server:
            _, raised = await failed(provider(server.url), asking())
        assert (raised.info, raised.retryable) == ("UsageLimitExceeded", True)


async def test_items_that_only_the_last_event_holds_are_told() -> None:
    """Some gateways leave the events of an item out."""
    events = OPENAI.events(talk("All at once"))
    async with ProviderServer(OPENAI, raw(events[0], events[-1])) as server:
        assert outcome(await heard(provider(server.url), asking())).texts == ("All at once",)


async def test_summaries_are_told_as_summaries() -> None:
    from hames.testing.services.server import Thoughts, Words

    thoughtful = ServerTalk(parts=(Thoughts(text="Hm, yes"), Words(text="Yes")), cuts=1)
    async with ProviderServer(OPENAI, thoughtful) as server:
        events = await heard(provider(server.url), asking())
    assert SummaryDelta(block=0, text="Hm, yes") in events


def test_the_module_needs_no_http_until_it_is_used() -> None:
    code = "import sys, hames.providers.openai.provider; print([m for m in ('httpx2', 'openai') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.strip() == "[]"
