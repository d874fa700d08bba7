"""The official SDK and we read the same bytes, and say the same."""

from collections.abc import Sequence

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hames.domain.errors import ProviderError
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.request import ModelEvent
from hames.domain.usage import Usage
from hames.providers.anthropic import models
from hames.providers.anthropic.request import as_json, encode
from hames.providers.anthropic.stream import AnthropicStream
from hames.testing.checks.provider import FULL, asking
from hames.testing.services.anthropic import (
    ANTHROPIC,
    block_delta,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    message_stop,
    sse,
    text_delta,
)
from hames.testing.services.outcome import Outcome, outcome
from hames.testing.services.server import ServerTalk, Thoughts, Use, Words
from oracles.anthropic import accepted_by_sdk, read_by_sdk

SLOWLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read_by_us(chunks: Sequence[bytes]) -> Outcome:
    reply, events = AnthropicStream(_fail), list[ModelEvent]()
    for chunk in chunks:
        events += reply.feed(chunk)
    if not reply.ended:
        events += reply.finish()
    if reply.failure is not None:
        raise reply.failure
    return outcome(events)


def _fail(error: Json) -> ProviderError:
    return ProviderError(f"{error}")


def comparable(read: Outcome) -> Outcome:
    """Arguments by their value: we keep the model's own text, the SDK its decoded form."""
    calls = tuple(
        msgspec.structs.replace(call, arguments=msgspec.json.encode(msgspec.json.decode(call.arguments)).decode())
        for call in read.calls
    )
    return msgspec.structs.replace(read, calls=calls, notices=())


async def assert_agree(chunks: list[bytes]) -> None:
    assert comparable(read_by_us(chunks)) == comparable(await read_by_sdk(chunks))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
json_objects = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, width=32) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)
parts = st.one_of(
    st.builds(Words, text=texts.filter(bool)),
    st.builds(Thoughts, text=texts.filter(bool), signature=names),
    st.builds(Use, name=names, arguments=json_objects.map(lambda v: msgspec.json.encode(v).decode()), id=names),
)
counts = st.integers(0, 10**7)
talks = st.builds(
    ServerTalk,
    parts=st.lists(parts, max_size=6).map(tuple),
    stop=st.sampled_from(["end", "tools", "max_tokens", "refusal", "pause", "context_exceeded"]),
    usage=st.builds(
        Usage,
        input_tokens=counts,
        output_tokens=counts,
        thinking_tokens=counts,
        cache_read_tokens=counts,
        cache_write_tokens=counts,
    ),
    cuts=st.integers(1, 9),
)


@SLOWLY
@given(talks, st.data())
def test_any_reply_cut_anywhere_reads_the_same(talk: ServerTalk, data: st.DataObject) -> None:
    rest, chunks = b"".join(ANTHROPIC.events(talk)), list[bytes]()
    while rest:
        cut = data.draw(st.integers(1, min(len(rest), 400)))
        chunks.append(rest[:cut])
        rest = rest[cut:]
    anyio.run(assert_agree, chunks)


def reply(*events: bytes, stop: bytes = b"") -> list[bytes]:
    return [message_start(), *events, stop or message_delta("end_turn"), message_stop()]


SEARCH = (
    block_start(0, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
    input_delta(0, '{"query":'),
    input_delta(0, ' "hames"}'),
    block_stop(0),
    block_start(
        1,
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {
                    "type": "web_search_result",
                    "url": "https://example.com",
                    "title": "Hames",
                    "encrypted_content": "abc",
                    "page_age": None,
                }
            ],
        },
    ),
    block_stop(1),
    block_start(2, {"type": "text", "text": ""}),
    block_delta(
        2,
        {
            "type": "citations_delta",
            "citation": {
                "type": "web_search_result_location",
                "cited_text": "c",
                "encrypted_index": "i",
                "title": "t",
                "url": "u",
            },
        },
    ),
    text_delta(2, "Found."),
    block_stop(2),
)

HAND_PICKED: dict[str, list[bytes]] = {
    "everything": ANTHROPIC.events(FULL),
    "nothing": reply(),
    "an empty text": reply(block_start(0, {"type": "text", "text": ""}), block_stop(0)),
    "a text that starts with words": reply(
        block_start(0, {"type": "text", "text": "Well, "}), text_delta(0, "yes"), block_stop(0)
    ),
    "a call without arguments": reply(
        block_start(0, {"type": "tool_use", "id": "t", "name": "now", "input": {}}),
        input_delta(0, ""),
        block_stop(0),
        stop=message_delta("tool_use"),
    ),
    "a call whose input stands in its start": reply(
        block_start(0, {"type": "tool_use", "id": "t", "name": "now", "input": {"zone": "UTC"}}),
        block_stop(0),
        stop=message_delta("tool_use"),
    ),
    "redacted thinking": reply(block_start(0, {"type": "redacted_thinking", "data": "opaque"}), block_stop(0)),
    "thinking left out": reply(
        block_start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        block_delta(0, {"type": "signature_delta", "signature": "s"}),
        block_stop(0),
    ),
    "a web search": reply(*SEARCH),
    "a stop sequence": reply(
        block_start(0, {"type": "text", "text": ""}),
        text_delta(0, "x"),
        block_stop(0),
        stop=message_delta("stop_sequence"),
    ),
    "usage that grows": reply(
        stop=message_delta(
            "end_turn",
            {"input_tokens": 99, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3, "output_tokens": 5},
        )
    ),
    "usage that says nothing new": reply(
        stop=message_delta("end_turn", {"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 5})
    ),
    "a second start": [message_start(), *reply(block_start(0, {"type": "text", "text": "a"}), block_stop(0))],
    "deltas for a block of another kind": reply(
        block_start(0, {"type": "text", "text": "a"}),
        input_delta(0, '{"x": 1}'),
        block_delta(0, {"type": "thinking_delta", "thinking": "no"}),
        block_stop(0),
    ),
    "events nobody knows": reply(
        sse({"type": "content_block_ping", "index": 0}),
        block_start(0, {"type": "text", "text": ""}),
        block_delta(0, {"type": "melody_delta", "notes": "abc"}),
        text_delta(0, "x"),
        block_stop(0),
    ),
    "comments and pings": reply(b": hello\n\n", ANTHROPIC.ping(), b":\n\n"),
    "CRLF": [event.replace(b"\n", b"\r\n") for event in ANTHROPIC.events(FULL)],
    "CR": [event.replace(b"\n", b"\r") for event in ANTHROPIC.events(FULL)],
    "no space after the colon": [
        event.replace(b"event: ", b"event:").replace(b"data: ", b"data:") for event in ANTHROPIC.events(FULL)
    ],
    "data over several lines": [
        event.replace(b'"index":', b'\ndata: "index":', 1).replace(b"{\ndata", b"{\ndata")
        for event in ANTHROPIC.events(FULL)
    ],
    "without a last blank line": [b"".join(ANTHROPIC.events(FULL)).rstrip(b"\n")],
    "without a last word": ANTHROPIC.events(FULL)[:-1],
}


@pytest.mark.parametrize("name", HAND_PICKED)
async def test_odd_but_readable_streams_read_the_same(name: str) -> None:
    await assert_agree(HAND_PICKED[name])


@pytest.mark.parametrize("end", [3, 7, 12, -3])
async def test_a_stream_that_stops_early_is_a_failure_where_the_sdk_sees_a_short_message(end: int) -> None:
    chunks = ANTHROPIC.events(FULL)[:end]
    assert (await read_by_sdk(chunks)).word == ""
    with pytest.raises(ProviderError) as error:
        read_by_us(chunks)
    assert error.value.retryable


OPTIONS: list[dict[str, str]] = [
    {},
    {"reasoning_effort": "high"},
    {"max_thinking_tokens": "16000", "web_search": "on"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("card", [model.card for model in models.MODELS], ids=lambda card: card.model)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
async def test_what_we_send_is_what_the_sdk_would_send(card: ModelCard, options: dict[str, str]) -> None:
    request = msgspec.structs.replace(asking(), model=card.model, options=options)
    ours = msgspec.json.decode(encode(request))
    assert await accepted_by_sdk(as_json(request)) == ours


def test_the_catalogue_knows_every_model_the_sdk_names() -> None:
    from typing import get_args

    from anthropic.types.model_param import ModelParam

    named = get_args(get_args(ModelParam)[0])
    assert [name for name in named if models.known(name) is None] == []


def test_the_catalogue_has_a_successor_for_every_model_the_sdk_calls_deprecated() -> None:
    from anthropic.resources.messages.messages import DEPRECATED_MODELS

    ours = [found for name in DEPRECATED_MODELS if (found := models.known(name)) is not None]
    assert ours
    for model in ours:
        successor = models.known(model.card.successor)
        assert successor is not None, model.card.model
        assert not successor.card.successor


def test_the_version_we_ask_for_is_the_one_the_sdk_was_made_for() -> None:
    from anthropic._constants import ANTHROPIC_API_VERSION

    from hames.providers.anthropic.provider import VERSION

    assert VERSION == ANTHROPIC_API_VERSION
