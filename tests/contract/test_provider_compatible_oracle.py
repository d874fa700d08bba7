"""The official SDK and we read the same bytes of chat completions, and say the same where it understands them."""

from collections.abc import Sequence

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hames.domain.errors import ProviderError
from hames.domain.json import Json
from hames.domain.request import ModelEvent
from hames.domain.usage import Usage
from hames.providers.chat.request import RequestForm, as_json, encode
from hames.providers.chat.stream import ChatStream
from hames.testing.checks.provider import FULL, asking
from hames.testing.services.chat import CHAT, DONE, call_part, chunk
from hames.testing.services.outcome import Outcome, outcome
from hames.testing.services.server import ServerTalk, Thoughts, Use, Words
from oracles.openai import accepted_chat_by_sdk, read_chat_by_sdk

SLOWLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read_by_us(chunks: Sequence[bytes]) -> Outcome:
    reply, events = ChatStream(_fail), list[ModelEvent]()
    for data in chunks:
        events += reply.feed(data)
    if not reply.ended:
        events += reply.finish()
    if reply.failure is not None:
        raise reply.failure
    return outcome(events)


def _fail(error: Json) -> ProviderError:
    return ProviderError(f"{error}")


def comparable(read: Outcome) -> Outcome:
    """The SDK has one text and one thought to a reply, and nothing to send back."""
    return msgspec.structs.replace(
        read,
        texts=tuple(filter(None, ("".join(read.texts),))),
        thoughts=tuple(filter(None, ("".join(read.thoughts),))),
        opaques=(),
    )


async def assert_agree(chunks: list[bytes]) -> None:
    ours = read_by_us(chunks)
    assert comparable(ours) == await read_chat_by_sdk(chunks)


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)
objects = st.dictionaries(texts, st.none() | st.integers(-(2**53), 2**53) | texts, max_size=4)
uses = st.builds(Use, name=names, arguments=objects.map(lambda v: msgspec.json.encode(v).decode()), id=names)
spoken = st.lists(st.builds(Words, text=texts) | st.builds(Thoughts, text=texts), max_size=4)
called = st.lists(uses, max_size=4, unique_by=lambda use: use.id)
counts = st.integers(0, 10**7)
talks = st.builds(
    lambda said, calls, usage, cuts: ServerTalk(
        parts=(*said, *calls), stop="tools" if calls else "end", usage=usage, cuts=cuts
    ),
    spoken,
    called,
    st.builds(
        Usage,
        input_tokens=counts,
        output_tokens=counts,
        thinking_tokens=counts,
        cache_read_tokens=counts,
        cache_write_tokens=counts,
    ),
    st.integers(1, 9),
)


@SLOWLY
@given(talks, st.data())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_any_reply_cut_anywhere_reads_the_same(talk: ServerTalk, data: st.DataObject) -> None:
    rest, chunks = b"".join(CHAT.events(talk)), list[bytes]()
    while rest:
        cut = data.draw(st.integers(1, min(len(rest), 400)))
        chunks.append(rest[:cut])
        rest = rest[cut:]
    anyio.run(assert_agree, chunks)


def test_a_call_split_at_every_byte_is_the_same_call() -> None:
    use = Use(name="shell", arguments='{"command": "echo ä🐎"}', id="c1")
    data = b"".join(CHAT.events(ServerTalk(parts=(use,), stop="tools")))
    whole = read_by_us([data])
    for cut in range(len(data)):
        assert read_by_us([data[:cut], data[cut:]]) == whole


EVENTS = CHAT.events(FULL)
AGREED: dict[str, list[bytes]] = {
    "everything": EVENTS,
    "nothing but an ending": [chunk({"role": "assistant"}), chunk({}, finish="stop"), DONE],
    "interleaved calls": [
        chunk({"tool_calls": [call_part(0, id="a", name="x", arguments='{"a":')]}),
        chunk({"tool_calls": [call_part(1, id="b", name="y", arguments='{"b":')]}),
        chunk({"tool_calls": [call_part(0, arguments=" 1}"), call_part(1, arguments=" 2}")]}),
        chunk({}, finish="tool_calls"),
        DONE,
    ],
    "several whole calls in one chunk": [
        chunk(
            {
                "tool_calls": [
                    call_part(0, id="a", name="x", arguments='{"a": 1}'),
                    call_part(1, id="b", name="y", arguments='{"b": 2}'),
                ]
            }
        ),
        chunk({}, finish="tool_calls"),
        DONE,
    ],
    "the ending with the last words": [chunk({"content": "Hi"}), chunk({"content": "!"}, finish="stop"), DONE],
    "usage with the ending": [
        chunk({"content": "Hi"}),
        chunk({}, finish="stop", usage={"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}),
        DONE,
    ],
    "comments": [b": OPENROUTER PROCESSING\n\n", *EVENTS[:3], CHAT.ping(), *EVENTS[3:]],
    "CRLF": [event.replace(b"\n", b"\r\n") for event in EVENTS],
    "no space after the colon": [event.replace(b"data: ", b"data:") for event in EVENTS],
    "without a last word": EVENTS[:-1],
}


@pytest.mark.parametrize("name", AGREED)
async def test_streams_the_sdk_understands_read_the_same(name: str) -> None:
    await assert_agree(AGREED[name])


@pytest.mark.parametrize(
    "options", [{}, {"temperature": "0.3"}, {"temperature": "0.0", "context_length": "8192"}], ids=str
)
@pytest.mark.parametrize("tools", [True, False])
async def test_what_we_send_is_what_the_sdk_would_send(options: dict[str, str], tools: bool) -> None:
    request = asking(tools=tools, **options)
    form = RequestForm()
    assert await accepted_chat_by_sdk(as_json(request, form)) == msgspec.json.decode(encode(request, form))
