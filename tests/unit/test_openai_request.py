"""A request in OpenAI's dialect."""

import msgspec
import pytest
from msgspec.structs import replace

from hames.domain.ids import CallId
from hames.domain.items import Call, Picture
from hames.domain.json import Json
from hames.domain.request import (
    Block,
    CallBlock,
    Message,
    ModelRequest,
    OfferedTool,
    PictureBlock,
    ReasoningBlock,
    ResultBlock,
    SearchBlock,
    TextBlock,
)
from hames.providers.openai.request import as_json, encode
from hames.testing.checks.provider import TOOLS
from hames.testing.services.openai import OPENAI

THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
CALL = Call(id=CallId("c1"), name="shell", arguments='{"command": "ls"}')


def request(*messages: Message, model: str = "gpt-6.1-sol", **options: str) -> ModelRequest:
    return ModelRequest(model=model, messages=messages or (user(TextBlock(text="Hi")),), tools=TOOLS, options=options)


def user(*blocks: Block) -> Message:
    return Message(role="user", blocks=blocks)


def assistant(*blocks: Block) -> Message:
    return Message(role="assistant", blocks=blocks)


def sent(*messages: Message) -> list[Json]:
    body = as_json(request(*messages))
    assert OPENAI.refuses(msgspec.json.decode(msgspec.json.encode(body))) == ""
    return body["input"]


@pytest.mark.parametrize("effort", ["low", "medium", "high"])
def test_effort_reaches_a_model_that_thinks_and_no_other(effort: str) -> None:
    assert as_json(request(reasoning_effort=effort))["reasoning"] == {"summary": "auto", "effort": effort}
    assert "reasoning" not in as_json(request(model="gpt-4.1", reasoning_effort=effort))


def test_by_default_a_model_that_can_thinks() -> None:
    assert as_json(request(reasoning_effort="default"))["reasoning"] == {"summary": "auto", "effort": "medium"}
    assert as_json(request(reasoning_effort="none"))["reasoning"] == {"summary": "auto", "effort": "none"}


def test_a_tool_with_a_grammar_is_written_for_as_plain_text_and_goes_back_as_such() -> None:
    patch = OfferedTool(
        name="apply_patch",
        description="Patch",
        schema={"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]},
        grammar="start: /.+/",
    )
    called = Call(id=CallId("c1"), name="apply_patch", arguments='{"input":"*** Begin Patch"}')
    asked = ModelRequest(
        model="gpt-6.1-sol",
        messages=(
            user(TextBlock(text="Hi")),
            assistant(CallBlock(call=called)),
            user(ResultBlock(call=called, text="Done")),
        ),
        tools=(patch,),
    )
    body = as_json(asked)
    form = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    assert body["tools"] == [{"type": "custom", "name": "apply_patch", "description": "Patch", "format": form}]
    assert body["parallel_tool_calls"] is True
    assert body["input"][1:] == [
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done"},
    ]
    assert as_json(replace(asked, tools=()))["input"] == body["input"]  # whatever is offered by then
    plain = as_json(replace(asked, model="gpt-4.1"))
    assert [tool["type"] for tool in plain["tools"]] == ["function"]
    assert [item["type"] for item in plain["input"][1:]] == ["function_call", "function_call_output"]


def test_thoughts_are_asked_for_encrypted_and_nothing_is_kept_there() -> None:
    body = as_json(request())
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["store"] is False


def test_the_web_is_searched_only_when_asked_for_and_where_it_can_be() -> None:
    def kinds(body: dict[str, Json]) -> list[str]:
        return [tool["type"] for tool in body["tools"]]

    assert kinds(as_json(request())) == ["function"]
    assert kinds(as_json(request(web_search="on"))) == ["function", "web_search"]
    assert kinds(as_json(request(model="o1", web_search="on"))) == ["function"]


def test_a_reply_may_be_as_long_as_was_asked_for_and_never_too_short_to_be_taken() -> None:
    assert as_json(msgspec.structs.replace(request(), max_tokens=500))["max_output_tokens"] == 500
    assert as_json(msgspec.structs.replace(request(), max_tokens=1))["max_output_tokens"] == 16


def test_an_encrypted_thought_goes_back_where_it_was() -> None:
    history = sent(
        user(TextBlock(text="Hi")),
        assistant(ReasoningBlock(provider="openai", text="", opaque=THOUGHT), CallBlock(call=CALL)),
        user(ResultBlock(call=CALL, text="ok")),
    )
    assert [item["type"] for item in history] == ["message", "reasoning", "function_call", "function_call_output"]
    assert history[1] == THOUGHT


def test_an_interrupted_thought_stays_at_home() -> None:
    history = sent(
        user(TextBlock(text="Hi")),
        assistant(ReasoningBlock(provider="openai", text="", opaque=THOUGHT)),
        user(TextBlock(text="Go on")),
    )
    assert [item["type"] for item in history] == ["message", "message"]


def test_thoughts_and_searches_of_another_provider_stay_at_home() -> None:
    history = sent(
        user(TextBlock(text="Hi")),
        assistant(
            ReasoningBlock(provider="anthropic", text="Hm", opaque={"signature": "s"}),
            SearchBlock(provider="anthropic", opaque=[{}]),
            TextBlock(text="Yes"),
        ),
        user(TextBlock(text="Go on")),
    )
    assert [item["type"] for item in history] == ["message"] * 3


def test_without_reasoning_nothing_the_service_made_is_sent_back() -> None:
    history = (
        user(TextBlock(text="Hi")),
        assistant(ReasoningBlock(provider="openai", text="", opaque=THOUGHT), TextBlock(text="Yes")),
        user(TextBlock(text="Go on")),
    )
    assert b"encrypted_content" in encode(request(*history)).replace(b"reasoning.encrypted_content", b"")
    plain = encode(request(*history), reasoning=False)
    assert b"encrypted_content" not in plain.replace(b"reasoning.encrypted_content", b"")


def test_results_come_before_what_was_said_while_the_tool_ran() -> None:
    history = sent(
        user(TextBlock(text="Hi")),
        assistant(CallBlock(call=CALL)),
        user(TextBlock(text="And hurry"), ResultBlock(call=CALL, text="ok")),
    )
    assert [item["type"] for item in history] == ["message", "function_call", "function_call_output", "message"]


def test_ids_of_another_provider_are_put_right_and_still_pair() -> None:
    long = Call(id=CallId("x" * 100), name="no such tool", arguments="")
    odd = Call(id=CallId("functions.shell:0"), name="shell", arguments="{}")
    history = sent(
        user(TextBlock(text="Hi")),
        assistant(CallBlock(call=long), CallBlock(call=odd), CallBlock(call=odd)),
        user(ResultBlock(call=long, text="1"), ResultBlock(call=odd, text="2"), ResultBlock(call=odd, text="3")),
    )
    calls, results = history[1:4], history[4:7]
    assert [item["call_id"] for item in calls] == [item["call_id"] for item in results]
    assert len({item["call_id"] for item in calls}) == 3
    assert calls[0]["name"] == "no_such_tool"
    assert calls[0]["arguments"] == "{}"


def test_a_result_says_something_even_when_the_tool_did_not() -> None:
    history = sent(
        user(TextBlock(text="Hi")),
        assistant(CallBlock(call=CALL)),
        user(ResultBlock(call=CALL, text=" ", failed=True)),
    )
    assert history[-1]["output"] == "(failed without a message)"


def test_pictures_are_shown_and_what_cannot_be_is_said() -> None:
    png = Picture(media_type="image/png", base64="AA==")
    history = sent(
        user(
            PictureBlock(picture=png),
            PictureBlock(url="https://example.com/a.png"),
            PictureBlock(url="data:image/gif;base64,AA=="),
            PictureBlock(picture=Picture(media_type="image/tiff", base64="AA==")),
            PictureBlock(url="file:///etc/passwd"),
        )
    )
    content = history[0]["content"]
    assert [part["type"] for part in content] == ["input_image"] * 3 + ["input_text"] * 2
    assert content[0]["image_url"] == "data:image/png;base64,AA=="
    assert "passwd" not in str(content)


def test_newer_models_are_told_which_of_their_words_were_commentary() -> None:
    history = (
        user(TextBlock(text="Hi")),
        assistant(TextBlock(text="I will look."), CallBlock(call=CALL)),
        user(ResultBlock(call=CALL, text="ok")),
        assistant(TextBlock(text="Done.")),
        user(TextBlock(text="Thanks")),
    )
    phases = [item.get("phase") for item in sent(*history) if item.get("role") == "assistant"]
    assert phases == ["commentary", "final_answer"]
    older = as_json(request(*history, model="gpt-5"))["input"]
    assert all("phase" not in item for item in older)


def test_half_a_surrogate_pair_does_not_stop_the_thread() -> None:
    assert b"Hi" in encode(request(user(TextBlock(text="Hi \ud83d"))))
