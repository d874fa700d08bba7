"""Whatever a service sends, reading it fails in one way only: by keeping a `ProviderError`."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.domain.errors import ProviderError
from hames.domain.json import Json
from hames.domain.request import ModelEvent
from hames.providers.chat.stream import ChatStream
from hames.providers.model_list import ListedModel, read_list
from hames.providers.openai.stream import DELTAS, OpenAIStream
from hames.testing.services.outcome import outcome

Stream = OpenAIStream | ChatStream
STREAMS: list[type[Stream]] = [OpenAIStream, ChatStream]

leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=5) | st.sampled_from(["{}", "<think>"])
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def sometimes(usual: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """What is usual, or anything at all."""
    return usual | usual | usual | anything


def record(**members: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return sometimes(st.fixed_dictionaries({}, optional=members))


texts = sometimes(st.text(max_size=5))
indexes = sometimes(st.integers(0, 2))
items = record(
    type=sometimes(st.sampled_from(["message", "reasoning", "function_call", "web_search_call", "melody"])),
    id=texts,
    call_id=texts,
    name=texts,
    arguments=texts,
    status=sometimes(st.sampled_from(["completed", "incomplete", "failed"])),
    content=sometimes(st.lists(record(type=texts, text=texts, refusal=texts), max_size=2)),
    summary=sometimes(st.lists(record(text=texts), max_size=2)),
    encrypted_content=texts,
    action=record(query=texts, queries=anything, url=texts),
)
kinds = [
    *DELTAS,
    "response.output_item.added",
    "response.output_item.done",
    "response.reasoning_summary_part.added",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "error",
]
usage = record(input_tokens=indexes, output_tokens=indexes, input_tokens_details=record(cached_tokens=indexes))
responses = record(
    status=texts,
    output=sometimes(st.lists(items, max_size=2)),
    usage=usage,
    error=anything,
    incomplete_details=anything,
)
openai_events = record(
    type=sometimes(st.sampled_from(kinds)),
    output_index=indexes,
    summary_index=indexes,
    delta=texts,
    item=items,
    response=responses,
)
parts = record(index=indexes, id=texts, function=record(name=texts, arguments=texts))
deltas = record(
    content=texts,
    reasoning=texts,
    reasoning_content=texts,
    refusal=texts,
    tool_calls=sometimes(st.lists(parts, max_size=3)),
    reasoning_details=sometimes(st.lists(record(type=texts, index=indexes, text=texts), max_size=2)),
)
choices = record(index=indexes, delta=deltas, finish_reason=sometimes(st.sampled_from([None, "stop", "length"])))
chat_events = record(choices=sometimes(st.lists(choices, max_size=2)), usage=usage, error=st.none() | anything)


def fed(stream: Stream, chunks: list[bytes]) -> None:
    told: list[ModelEvent] = []
    for chunk in chunks:
        told += stream.feed(chunk)
        if stream.ended or stream.failure:
            break
    else:
        told += stream.finish()
    assert stream.ended or stream.failure is not None
    if stream.failure is None:
        outcome(told)  # what was told keeps the port's promises


def failing(said: Json) -> ProviderError:
    return ProviderError(f"{said}")


def sse(event: Json) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"


@given(st.lists(openai_events, max_size=12))
def test_any_events_of_the_responses_api(events: list[Json]) -> None:
    ended = {"type": "response.completed", "response": {"status": "completed"}}
    fed(OpenAIStream(failing), [*map(sse, events), sse(ended)])


@given(st.lists(chat_events, max_size=12))
def test_any_chunks_of_chat_completions(events: list[Json]) -> None:
    fed(ChatStream(failing), [*map(sse, events), b"data: [DONE]\n\n"])


@pytest.mark.parametrize("kind", STREAMS)
@given(chunks=st.lists(st.binary(max_size=60) | st.sampled_from([b"data: ", b"\n\n", b"{", b"event: error\n"])))
def test_any_bytes(kind: Callable[..., Stream], chunks: list[bytes]) -> None:
    fed(kind(failing), chunks)


@given(
    anything | st.fixed_dictionaries({"data": st.lists(anything | record(id=texts, pricing=anything, meta=anything))})
)
def test_any_list_of_models(body: Json) -> None:
    try:
        listed = read_list(msgspec.json.encode(body))
    except ValueError:
        return
    assert all(isinstance(one, ListedModel) and one.id for one in listed)
