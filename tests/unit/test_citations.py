"""One answer is one message, and what it cites is data: from the services' streams to every protocol."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from hames.domain.errors import ProviderError
from hames.domain.events import ItemCompleted
from hames.domain.items import AgentMessage, Citation
from hames.domain.json import Json
from hames.domain.request import ModelEvent, SearchEnded, SearchStarted, TextDelta, TextEnded
from hames.protocols.bootstrap import items as bootstrap
from hames.protocols.flint.dialect import About, FlintDialect
from hames.protocols.sse import outbound as sse
from hames.protocols.sync.view import Offer, view
from hames.providers.anthropic.stream import AnthropicStream
from hames.providers.chat.stream import ChatStream
from hames.providers.openai.stream import OpenAIStream
from hames.providers.reply_stream import ReplyStream
from hames.testing.fakes.model import OneModel, ScriptedModel, Step, fail, say, tell, think
from support import created, engine, events, whole_turn

SOURCE = Citation(url="https://a.example", title="A", quote="fast", end=4)


async def test_text_blocks_of_one_reply_are_one_message_with_its_citations() -> None:
    model = ScriptedModel(
        [
            tell(TextDelta(block=0, text="Python ")),
            tell(TextEnded(block=0)),
            tell(TextDelta(block=1, text="3.15")),
            tell(TextEnded(block=1, citations=(SOURCE,))),
            tell(TextDelta(block=2, text=" is out, and fast")),
            tell(TextEnded(block=2, citations=(replace(SOURCE, start=13, end=99),))),
        ]
    )
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    (message,) = changes[-1].after.turns[-1].items[1:]
    assert isinstance(message, AgentMessage)
    assert message.text == "Python 3.15 is out, and fast"
    assert message.status == "completed"
    assert [message.text[cited.start : cited.end] for cited in message.citations] == ["3.15", "fast"]
    completed = [event.item for event in events(changes) if isinstance(event, ItemCompleted)]
    assert [item.id for item in completed].count(message.id) == 1


@pytest.mark.parametrize(
    "between",
    [
        [think("hm")],
        [tell(SearchStarted(block=7, query="q")), tell(SearchEnded(block=7, query="q"))],
        [tell(TextDelta(block=7, text="whole")), tell(TextEnded(block=7, whole=True))],
    ],
)
async def test_what_comes_between_two_texts_keeps_them_apart(between: list[Step]) -> None:
    last = [tell(TextDelta(block=9, text="last")), tell(TextEnded(block=9))]
    model = ScriptedModel([tell(TextDelta(block=5, text="first ")), tell(TextEnded(block=5)), *between, *last])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    said = [item.text for item in changes[-1].after.turns[-1].items if isinstance(item, AgentMessage)]
    assert said in (["first ", "last"], ["first whole", "last"])


async def test_a_message_that_breaks_off_keeps_the_citations_it_had() -> None:
    model = ScriptedModel(
        [
            tell(TextDelta(block=0, text="fast")),
            tell(TextEnded(block=0, citations=(SOURCE,))),
            say(" and", cut=True),
            fail("gone"),
        ]
    )
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    message = changes[-1].after.turns[-1].items[1]
    assert isinstance(message, AgentMessage)
    assert (message.text, message.citations) == ("fast and", (SOURCE,))


def read(stream: ReplyStream, *told: Json) -> list[tuple[str, tuple[Citation, ...]]]:
    """The text of each block, and its citations."""
    found: list[ModelEvent] = []
    for data in told:
        found += stream.feed(f"data: {json.dumps(data)}\n\n".encode())
    found += stream.finish()
    assert stream.failure is None, stream.failure
    texts: dict[int, str] = {}
    for event in found:
        if isinstance(event, TextDelta):
            texts[event.block] = texts.get(event.block, "") + event.text
    return [(texts[event.block], event.citations) for event in found if isinstance(event, TextEnded)]


def error(said: Json) -> ProviderError:
    return ProviderError(str(said))


def test_citations_of_claude_are_read() -> None:
    page = {"type": "web_search_result_location", "url": "https://a.example", "title": "A", "cited_text": "It is out."}
    result = {"type": "search_result_location", "source": "doc/1", "title": None, "cited_text": "x"}
    document = {"type": "char_location", "document_title": "D", "cited_text": "y", "document_index": 0}
    blocks = read(
        AnthropicStream(error),
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Python "}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "", "citations": []}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": page}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "3.15 is"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": result}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": " out"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": document}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": "nonsense"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
    assert blocks == [
        ("Python ", ()),
        (
            "3.15 is out",
            (
                Citation(url="https://a.example", title="A", quote="It is out.", end=11),
                Citation(url="doc/1", quote="x", end=11),
                Citation(title="D", quote="y", end=11),
            ),
        ),
    ]


def test_url_citations_of_openai_are_read() -> None:
    note = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 2, "end_index": 6}
    other = {"type": "file_citation", "file_id": "f", "index": 1}
    content = [
        {"type": "output_text", "text": "First. ", "annotations": []},
        {"type": "output_text", "text": "A 3.15 is out", "annotations": [note, other, None]},
    ]
    item = {"type": "message", "id": "m", "content": content}
    blocks = read(
        OpenAIStream(error),
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "content": []}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "First. A 3.15 is out"},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"status": "completed", "output": [item]}},
    )
    ((text, (cited,)),) = blocks
    assert (cited.url, cited.title, text[cited.start : cited.end]) == ("https://a.example", "A", "3.15")


def test_url_citations_of_chat_completions_are_read() -> None:
    note = {
        "type": "url_citation",
        "url_citation": {"url": "https://a.example", "title": "A", "content": "out", "start_index": 0, "end_index": 4},
    }
    blocks = read(
        ChatStream(error),
        {"choices": [{"delta": {"content": "3.15 is out"}}]},
        {"choices": [{"delta": {"annotations": [note]}, "finish_reason": "stop"}]},
    )
    assert blocks == [("3.15 is out", (Citation(url="https://a.example", title="A", quote="out", end=4),))]


def as_json(value: object) -> Json:
    return msgspec.json.decode(msgspec.json.encode(value))


async def test_every_protocol_shows_one_message_with_its_sources() -> None:
    pieces = (("Python ", ()), ("3.15", (SOURCE,)), (" is out", ()))
    steps = [
        step
        for block, (text, cited) in enumerate(pieces)
        for step in (tell(TextDelta(block=block, text=text)), tell(TextEnded(block=block, citations=cited)))
    ]
    async with engine(ScriptedModel(steps)) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    state = changes[-1].after
    source = {"url": "https://a.example", "title": "A", "quote": "fast", "start": 7, "end": 11}

    dialect = FlintDialect(About(version="1", provider="p", home="/h"), lambda _: None)
    flint = [as_json(dialect.item(item)) for item in state.turns[-1].items]
    assert [item["text"] for item in flint if item["type"] == "agentMessage"] == ["Python 3.15 is out"]
    assert flint[-1]["citations"] == [source]

    assistant = [
        message
        for message in as_json(view(state, Offer(models=OneModel(ScriptedModel()))))["messages"]
        if message["role"] == "assistant"
    ]
    assert [(message["content"], message["citations"]) for message in assistant] == [("Python 3.15 is out", [source])]

    told = [as_json(event) for change in changes for event in sse.project(change)]
    assert [(event["content"], event["citations"]) for event in told if event["type"] == "text"] == [
        ("Python 3.15 is out", [source])
    ]

    shown = as_json(bootstrap.item(thread.id, state.turns[-1].id, state.turns[-1].items[-1]))
    assert (shown["data"]["text"], shown["data"]["citations"]) == ("Python 3.15 is out", [source])
