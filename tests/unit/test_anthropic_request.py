"""What we send to Anthropic: valid after anything, and saying what was chosen."""

from collections.abc import Sequence

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
from hames.providers.anthropic.request import encode
from hames.testing.services.anthropic import ANTHROPIC

PICTURE = Picture(media_type="image/png", base64="AA==")
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
SHELL = OfferedTool(name="shell", description="Run a command", schema=SCHEMA)
READ = OfferedTool(name="read", description="Read a file", schema=SCHEMA)


def call(call_id: str = "t1", arguments: str = '{"command": "ls"}') -> Call:
    return Call(id=CallId(call_id), name="shell", arguments=arguments)


def user(*blocks: Block | str) -> Message:
    return Message(role="user", blocks=tuple(TextBlock(text=b) if isinstance(b, str) else b for b in blocks))


def assistant(*blocks: Block | str) -> Message:
    return Message(role="assistant", blocks=tuple(TextBlock(text=b) if isinstance(b, str) else b for b in blocks))


def result(of: Call, text: str = "ok", *, failed: bool = False) -> ResultBlock:
    return ResultBlock(call=of, text=text, failed=failed)


def thought(text: str = "Hm", opaque: Json = None, provider: str = "anthropic") -> ReasoningBlock:
    return ReasoningBlock(provider=provider, text=text, opaque=opaque or {"signature": "s"})


def sent(
    *messages: Message,
    model: str = "claude-sonnet-5-5",
    tools: Sequence[OfferedTool] = (),
    system: str = "",
    max_tokens: int = 4096,
    reasoning: bool = True,
    **options: str,
) -> dict[str, Json]:
    request = ModelRequest(
        model=model,
        messages=messages or (user("Hi"),),
        tools=tuple(tools),
        system=system,
        max_tokens=max_tokens,
        options=options,
    )
    body = msgspec.json.decode(encode(request, reasoning=reasoning))
    assert ANTHROPIC.refuses(body) == ""
    return body


def contents(body: dict[str, Json]) -> list[list[Json]]:
    return [
        [{name: value for name, value in block.items() if name != "cache_control"} for block in message["content"]]
        for message in body["messages"]
    ]


@pytest.mark.spec("core/registration-name", "core/registration-description", "core/registration-input-schema")
def test_a_tool_is_declared_by_name_description_and_schema() -> None:
    (tool,) = sent(tools=[SHELL])["tools"]
    assert (tool["name"], tool["description"], tool["input_schema"]) == ("shell", "Run a command", SCHEMA)


@pytest.mark.spec("core/tool-choice-auto", "core/tool-choice-fixed")
def test_the_model_decides_whether_to_use_tools_and_no_option_changes_that() -> None:
    assert sent(tools=[SHELL])["tool_choice"] == {"type": "auto"}
    assert sent(tools=[SHELL], tool_choice="any")["tool_choice"] == {"type": "auto"}
    assert "tool_choice" not in sent()


def test_what_the_service_refuses_is_never_sent() -> None:
    body = sent(tools=[SHELL], system="Be brief.", temperature="0.3", top_p="1", top_k="4")
    assert not body.keys() & {"temperature", "top_p", "top_k"}


def test_the_plain_request_says_the_plain_things() -> None:
    body = sent(user("Hi"), system="Be brief.", max_tokens=77)
    assert (body["model"], body["max_tokens"], body["stream"]) == ("claude-sonnet-5-5", 77, True)
    assert body["system"][0]["text"] == "Be brief."
    assert contents(body) == [[{"type": "text", "text": "Hi"}]]


@pytest.mark.parametrize("empty", ["", " ", "\n\t"])
def test_empty_text_is_left_out_and_so_is_a_message_of_nothing_else(empty: str) -> None:
    body = sent(user("Hi"), assistant(empty), user(empty, "still there?"), system=empty)
    assert contents(body) == [[{"type": "text", "text": "Hi"}], [{"type": "text", "text": "still there?"}]]
    assert "system" not in body


def test_thoughts_go_back_as_they_came_and_only_to_who_had_them() -> None:
    body = sent(
        user("Hi"),
        assistant(
            thought("Mine", {"signature": "abc"}),
            thought("", {"redacted": "xyz"}),
            thought("", {"signature": "left out"}),
            thought("Theirs", {"encrypted": "…"}, provider="openai"),
            thought("Cut", {"half": True}),
            "Hello",
        ),
        user("Go on"),
    )
    assert contents(body)[1] == [
        {"type": "thinking", "thinking": "Mine", "signature": "abc"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "thinking", "thinking": "", "signature": "left out"},
        {"type": "text", "text": "Hello"},
    ]


def test_a_message_does_not_end_with_a_thought() -> None:
    body = sent(user("Hi"), assistant("Well", thought(), thought()), user("Yes?"), assistant(thought()), user("And?"))
    assert [[block["type"] for block in content] for content in contents(body)] == [
        ["text"],
        ["text"],
        ["text"],
        ["text"],
    ]


def test_thoughts_stay_at_home_when_the_service_will_not_have_them() -> None:
    body = sent(user("Hi"), assistant(thought(), "Hello"), user("Go on"), reasoning=False)
    assert contents(body)[1] == [{"type": "text", "text": "Hello"}]


def test_a_search_goes_back_only_to_the_service_that_made_it() -> None:
    pair = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result"},
    ]
    body = sent(
        user("Hi"),
        assistant(SearchBlock(provider="anthropic", opaque=pair), SearchBlock(provider="openai", opaque=["x"]), "So"),
        user("Go on"),
    )
    assert contents(body)[1] == [*pair, {"type": "text", "text": "So"}]


@pytest.mark.parametrize("arguments", ["", "null", "[1]", '"x"', "{", '{"a": 1', "nonsense", "{}{}"])
def test_arguments_that_are_no_object_are_sent_as_an_empty_one(arguments: str) -> None:
    made = call(arguments=arguments)
    assert contents(sent(user("Hi"), assistant(CallBlock(call=made)), user(result(made))))[1][0]["input"] == {}


def test_arguments_are_sent_as_the_model_wrote_them() -> None:
    made = call(arguments='{ "n": 1.50, "a": "\\u00e4" }')
    request = ModelRequest(model="m", messages=(user("Hi"), assistant(CallBlock(call=made)), user(result(made))))
    assert b'{ "n": 1.50, "a": "\\u00e4" }' in encode(request)


def test_call_ids_of_other_services_are_put_into_this_ones_alphabet() -> None:
    first, second, third = call("call.1|é"), call("call.1|è"), call("")
    body = sent(
        user("Hi"),
        assistant(CallBlock(call=first), CallBlock(call=second), CallBlock(call=third)),
        user(result(first, "1"), result(second, "2"), result(third, "3")),
    )
    used = [block["id"] for block in contents(body)[1]]
    assert used == ["call_1__", "call_1___2", "call"]
    assert [(block["tool_use_id"], block["content"]) for block in contents(body)[2]] == list(
        zip(used, "123", strict=True)
    )


def test_a_call_id_used_again_later_or_twice_at_once_is_told_apart() -> None:
    made = call("t1")
    body = sent(
        user("Hi"),
        assistant(CallBlock(call=made), CallBlock(call=made)),
        user(result(made, "1"), result(made, "2")),
        assistant(CallBlock(call=made)),
        user(result(made, "3")),
    )
    asked = [block["id"] for content in contents(body) for block in content if block["type"] == "tool_use"]
    answered = [
        block["tool_use_id"] for content in contents(body) for block in content if block["type"] == "tool_result"
    ]
    assert asked == answered == ["t1", "t1_2", "t1_3"]


def test_results_come_before_what_was_said_meanwhile() -> None:
    made = call()
    body = sent(user("Hi"), assistant(CallBlock(call=made)), user("hurry", result(made), PictureBlock(picture=PICTURE)))
    assert [block["type"] for block in contents(body)[2]] == ["tool_result", "text", "image"]


def test_results_hold_text_pictures_and_failures() -> None:
    made = [call(f"t{n}") for n in range(4)]
    body = sent(
        user("Hi"),
        assistant(*(CallBlock(call=one) for one in made)),
        user(
            result(made[0], "fine"),
            result(made[1], "", failed=True),
            result(made[2], ""),
            ResultBlock(call=made[3], text=" ", pictures=(PICTURE,)),
        ),
    )
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    assert contents(body)[2] == [
        {"type": "tool_result", "tool_use_id": "t0", "content": "fine"},
        {"type": "tool_result", "tool_use_id": "t1", "content": "(no message)", "is_error": True},
        {"type": "tool_result", "tool_use_id": "t2"},
        {"type": "tool_result", "tool_use_id": "t3", "content": [image]},
    ]


def test_pictures_go_by_bytes_by_data_url_and_by_url() -> None:
    body = sent(
        user(
            PictureBlock(picture=PICTURE),
            PictureBlock(url="data:image/webp;base64,BB=="),
            PictureBlock(url="https://example.com/a.png"),
            PictureBlock(picture=Picture(media_type="image/tiff", base64="CC==")),
            PictureBlock(url="file:///etc/passwd"),
        )
    )
    first, second, third, tiff, local = contents(body)[0]
    assert first["source"] == {"type": "base64", "media_type": "image/png", "data": "AA=="}
    assert second["source"] == {"type": "base64", "media_type": "image/webp", "data": "BB=="}
    assert third["source"] == {"type": "url", "url": "https://example.com/a.png"}
    assert (tiff["type"], local["type"]) == ("text", "text")
    assert "passwd" not in str(local)


def test_the_prompt_is_cached_up_to_four_marks() -> None:
    made = call()
    body = sent(
        user("One"),
        assistant(CallBlock(call=made)),
        user(result(made)),
        assistant("Two"),
        user("Three"),
        tools=[SHELL, READ],
        system="Be brief.",
    )
    marks = [
        block
        for block in [*body["tools"], *body["system"], *(b for m in body["messages"] for b in m["content"])]
        if "cache_control" in block
    ]
    assert len(marks) == 4
    assert "cache_control" in body["tools"][1]
    assert "cache_control" in body["messages"][-1]["content"][-1]
    assert "cache_control" in body["messages"][2]["content"][-1]
    assert "cache_control" not in body["messages"][0]["content"][-1]


def test_a_reply_that_paused_is_shown_again_without_trailing_space() -> None:
    pair = [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]
    body = sent(user("Hi"), assistant(SearchBlock(provider="anthropic", opaque=pair), "So far \n"))
    assert contents(body)[1][-1] == {"type": "text", "text": "So far"}


def test_half_a_surrogate_pair_in_a_text_does_not_stop_the_request() -> None:
    assert contents(sent(user("a\ud83d b")))[0][0]["text"] == "a� b"


USUAL, ASKED, BUDGET, BOTH, NONE = (
    "claude-opus-5-5",
    "claude-opus-4-8",
    "claude-haiku-4-5",
    "claude-opus-4-5",
    "claude-3-haiku-20240307",
)
SUMMARY = {"type": "adaptive", "display": "summarized"}


def wanted(body: dict[str, Json]) -> tuple[Json, Json]:
    return body.get("thinking"), body.get("output_config", {}).get("effort")


@pytest.mark.spec("flint/plan-config-wired")
@pytest.mark.parametrize(
    ("model", "options", "thinking", "effort"),
    [
        (USUAL, {}, SUMMARY, None),
        (USUAL, {"reasoning_effort": "low"}, SUMMARY, "low"),
        (USUAL, {"max_thinking_tokens": "32000"}, SUMMARY, "high"),
        (USUAL, {"max_thinking_tokens": "32000", "reasoning_effort": "low"}, SUMMARY, "low"),
        (ASKED, {}, SUMMARY, None),
        (ASKED, {"thinking": "off"}, None, None),
        (ASKED, {"reasoning_effort": "medium"}, SUMMARY, "medium"),
        (ASKED, {"max_thinking_tokens": "8000"}, SUMMARY, "low"),
        (BUDGET, {}, {"type": "enabled", "budget_tokens": 16000}, None),
        (
            BUDGET,
            {"reasoning_effort": "default", "max_thinking_tokens": "default"},
            {"type": "enabled", "budget_tokens": 16000},
            None,
        ),
        (BUDGET, {"thinking": "off"}, None, None),
        (BUDGET, {"max_thinking_tokens": "16000"}, {"type": "enabled", "budget_tokens": 16000}, None),
        (BUDGET, {"reasoning_effort": "high"}, {"type": "enabled", "budget_tokens": 32000}, None),
        (
            BUDGET,
            {"reasoning_effort": "high", "max_thinking_tokens": "8000"},
            {"type": "enabled", "budget_tokens": 8000},
            None,
        ),
        (
            BOTH,
            {"reasoning_effort": "low", "max_thinking_tokens": "16000"},
            {"type": "enabled", "budget_tokens": 16000},
            "low",
        ),
        (NONE, {"reasoning_effort": "high", "max_thinking_tokens": "32000"}, None, None),
        ("claude-of-tomorrow", {"reasoning_effort": "high"}, SUMMARY, "high"),
        (USUAL, {"reasoning_effort": "enormous", "max_thinking_tokens": "7"}, SUMMARY, None),
    ],
)
def test_effort_and_budget_reach_the_request_in_the_models_own_terms(
    model: str, options: dict[str, str], thinking: Json, effort: Json
) -> None:
    assert wanted(sent(model=model, **options)) == (thinking, effort)


def test_thoughts_do_not_eat_the_answers_tokens() -> None:
    body = sent(model=BUDGET, max_tokens=4096, max_thinking_tokens="16000")
    assert body["max_tokens"] == 20096
    assert sent(model=BUDGET, max_tokens=64_000, max_thinking_tokens="16000")["max_tokens"] == 64_000


def test_a_budget_is_not_given_in_the_middle_of_an_answer_that_began_without_one() -> None:
    made = call()
    history = (user("Hi"), assistant(CallBlock(call=made)), user(result(made), "hurry"))
    assert wanted(sent(*history, model=BUDGET, max_thinking_tokens="8000"))[0] is None
    assert wanted(sent(*history, assistant("Done"), user("Next"), model=BUDGET, max_thinking_tokens="8000"))[0]
    began = (user("Hi"), assistant(thought(), CallBlock(call=made)), *history[2:], assistant(CallBlock(call=made)))
    assert wanted(sent(*began, user(result(made)), model=BUDGET, max_thinking_tokens="8000"))[0]


def test_the_service_searches_the_web_only_when_it_was_told_to() -> None:
    assert sent(tools=[SHELL])["tools"][0]["name"] == "shell"
    assert sent(tools=[SHELL], web_search="off")["tools"][0]["name"] == "shell"
    assert sent(tools=[SHELL], web_search="on")["tools"][0]["type"].startswith("web_search_")
    assert [tool["name"] for tool in sent(web_search="on")["tools"]] == ["web_search"]
    assert "tools" not in sent(model=NONE, web_search="on")


@pytest.mark.parametrize(("name", "sent_as"), [("", "_"), ("mcp.tool/x", "mcp_tool_x"), ("n" * 300, "n" * 128)])
def test_a_call_that_the_service_would_refuse_to_read_again_has_another_name(name: str, sent_as: str) -> None:
    made = replace(call("t1"), name=name)
    body = sent(user("Hi"), assistant(CallBlock(call=made)), user(result(made, "1")))
    assert [block["name"] for content in contents(body) for block in content if block["type"] == "tool_use"] == [
        sent_as
    ]
