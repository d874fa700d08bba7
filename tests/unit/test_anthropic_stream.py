"""What a reply of Anthropic's means, byte by byte, well-formed or not."""

import msgspec
import pytest

from hames.domain.errors import ProviderError
from hames.domain.json import Json
from hames.domain.request import (
    ModelEvent,
    ProviderNotice,
    ReasoningDelta,
    ReasoningEnded,
    ReplyEnded,
    SearchEnded,
    SearchStarted,
    StopReason,
    TextDelta,
    TextEnded,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageSeen,
)
from hames.domain.usage import Usage
from hames.providers.anthropic.stream import AnthropicStream
from hames.testing.checks.provider import FULL, assert_same, expected
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
from hames.testing.services.outcome import outcome

TEXT = {"type": "text", "text": ""}
END = (message_delta("end_turn"), message_stop())


def tool(index: int, call_id: str = "t1", name: str = "shell") -> bytes:
    return block_start(index, {"type": "tool_use", "id": call_id, "name": name, "input": {}})


def stream() -> AnthropicStream:
    return AnthropicStream(lambda said: ProviderError(f"the service said {said}", retryable=True))


def told(*chunks: bytes) -> tuple[list[ModelEvent], AnthropicStream]:
    reply = stream()
    events = [event for chunk in chunks for event in reply.feed(chunk)]
    if not reply.ended and reply.failure is None:
        events += reply.finish()
    return events, reply


def read(*chunks: bytes) -> list[ModelEvent]:
    events, reply = told(*chunks)
    assert reply.failure is None, reply.failure
    return events


def failure(*chunks: bytes) -> ProviderError:
    reply = told(*chunks)[1]
    assert reply.failure is not None
    return reply.failure


def calls(events: list[ModelEvent]) -> list[str]:
    return [event.call.arguments for event in events if isinstance(event, ToolCallEnded)]


@pytest.mark.spec("core/loop-parses-text-and-tool-use")
def test_a_reply_split_at_every_byte_reads_the_same() -> None:
    data = b"".join(ANTHROPIC.events(FULL))
    for cut in range(1, len(data)):
        assert_same(outcome(read(data[:cut], data[cut:])), expected(FULL))


@pytest.mark.spec("core/stream-incremental")
def test_text_is_told_as_it_comes_and_what_came_together_is_told_together() -> None:
    reply = stream()
    reply.feed(message_start() + block_start(0, TEXT))
    assert reply.feed(text_delta(0, "Hel")) == [TextDelta(block=0, text="Hel")]
    assert reply.feed(text_delta(0, "lo") + text_delta(0, " wor") + text_delta(0, "ld")) == [
        TextDelta(block=0, text="lo world")
    ]
    assert reply.feed(block_stop(0)) == [TextEnded(block=0)]


def test_deltas_of_two_blocks_are_never_told_together() -> None:
    events = read(
        message_start()
        + block_start(0, TEXT)
        + block_start(1, TEXT)
        + text_delta(0, "a")
        + text_delta(1, "b")
        + text_delta(0, "c")
        + b"".join(END)
    )
    assert [e for e in events if isinstance(e, TextDelta)] == [
        TextDelta(block=0, text="a"),
        TextDelta(block=1, text="b"),
        TextDelta(block=0, text="c"),
    ]


def test_thinking_keeps_its_signature_and_redacted_thinking_its_data() -> None:
    events = read(
        message_start(),
        block_start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        block_delta(0, {"type": "thinking_delta", "thinking": "Hm"}),
        block_delta(0, {"type": "signature_delta", "signature": "sig"}),
        block_stop(0),
        block_start(1, {"type": "redacted_thinking", "data": "secret"}),
        block_stop(1),
        *END,
    )
    assert ReasoningDelta(block=0, text="Hm") in events
    assert [e for e in events if isinstance(e, ReasoningEnded)] == [
        ReasoningEnded(block=0, opaque={"signature": "sig"}),
        ReasoningEnded(block=1, opaque={"redacted": "secret"}),
    ]


def test_a_call_is_shown_early_and_told_whole() -> None:
    events = read(
        message_start(),
        tool(0),
        input_delta(0, '{"a"'),
        input_delta(0, ": 1}"),
        block_stop(0),
        message_delta("tool_use"),
    )
    assert [type(e) for e in events if not isinstance(e, UsageSeen)] == [
        ToolCallStarted,
        ToolCallDelta,
        ToolCallDelta,
        ToolCallEnded,
        ReplyEnded,
    ]
    assert calls(events) == ['{"a": 1}']


@pytest.mark.parametrize("word", ["max_tokens", "model_context_window_exceeded", "refusal"])
@pytest.mark.parametrize("said", ['{"command": "rm -rf /tmp/x', "", '{"command": "ls"}, '])
def test_a_call_cut_short_is_never_told_though_its_block_was_closed(word: str, said: str) -> None:
    events = read(
        message_start(),
        tool(0, "t1"),
        input_delta(0, '{"command": "true"}'),
        block_stop(0),
        tool(1, "t2"),
        input_delta(1, ""),
        input_delta(1, said),
        block_stop(1),
        message_delta(word),
        message_stop(),
    )
    assert calls(events) == ['{"command": "true"}']


def test_a_whole_call_before_the_tokens_ran_out_is_told() -> None:
    events = read(
        message_start(),
        tool(0),
        input_delta(0, ""),
        block_stop(0),
        block_start(1, TEXT),
        text_delta(1, "and th"),
        block_stop(1),
        message_delta("max_tokens"),
        message_stop(),
    )
    assert calls(events) == ["{}"]


@pytest.mark.parametrize("word", ["tool_use", "end_turn", None])
def test_a_last_call_that_is_not_json_is_told_when_nothing_was_cut(word: str | None) -> None:
    events = read(
        message_start(), tool(0), input_delta(0, '{"a": '), block_stop(0), message_delta(word), message_stop()
    )
    assert calls(events) == ['{"a": ']


def test_a_call_that_is_not_json_is_the_models_own_and_told_in_its_place() -> None:
    events = read(
        message_start(),
        tool(0, "t1"),
        input_delta(0, '{"a": '),
        block_stop(0),
        tool(1, "t2"),
        input_delta(1, "[1]"),
        block_stop(1),
        message_delta("tool_use"),
        message_stop(),
    )
    assert calls(events) == ['{"a": ', "[1]"]


def test_a_block_that_never_stopped_ends_with_the_reply_and_a_call_does_not() -> None:
    events = read(message_start(), block_start(0, TEXT), text_delta(0, "Hi"), tool(1), input_delta(1, "{}"), *END)
    assert TextEnded(block=0) in events
    assert calls(events) == []


def test_a_stream_that_breaks_inside_a_call_tells_no_call() -> None:
    events, reply = told(message_start(), tool(0), input_delta(0, "{}"))
    assert calls(events) == []
    assert reply.failure is not None
    assert (reply.failure.retryable, reply.failure.info) == (True, "ResponseStreamDisconnected")


def test_a_block_begun_twice_is_two_blocks_and_the_half_call_is_dropped() -> None:
    events = read(
        message_start(),
        tool(0, "t1"),
        input_delta(0, '{"a": 1}'),
        tool(0, "t2"),
        input_delta(0, '{"b": 2}'),
        block_stop(0),
        block_start(0, TEXT),
        text_delta(0, "x"),
        block_start(0, TEXT),
        text_delta(0, "y"),
        block_stop(0),
        *END,
    )
    assert calls(events) == ['{"b": 2}']
    assert outcome(events).texts == ("x", "y")


def test_deltas_and_stops_for_blocks_that_are_not_there_change_nothing() -> None:
    events = read(
        message_start(),
        text_delta(3, "lost"),
        block_stop(9),
        block_start(0, TEXT),
        text_delta(0, "x"),
        block_stop(0),
        text_delta(0, "late"),
        block_stop(0),
        *END,
    )
    assert outcome(events).texts == ("x",)


def test_new_kinds_of_events_blocks_and_deltas_are_passed_over() -> None:
    events = read(
        message_start(),
        sse({"type": "weather_report", "index": "everywhere"}),
        block_start(0, {"type": "hologram", "data": 1}),
        block_delta(0, {"type": "hologram_delta", "points": []}),
        block_stop(0),
        block_start(1, TEXT),
        text_delta(1, "x"),
        block_stop(1),
        *END,
    )
    assert outcome(events).texts == ("x",)


def test_a_second_start_does_not_begin_the_count_anew() -> None:
    events = read(message_start(Usage(input_tokens=5)), message_start(Usage(input_tokens=9)), *END)
    assert outcome(events).usage == Usage(input_tokens=5, output_tokens=7)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("tool_use", "tools"),
        ("max_tokens", "max_tokens"),
        ("pause_turn", "pause"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "context_exceeded"),
        ("because", "unknown"),
        (None, "unknown"),
    ],
)
def test_every_stop_reason_has_a_meaning(word: str | None, reason: StopReason) -> None:
    assert read(message_start(), message_delta(word), message_stop())[-1] == ReplyEnded(reason=reason, word=word or "")


def test_a_refusal_is_explained() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "This looks like an exploit."}
    events = read(message_start(), message_delta("refusal", stop_details=details), message_stop())
    notice = ProviderNotice(name="refusal", message="This looks like an exploit.", data={"category": "cyber"})
    assert events[-3:] == [notice, UsageSeen(usage=Usage(input_tokens=12, output_tokens=7)), events[-1]]


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"input_tokens": -5, "output_tokens": -1}, Usage()),
        ({"input_tokens": "many", "output_tokens": 2.5}, Usage()),
        (
            {"output_tokens": 3, "output_tokens_details": {"thinking_tokens": 2}},
            Usage(output_tokens=3, thinking_tokens=2),
        ),
        (
            {"input_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 3, "output_tokens": 4},
            Usage(input_tokens=1, cache_read_tokens=2, cache_write_tokens=3, output_tokens=4),
        ),
    ],
)
def test_usage_is_counted_whatever_it_looks_like(usage: Json, counted: Usage) -> None:
    start = sse({"type": "message_start", "message": {"usage": {"input_tokens": 0}}})
    assert outcome(read(start, message_delta("end_turn", usage), message_stop())).usage == counted


def test_usage_may_be_missing() -> None:
    start = sse({"type": "message_start", "message": {}})
    stop = sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    assert outcome(read(start, stop, message_stop())).usage is None


@pytest.mark.parametrize(
    "data",
    [
        b"data: {not json}\n\n",
        b'data: {"type": "content_block_delta", "index": "zero", "delta": {"type": "text_delta", "text": "x"}}\n\n',
        b'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}\n\n',
        b'data: {"type": "content_block_start", "index": 0, "content_block": "text"}\n\n',
        b"data: [1, 2]\n\n",
        b'data: "text"\n\n',
        b'data: {"type": "message_start", "message": {"x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}}\n\n",
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff"}}\n\n',
        b"data: " + b"x" * (11 * 1024 * 1024),
    ],
    ids=["not json", "wrong type", "missing", "no block", "list", "string", "deep", "not utf-8", "10 MB line"],
)
def test_a_stream_that_makes_no_sense_is_a_failure_that_may_pass(data: bytes) -> None:
    error = failure(message_start(), block_start(0, TEXT), data, *END)
    assert error.retryable
    assert error.info == "ResponseStreamDisconnected"


def test_what_came_before_a_failure_in_the_same_chunk_is_not_lost() -> None:
    events, reply = told(message_start() + block_start(0, TEXT) + text_delta(0, "half") + ANTHROPIC.broken())
    assert TextDelta(block=0, text="half") in events
    assert reply.failure is not None
    assert "overloaded_error" in str(reply.failure)


def test_nothing_is_read_after_the_end() -> None:
    events = read(message_start() + b"".join(END) + b"data: {not json}\n\n")
    assert isinstance(events[-1], ReplyEnded)


def test_an_empty_stream_is_a_failure() -> None:
    assert "empty" in str(failure())
    assert "empty" in str(failure(b": nothing\n\n", ANTHROPIC.ping()))


def test_half_an_event_at_the_end_is_not_read() -> None:
    error = failure(message_start(), block_start(0, TEXT), text_delta(0, "lost")[:-20])
    assert "ended before the answer did" in str(error)


def test_a_gateway_may_close_with_done() -> None:
    assert read(message_start(), *END[:1], b"data: [DONE]\n\n")[-1] == ReplyEnded(reason="end", word="end_turn")


def test_events_need_no_name() -> None:
    plain = [event.partition(b"\n")[2] for event in ANTHROPIC.events(FULL)]
    assert_same(outcome(read(*plain)), expected(FULL))


def test_half_a_surrogate_pair_does_not_end_the_answer() -> None:
    half = text_delta(0, "TEXT").replace(b"TEXT", b"a\\ud83d \\ud83d\\ude00")
    assert outcome(read(message_start(), block_start(0, TEXT), half, block_stop(0), *END)).texts == ("a� 😀",)


SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND = [{"type": "web_search_result", "url": "https://example.com", "title": "T", "encrypted_content": "e"}]


def searched(content: Json) -> list[bytes]:
    return [
        message_start(),
        block_start(0, SEARCH),
        input_delta(0, '{"query": "hames"}'),
        block_stop(0),
        block_start(1, {"type": "web_search_tool_result", "tool_use_id": "s1", "content": content}),
        block_stop(1),
        *END,
    ]


def test_a_web_search_is_told_with_what_the_service_wants_back() -> None:
    events = read(*searched(FOUND))
    assert SearchStarted(block=0, query="hames") in events
    ended = next(e for e in events if isinstance(e, SearchEnded))
    use, result = ended.opaque
    assert (ended.block, ended.query, ended.failed) == (0, "hames", False)
    assert use == {**SEARCH, "input": {"query": "hames"}}
    assert result == {"type": "web_search_tool_result", "tool_use_id": "s1", "content": FOUND}


def test_a_web_search_that_found_nothing_says_so() -> None:
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    assert next(e for e in read(*searched(error)) if isinstance(e, SearchEnded)).failed


@pytest.mark.parametrize(("word", "kept"), [("pause_turn", True), ("end_turn", False)])
def test_an_unfinished_search_is_kept_only_for_a_service_that_will_go_on(word: str, kept: bool) -> None:
    events = read(*searched(FOUND)[:4], message_delta(word), message_stop())
    ended = next(e for e in events if isinstance(e, SearchEnded))
    assert (ended.opaque is not None, ended.failed) == (kept, not kept)


def test_tools_of_the_service_that_nobody_asked_for_are_passed_over() -> None:
    other = {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {}}
    events = read(message_start(), block_start(0, other), input_delta(0, '{"code": "1"}'), block_stop(0), *END)
    assert [type(e) for e in events] == [UsageSeen, UsageSeen, ReplyEnded]


def test_pings_are_no_sign_of_life_and_everything_else_is() -> None:
    reply = stream()
    reply.feed(message_start())
    before = reply.progress
    reply.feed(ANTHROPIC.ping() * 5 + b": comment\n\n")
    assert reply.progress == before
    reply.feed(block_start(0, {"type": "thinking", "thinking": "", "signature": ""}))
    assert reply.progress == before + 1


def test_arguments_are_kept_as_the_model_wrote_them() -> None:
    written = '{ "n": 1.50,\n "big": 123456789012345678901234567890 }'
    events = read(
        message_start(), tool(0), input_delta(0, written), block_stop(0), message_delta("tool_use"), message_stop()
    )
    assert calls(events) == [written]
    assert msgspec.json.decode(written)
