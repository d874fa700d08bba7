"""Streams of chat completions as servers really send them."""

import pytest

from hames.domain.errors import ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call
from hames.domain.json import Json
from hames.domain.request import (
    ModelEvent,
    ReasoningDelta,
    ReasoningEnded,
    ReplyEnded,
    StopReason,
    TextDelta,
    TextEnded,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
)
from hames.domain.usage import Usage
from hames.providers.chat.stream import ChatStream
from hames.testing.services.chat import DONE, call_part, chunk
from hames.testing.services.outcome import Outcome, outcome


def events(*chunks: bytes) -> list[ModelEvent]:
    reply, told = ChatStream(lambda said: ProviderError(f"said: {said}")), list[ModelEvent]()
    for data in chunks:
        told += reply.feed(data)
    if not reply.ended:
        told += reply.finish()
    if reply.failure is not None:
        raise reply.failure
    return told


def read(*chunks: bytes) -> Outcome:
    return outcome(events(*chunks))


def calls(*deltas: Json, finish: str | None = "tool_calls") -> list[tuple[str, str, str]]:
    told = [chunk({"tool_calls": delta if isinstance(delta, list) else [delta]}) for delta in deltas]
    got = read(*told, *([chunk({}, finish=finish)] if finish else []), DONE)
    return [(call.id, call.name, call.arguments) for call in got.calls]


LS = ("a", "shell", '{"command": "ls"}')
PWD = ("b", "shell", '{"command": "pwd"}')


def test_fragments_of_a_call_are_joined_by_their_index() -> None:
    assert calls(
        call_part(0, id="a", name="shell"), call_part(0, arguments='{"command"'), call_part(0, arguments=': "ls"}')
    ) == [LS]


def test_whole_calls_that_are_all_number_zero_are_told_apart_by_their_ids() -> None:
    assert calls(
        call_part(0, id="a", name="shell", arguments=LS[2]), call_part(0, id="b", name="shell", arguments=PWD[2])
    ) == [LS, PWD]


def test_whole_calls_that_are_all_number_zero_and_have_no_ids_are_told_apart_by_their_names() -> None:
    got = calls(call_part(0, name="shell", arguments=LS[2]), call_part(0, name="shell", arguments=PWD[2]))
    assert [(name, arguments) for _, name, arguments in got] == [LS[1:], PWD[1:]]
    assert len({call_id for call_id, _, _ in got}) == 2


def test_a_call_without_an_index_is_known_by_its_id() -> None:
    assert calls(
        call_part(id="a", name="shell", arguments='{"command"'),
        call_part(id="b", name="shell", arguments=PWD[2]),
        call_part(id="a", arguments=': "ls"}'),
    ) == [LS, PWD]


def test_a_fragment_without_index_or_id_belongs_to_the_last_call() -> None:
    assert calls(call_part(id="a", name="shell", arguments='{"command"'), call_part(arguments=': "ls"}')) == [LS]


def test_several_calls_in_one_chunk_without_index_and_id() -> None:
    got = calls([call_part(name="shell", arguments=LS[2]), call_part(name="shell", arguments=PWD[2])])
    assert got == [("call_0", *LS[1:]), ("call_1", *PWD[1:])]


def test_a_missing_id_is_made_up_and_taken_by_nobody_else() -> None:
    got = calls(call_part(0, name="shell", arguments=LS[2]), call_part(1, id="call_0", name="shell", arguments=PWD[2]))
    assert [call_id for call_id, _, _ in got] == ["call_0_", "call_0"]


def test_arguments_may_be_an_object() -> None:
    assert calls(call_part(0, id="a", name="shell", arguments={"command": "ls"})) == [
        ("a", "shell", '{"command":"ls"}')
    ]


def test_arguments_may_be_missing() -> None:
    assert calls(call_part(0, id="a", name="now")) == [("a", "now", "{}")]
    assert calls(call_part(0, id="a", name="now", arguments=None)) == [("a", "now", "{}")]


def test_a_name_that_is_repeated_with_every_fragment_is_said_once() -> None:
    assert calls(
        call_part(0, id="a", name="shell", arguments='{"command"'),
        call_part(0, id="a", name="shell", arguments=': "ls"}'),
    ) == [LS]


def test_a_name_may_come_in_pieces() -> None:
    assert calls(call_part(0, id="a", name="sh"), call_part(0, name="ell"), call_part(0, arguments=LS[2])) == [LS]


def test_a_call_of_the_old_kind_is_a_call() -> None:
    got = read(
        chunk({"function_call": {"name": "shell", "arguments": '{"command"'}}),
        chunk({"function_call": {"arguments": ': "ls"}'}}),
        chunk({}, finish="function_call"),
        DONE,
    )
    assert [(call.name, call.arguments) for call in got.calls] == [LS[1:]]
    assert got.reason == "tools"


@pytest.mark.parametrize("word", ["stop", "tool_calls", "function_call", "tool_use", "eos", "something_new"])
def test_whoever_calls_stopped_to_call(word: str) -> None:
    got = read(chunk({"tool_calls": [call_part(0, id="a", name="now")]}), chunk({}, finish=word), DONE)
    assert (got.reason, got.word) == ("tools", word)


def test_a_call_that_ran_out_of_tokens_is_never_told() -> None:
    cut = call_part(1, id="b", name="shell", arguments='{"comm')
    assert calls(call_part(0, id="a", name="shell", arguments=LS[2]), cut, finish="length") == [LS]


def test_a_call_is_told_only_when_the_server_says_why_it_stopped() -> None:
    reply = ChatStream(lambda said: ProviderError(f"{said}"))
    told = reply.feed(chunk({"tool_calls": [call_part(0, id="a", name="shell", arguments=LS[2])]}))
    assert told == [ToolCallStarted(block=0, name="shell"), ToolCallDelta(block=0, text=LS[2])]
    reply.finish()
    assert reply.failure is not None
    assert reply.failure.retryable


def test_a_last_word_without_a_reason_ends_what_is_whole() -> None:
    assert read(chunk({"content": "Hi"}), DONE).reason == "end"
    assert calls(call_part(0, id="a", name="shell", arguments=LS[2]), finish=None) == [LS]
    assert calls(call_part(0, id="a", name="shell", arguments='{"comm'), finish=None) == []


def test_a_reason_without_a_last_word_is_an_ending() -> None:
    assert read(chunk({"content": "Hi"}), chunk({}, finish="stop")).texts == ("Hi",)


ENDINGS: list[tuple[str, StopReason]] = [
    ("stop", "end"),
    ("end_turn", "end"),
    ("eos", "end"),
    ("tool_calls", "end"),
    ("length", "max_tokens"),
    ("max_tokens", "max_tokens"),
    ("MAX_TOKENS", "max_tokens"),
    ("content_filter", "refusal"),
    ("SAFETY", "refusal"),
    ("abort", "unknown"),
]


@pytest.mark.parametrize(("word", "reason"), ENDINGS)
def test_every_word_for_an_ending(word: str, reason: StopReason) -> None:
    assert read(chunk({"content": "Hi"}), chunk({}, finish=word), DONE).reason == reason


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_come_before_words_and_know_where_they_came_from(field: str) -> None:
    told = events(
        chunk({"role": "assistant", "content": None, field: "Hm"}),
        chunk({field: ", yes", "content": ""}),
        chunk({"content": "Yes."}),
        chunk({}, finish="stop"),
        DONE,
    )
    assert told == [
        ReasoningDelta(block=0, text="Hm"),
        ReasoningDelta(block=0, text=", yes"),
        ReasoningEnded(block=0, opaque={"field": field}),
        TextDelta(block=1, text="Yes."),
        TextEnded(block=1),
        ReplyEnded(reason="end", word="stop"),
    ]


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_a_thought_between_tags_is_a_thought(size: int) -> None:
    said = "\n<think>\nHm, 1 < 2 </thin? yes</think>\n\nYes, <think> is a tag."
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    got = read(*(chunk({"content": piece}) for piece in pieces), chunk({}, finish="stop"), DONE)
    assert got.thoughts == ("Hm, 1 < 2 </thin? yes",)
    assert got.texts == ("Yes, <think> is a tag.",)
    assert got.opaques == (None,), "nobody wants it back"


@pytest.mark.parametrize("said", ["<thin", "<", "\n", "<b>bold</b>", "I <think> so</think>"])
def test_what_only_looks_like_a_tag_is_said_as_it_is(said: str) -> None:
    assert read(*(chunk({"content": piece}) for piece in said), chunk({}, finish="stop"), DONE).texts == (said,)


def test_a_thought_between_tags_that_never_ends_is_still_one() -> None:
    got = read(chunk({"content": "<think>Hm"}), chunk({"content": " </th"}), chunk({}, finish="length"), DONE)
    assert (got.thoughts, got.texts) == (("Hm </th",), ())


def test_a_call_after_a_thought_between_tags() -> None:
    got = read(
        chunk({"content": "<think>Hm"}),
        chunk({"tool_calls": [call_part(0, id="a", name="now")]}),
        chunk({}, finish="tool_calls"),
        DONE,
    )
    assert (got.thoughts, len(got.calls)) == (("Hm",), 1)


def test_a_server_that_tells_thoughts_apart_itself_may_speak_of_tags() -> None:
    got = read(chunk({"reasoning": "Hm"}), chunk({"content": "<think>x</think>"}), chunk({}, finish="stop"), DONE)
    assert (got.thoughts, got.texts) == (("Hm",), ("<think>x</think>",))


def test_details_of_a_thought_are_joined_and_kept_with_it() -> None:
    """As OpenRouter sends them: in pieces, signed late, and encrypted when the calls come."""
    told = events(
        chunk({"reasoning": "Hm", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm"}]}),
        chunk({"reasoning": ", yes", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": ", yes"}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": None, "signature": "s"}]}),
        chunk({"content": "Yes."}),
        chunk(
            {
                "tool_calls": [call_part(0, id="a", name="now")],
                "reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "e", "id": "a"}],
            }
        ),
        chunk({}, finish="tool_calls"),
        DONE,
    )
    assert outcome(told).thoughts == ("Hm, yes",)
    (ended,) = (event for event in told if isinstance(event, ReasoningEnded))
    assert ended.opaque == {
        "field": "reasoning",
        "details": [
            {"type": "reasoning.text", "index": 0, "text": "Hm, yes", "signature": "s"},
            {"type": "reasoning.encrypted", "index": 1, "data": "e", "id": "a"},
        ],
    }


def test_details_without_a_word_are_a_thought_that_shows_nothing() -> None:
    encrypted = {"type": "reasoning.encrypted", "data": "e"}
    told = events(chunk({"content": "Hi", "reasoning_details": [encrypted]}), chunk({}, finish="stop"), DONE)
    (ended,) = (event for event in told if isinstance(event, ReasoningEnded))
    assert ended.opaque == {"details": [encrypted]}
    outcome(told)


def test_a_server_that_says_a_thought_twice_is_heard_once() -> None:
    got = read(chunk({"reasoning_content": "Hm", "reasoning": "Hm"}), chunk({}, finish="stop"), DONE)
    assert got.thoughts == ("Hm",)


def test_a_refusal_in_words_is_a_refusal() -> None:
    got = read(chunk({"refusal": "I can't."}), chunk({}, finish="stop"), DONE)
    assert (got.texts, got.reason) == (("I can't.",), "refusal")


def test_content_may_come_in_parts() -> None:
    assert read(chunk({"content": [{"type": "text", "text": "Hi"}]}), chunk({}, finish="stop"), DONE).texts == ("Hi",)


def test_a_whole_message_in_one_chunk_is_read_like_a_delta() -> None:
    whole = b'data: {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'
    assert read(whole, DONE).texts == ("Hi",)


def test_usage_is_counted_wherever_it_stands_and_the_last_one_counts() -> None:
    got = read(
        chunk({"content": "Hi"}, usage={"prompt_tokens": 9, "completion_tokens": 1}),
        chunk({}, finish="stop", usage=None),
        chunk(usage={"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}),
        DONE,
    )
    assert got.usage == Usage(input_tokens=5, output_tokens=5, cache_read_tokens=4)


def test_usage_that_makes_no_sense_is_no_usage() -> None:
    got = read(chunk({"content": "Hi"}, usage="lots"), chunk({}, finish="stop"), DONE)
    assert got.usage is None
    negative = read(chunk({"content": "Hi"}, usage={"prompt_tokens": -3}), chunk({}, finish="stop"), DONE)
    assert negative.usage == Usage()


@pytest.mark.parametrize(
    "error",
    [
        b'data: {"error": {"message": "broken", "code": 500}}\n\n',
        b'data: {"error": "broken"}\n\n',
        b'data: {"object": "error", "message": "broken", "code": 400}\n\n',
        b'event: error\ndata: {"error": {"message": "broken"}}\n\n',
        b'data: {"error": {"message": "broken"}, "choices": [{"delta": {}, "finish_reason": "error"}]}\n\n',
    ],
)
def test_an_error_inside_the_stream_is_a_failure(error: bytes) -> None:
    with pytest.raises(ProviderError, match="broken"):
        read(chunk({"content": "Half an ans"}), error)


def test_what_came_before_a_failure_in_the_same_bytes_is_told() -> None:
    reply = ChatStream(lambda said: ProviderError(f"{said}"))
    told = reply.feed(chunk({"content": "Half"}) + b'data: {"error": "gone"}\n\n')
    assert told == [TextDelta(block=0, text="Half")]
    assert reply.failure is not None


@pytest.mark.parametrize("data", [b"data: {\n\n", b"data: []\n\n", b'data: {"choices": 3}\n\n', b"data: <html>\n\n"])
def test_a_stream_nobody_can_read_is_a_failure_worth_another_try(data: bytes) -> None:
    with pytest.raises(ProviderError, match="cannot be read") as error:
        read(data)
    assert error.value.retryable


def test_half_a_surrogate_pair_is_mended() -> None:
    got = read(b'data: {"choices": [{"delta": {"content": "x\\ud83d"}}]}\n\n', chunk({}, finish="stop"), DONE)
    assert got.texts == ("x\ufffd",)


def test_answers_beside_the_first_are_not_heard() -> None:
    other = (
        b'data: {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}\n\n'
    )
    assert read(other, chunk({}, finish="stop"), DONE).texts == ("yes",)


def test_nothing_is_no_answer() -> None:
    for stream in ([], [DONE], [b": hello\n\n"]):
        with pytest.raises(ProviderError, match="empty"):
            read(*stream)


def test_calls_keep_the_order_they_were_made_in() -> None:
    told = events(
        chunk({"tool_calls": [call_part(1, id="b", name="y")]}),
        chunk({"tool_calls": [call_part(0, id="a", name="x")]}),
        chunk({}, finish="tool_calls"),
        DONE,
    )
    made = [event.call for event in told if isinstance(event, ToolCallEnded)]
    assert made == [
        Call(id=CallId("b"), name="y", arguments="{}"),
        Call(id=CallId("a"), name="x", arguments="{}"),
    ]
