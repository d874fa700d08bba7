"""The official SDK and we read the same bytes of the Responses API, and say the same."""

from collections.abc import Sequence

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hames.domain.errors import ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call, Picture
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.request import (
    CallBlock,
    Message,
    ModelEvent,
    ModelRequest,
    OfferedTool,
    PictureBlock,
    ReasoningBlock,
    ResultBlock,
    SearchBlock,
    TextBlock,
)
from hames.domain.usage import Usage
from hames.providers.openai import models
from hames.providers.openai.models import BASE_URL
from hames.providers.openai.provider import OpenAIProvider
from hames.providers.openai.request import as_json, encode
from hames.providers.openai.stream import OpenAIStream
from hames.testing.checks.provider import FULL, TOOLS, asking
from hames.testing.services.openai import OPENAI, ResponseEvents, call, response, say_words, search, sse, think, write
from hames.testing.services.outcome import Outcome, outcome
from hames.testing.services.server import ServerTalk, Thoughts, Use, Words
from oracles.openai import accepted_by_sdk, address_of_sdk, read_by_sdk

SLOWLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read_by_us(chunks: Sequence[bytes]) -> Outcome:
    reply, events = OpenAIStream(_fail), list[ModelEvent]()
    for chunk in chunks:
        events += reply.feed(chunk)
    if not reply.ended:
        events += reply.finish()
    if reply.failure is not None:
        raise reply.failure
    return outcome(events)


def _fail(error: Json) -> ProviderError:
    return ProviderError(f"{error}")


async def assert_agree(chunks: list[bytes]) -> None:
    assert read_by_us(chunks) == await read_by_sdk(chunks)


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
    parts=st.lists(parts, max_size=6, unique_by=lambda part: part.id if isinstance(part, Use) else id(part)).map(tuple),
    stop=st.sampled_from(["end", "max_tokens", "refusal", "unknown"]),
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
    rest, chunks = b"".join(OPENAI.events(talk)), list[bytes]()
    while rest:
        cut = data.draw(st.integers(1, min(len(rest), 400)))
        chunks.append(rest[:cut])
        rest = rest[cut:]
    anyio.run(assert_agree, chunks)


def test_a_call_split_at_every_byte_is_the_same_call() -> None:
    data = b"".join(OPENAI.events(ServerTalk(parts=(Use(name="shell", arguments='{"command": "echo ä🐎"}', id="c1"),))))
    whole = read_by_us([data])
    for cut in range(len(data)):
        assert read_by_us([data[:cut], data[cut:]]) == whole


def told(*steps: object, end: str = "completed") -> list[bytes]:
    """A reply made of functions that tell."""
    reply = ResponseEvents()
    reply.begin()
    for step in steps:
        step(reply)  # type: ignore[operator]
    reply.end(end)
    return reply.events


def words(text: str = "Yes.", **how: bool):
    return lambda reply: say_words(reply, text, **how)


def two_summaries(reply: ResponseEvents) -> None:
    where = {"item_id": "rs_0", "output_index": 0}
    reply.added({"id": "rs_0", "type": "reasoning", "summary": []})
    for index, text in enumerate(("First.", "Second.")):
        part = {"type": "summary_text", "text": text}
        reply.say("response.reasoning_summary_part.added", **where, summary_index=index, part={**part, "text": ""})
        reply.say("response.reasoning_summary_text.delta", **where, summary_index=index, delta=text)
        reply.say("response.reasoning_summary_part.done", **where, summary_index=index, part=part)
    summary = [{"type": "summary_text", "text": text} for text in ("First.", "Second.")]
    reply.done({"id": "rs_0", "type": "reasoning", "summary": summary, "encrypted_content": "e"})


def quiet_thought(reply: ResponseEvents) -> None:
    reply.added({"id": "rs_0", "type": "reasoning", "summary": []})
    reply.done({"id": "rs_0", "type": "reasoning", "summary": [], "encrypted_content": "e"})


FULL_EVENTS = OPENAI.events(FULL)
HAND_PICKED: dict[str, list[bytes]] = {
    "everything": FULL_EVENTS,
    "nothing": told(),
    "a refusal in words": told(words("I can't help with that.", refusal=True)),
    "a filtered reply": told(words("So"), end="content_filter"),
    "a reply that ran out of tokens": told(words("So"), end="max_output_tokens"),
    "a reply that ran out in a call": told(
        words(),
        lambda reply: call(reply, Use(name="shell", arguments='{"comm', id="c1"), status="incomplete"),
        end="max_output_tokens",
    ),
    "a reply that was steered": told(words("So"), end="steered"),
    "plain text for a tool": told(
        lambda reply: write(reply, Use(name="apply_patch", arguments='*** Begin Patch\n+"ä"\n*** End Patch', id="c1"))
    ),
    "plain text for a tool, cut off": told(
        lambda reply: write(reply, Use(name="apply_patch", arguments="*** Beg", id="c1"), status="incomplete"),
        end="max_output_tokens",
    ),
    "a call without arguments": told(lambda reply: call(reply, Use(name="now", arguments="{}", id="c1"))),
    "two summaries": told(two_summaries, words()),
    "a thought that shows nothing": told(quiet_thought, words()),
    "a thought that cannot be sent back": told(lambda reply: think(reply, "Hm", ""), words()),
    "a web search": told(lambda reply: search(reply, {"type": "search", "query": "hames"}), words()),
    "a web search of several": told(
        lambda reply: search(reply, {"type": "search", "queries": ["hames", "harness"]}), words()
    ),
    "a page opened": told(lambda reply: search(reply, {"type": "open_page", "url": "https://example.com"}), words()),
    "an event nobody knows": [
        *FULL_EVENTS[:3],
        sse({"type": "response.melody.delta", "sequence_number": 5, "output_index": "x"}),
        *FULL_EVENTS[3:],
    ],
    "comments and pings": [FULL_EVENTS[0], b": hello\n\n", OPENAI.ping(), *FULL_EVENTS[1:]],
    "CRLF": [event.replace(b"\n", b"\r\n") for event in FULL_EVENTS],
    "no space after the colon": [
        event.replace(b"event: ", b"event:").replace(b"data: ", b"data:") for event in FULL_EVENTS
    ],
    "without names": [event[event.index(b"data: ") :] for event in FULL_EVENTS],
    "with a last word of another dialect": [*FULL_EVENTS, b"data: [DONE]\n\n"],
}


@pytest.mark.parametrize("name", HAND_PICKED)
async def test_odd_but_readable_streams_read_the_same(name: str) -> None:
    await assert_agree(HAND_PICKED[name])


def test_a_last_event_without_a_blank_line_after_it_still_counts() -> None:
    assert read_by_us([b"".join(FULL_EVENTS).rstrip(b"\n")]) == read_by_us(FULL_EVENTS)


@pytest.mark.parametrize("end", [3, 7, 12, -3, -1])
async def test_a_stream_that_stops_early_is_a_failure(end: int) -> None:
    with pytest.raises(ProviderError) as error:
        read_by_us(FULL_EVENTS[:end])
    assert error.value.retryable
    with pytest.raises(AssertionError, match="last word"):
        await read_by_sdk(FULL_EVENTS[:end])


async def test_a_reply_that_failed_is_a_failure_and_the_sdk_has_no_reply_either() -> None:
    failed = {**response("failed"), "error": {"code": "server_error", "message": "Sorry"}}
    chunks = [*FULL_EVENTS[:9], sse({"type": "response.failed", "sequence_number": 9, "response": failed})]
    with pytest.raises(ProviderError, match="Sorry"):
        read_by_us(chunks)
    with pytest.raises(AssertionError, match="last word"):
        await read_by_sdk(chunks)


OPTIONS: list[dict[str, str]] = [{}, {"reasoning_effort": "high"}, {"reasoning_effort": "low", "web_search": "on"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("card", models.MODELS, ids=lambda card: card.model)
async def test_what_we_send_is_what_the_sdk_would_send(card: ModelCard, options: dict[str, str]) -> None:
    request = msgspec.structs.replace(asking(), model=card.model, options=options, cache_key="thread_1")
    ours = msgspec.json.decode(encode(request))
    assert await accepted_by_sdk(as_json(request)) == ours


async def test_a_history_with_everything_in_it_is_what_the_sdk_would_send() -> None:
    made = Call(id=CallId("c1"), name="shell", arguments='{"command": "ls"}')
    picture = Picture(media_type="image/png", base64="iVBORw0KGgo=")
    opaque = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
    searched = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    request = ModelRequest(
        model="gpt-6.1-sol",
        messages=(
            Message(role="user", blocks=(TextBlock(text="Look"), PictureBlock(picture=picture))),
            Message(
                role="assistant",
                blocks=(
                    ReasoningBlock(provider="openai", text="", opaque=opaque),
                    SearchBlock(provider="openai", opaque=searched),
                    TextBlock(text="I will."),
                    CallBlock(call=made),
                ),
            ),
            Message(role="user", blocks=(ResultBlock(call=made, text="a.png", pictures=(picture,)),)),
        ),
        tools=TOOLS,
    )
    sent = await accepted_by_sdk(as_json(request))
    assert sent == msgspec.json.decode(encode(request))
    assert [item["type"] for item in sent["input"]] == [
        "message",
        "reasoning",
        "web_search_call",
        "message",
        "function_call",
        "function_call_output",
    ]


async def test_plain_text_for_a_tool_is_sent_as_the_sdk_would_send_it() -> None:
    grammar = OfferedTool(name="apply_patch", description="Patch", schema={"type": "object"}, grammar="start: /.+/")
    called = Call(id=CallId("c1"), name="apply_patch", arguments='{"input":"*** Begin Patch"}')
    request = ModelRequest(
        model="gpt-6.1-sol",
        messages=(
            Message(role="user", blocks=(TextBlock(text="Hi"),)),
            Message(role="assistant", blocks=(CallBlock(call=called),)),
            Message(role="user", blocks=(ResultBlock(call=called, text="Done"),)),
        ),
        tools=(*TOOLS, grammar),
    )
    sent = await accepted_by_sdk(as_json(request))
    assert sent == msgspec.json.decode(encode(request))
    assert [tool["type"] for tool in sent["tools"]] == ["function", "custom"]


async def test_the_base_url_means_what_it_means_to_the_sdk() -> None:
    responses, chat = await address_of_sdk(BASE_URL)
    assert responses == BASE_URL + OpenAIProvider.path
    assert chat == BASE_URL + "/chat/completions"


def _named_by_the_sdk() -> list[str]:
    from typing import get_args

    from openai.types.shared.chat_model import ChatModel

    return list(get_args(ChatModel))


def test_every_model_of_the_catalogue_is_one_the_sdk_names() -> None:
    assert [card.model for card in models.MODELS if card.model not in _named_by_the_sdk()] == []


def test_the_catalogue_knows_every_current_model_the_sdk_names() -> None:
    """Of the generations that are not announced to shut down before next year."""
    current = [name for name in _named_by_the_sdk() if name.startswith(("gpt-6", "gpt-5.6", "gpt-5.5", "gpt-5.4"))]
    assert [name for name in current if models.known(name) is None] == []


def test_every_model_the_sdk_calls_deprecated_has_a_successor_that_is_not() -> None:
    import inspect

    from openai.types.shared import chat_model

    deprecated = inspect.getsource(chat_model).partition('"""Deprecated values:')[2]
    for card in models.MODELS:
        assert bool(card.successor) == (f'"{card.model}"' in deprecated), card.model
        if card.successor:
            successor = models.known(card.successor)
            assert successor is not None
            assert not successor.successor
