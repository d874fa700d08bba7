"""Servers that speak chat completions, on the wire."""

import msgspec
import pytest

from hames.domain.errors import Misconfigured
from hames.domain.ids import CallId
from hames.domain.items import Call, Picture
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.request import (
    Block,
    CallBlock,
    Message,
    ModelRequest,
    PictureBlock,
    ReasoningBlock,
    ResultBlock,
    TextBlock,
)
from hames.providers.chat.provider import ChatProvider
from hames.providers.chat.request import RequestForm, as_json
from hames.providers.chat.servers import SERVERS, ChatServer
from hames.testing.checks.provider import TOOLS, asking
from hames.testing.fakes.clock import FakeClock
from hames.testing.services.chat import CHAT
from hames.testing.services.outcome import failed, heard, outcome
from hames.testing.services.server import (
    ProviderServer,
    SeenRequest,
    ServerReply,
    ServerTalk,
    raw,
    talk,
)

BY_NAME = {server.name: server for server in SERVERS}
LOCAL = BY_NAME["local"]
CALL = Call(id=CallId("c1"), name="shell", arguments='{"command": "ls"}')


def provider(url: str, server: ChatServer = LOCAL, **how: object) -> ChatProvider:
    return ChatProvider(server, url=url + "/v1", clock=FakeClock(), **how)  # type: ignore[arg-type]


def user(*blocks: Block) -> Message:
    return Message(role="user", blocks=blocks)


def assistant(*blocks: Block) -> Message:
    return Message(role="assistant", blocks=blocks)


def sent(*messages: Message, manner: RequestForm | None = None) -> list[Json]:
    request = ModelRequest(model="m", messages=messages, tools=TOOLS)
    body = as_json(request, manner or RequestForm(provider="local"))
    assert CHAT.refuses(msgspec.json.decode(msgspec.json.encode(body))) == ""
    return body["messages"]


async def test_a_server_without_a_key_is_sent_none() -> None:
    async with ProviderServer(CHAT, talk("Hi")) as server:
        await heard(provider(server.url), asking())
    assert server.seen[0].path == "/v1/chat/completions"
    assert "authorization" not in server.seen[0].headers


async def test_a_key_signs_in() -> None:
    async with ProviderServer(CHAT, talk("Hi")) as server:
        await heard(provider(server.url, api_key="secret"), asking())
    assert server.seen[0].headers["authorization"] == "Bearer secret"


def test_what_is_missing_is_named() -> None:
    with pytest.raises(Misconfigured, match="set OPENROUTER_API_KEY"):
        ChatProvider(BY_NAME["openrouter"], clock=FakeClock())
    with pytest.raises(Misconfigured, match="set COMPATIBLE_BASE_URL"):
        ChatProvider(BY_NAME["compatible"], clock=FakeClock())
    with pytest.raises(Misconfigured, match="LOCAL_API_KEY"):
        ChatProvider(LOCAL, api_key="ä", clock=FakeClock())


@pytest.mark.spec("flint/config-local-temperature")
@pytest.mark.parametrize("temperature", ["0.0", "0.3", "0.7", "1.0"])
async def test_the_temperature_reaches_the_server(temperature: str) -> None:
    async with ProviderServer(CHAT, talk("Hi")) as server:
        await heard(provider(server.url), asking(temperature=temperature))
    assert server.seen[0].body["temperature"] == float(temperature)


async def test_without_a_choice_the_server_decides() -> None:
    async with ProviderServer(CHAT, talk("Hi")) as server:
        await heard(provider(server.url), asking(temperature="default", context_length="default"))
    assert "temperature" not in server.seen[0].body
    assert server.seen[0].body["max_tokens"] == 4096


@pytest.mark.spec("flint/config-local-context-length")
@pytest.mark.parametrize("length", ["4096", "8192", "16384"])
async def test_the_context_length_bounds_question_and_answer(length: str) -> None:
    async with ProviderServer(CHAT, then=talk("Hi")) as server:
        local = provider(server.url)
        long = msgspec.structs.replace(asking("word " * 500), max_tokens=100_000)
        await heard(local, msgspec.structs.replace(long, options={"context_length": length}))
        used = len(server.seen[0].raw) // 4 + server.seen[0].body["max_tokens"]
        assert int(length) - 32 < used <= int(length)
        _, error = await failed(local, asking("word " * int(length), context_length=length))
        assert error.info == "ContextWindowExceeded"
        assert length in str(error)
        assert len(server.seen) == 1, "what cannot fit is never sent"


NO_TOOLS: list[tuple[int, str]] = [
    (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (500, "tools param requires --jinja flag"),
    (404, "No endpoints found that support tool use. To learn more about provider routing, visit: ..."),
    (400, "This model does not support function calling"),
    (400, "`tool calling` is not supported with this model"),
    (400, "Unrecognized request argument supplied: tools"),
]


@pytest.mark.parametrize(("status", "said"), NO_TOOLS)
async def test_a_model_that_cannot_call_tools_is_refused_in_words_that_help(status: int, said: str) -> None:
    async with ProviderServer(CHAT, then=CHAT.refusal(status, message=said.replace("`", ""))) as server:
        told, error = await failed(provider(server.url), asking())
    assert told == []
    assert "cannot call tools" in str(error)
    assert "use a model that can" in str(error)
    assert "'test-model'" in str(error)
    assert (error.info, error.retryable) == ("BadRequest", False)
    assert len(server.seen) == 1


async def test_without_tools_such_words_mean_nothing_special() -> None:
    async with ProviderServer(CHAT, then=CHAT.refusal(400, message=NO_TOOLS[0][1])) as server:
        _, error = await failed(provider(server.url), asking(tools=False))
    assert "cannot call tools" not in str(error)


async def test_a_model_known_to_call_no_tools_is_refused_before_it_is_asked() -> None:
    async with ProviderServer(CHAT, then=talk("Hi")) as server:
        deaf = ModelCard(provider="local", model="m", display_name="m", tools=False)
        local = provider(server.url, card=lambda _: deaf)
        _, error = await failed(local, asking())
        assert "cannot call tools" in str(error)
        assert server.seen == []
        assert outcome(await heard(local, asking(tools=False))).texts == ("Hi",)


async def test_a_server_that_cannot_count_is_asked_again_without_and_remembered() -> None:
    def judge(seen: SeenRequest) -> ServerReply | ServerTalk:
        wants = "stream_options" in seen.body
        return CHAT.refusal(400, message="Unknown field: stream_options") if wants else talk("Hi")

    async with ProviderServer(CHAT, then=judge) as server:
        local = provider(server.url)
        for number in range(2):
            assert outcome(await heard(local, asking(f"{number}"))).texts == ("Hi",)
    assert len(server.seen) == 3


async def test_a_server_that_calls_the_length_of_a_reply_something_else_is_asked_in_its_own_words() -> None:
    def judge(seen: SeenRequest) -> ServerReply | ServerTalk:
        said = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        return CHAT.refusal(400, message=said) if "max_tokens" in seen.body else talk("Hi")

    async with ProviderServer(CHAT, then=judge) as server:
        local = provider(server.url)
        for number in range(2):
            assert outcome(await heard(local, asking(f"{number}", context_length="4096"))).texts == ("Hi",)
    assert len(server.seen) == 3
    assert 0 < server.seen[-1].body["max_completion_tokens"] < 4096


async def test_a_server_that_takes_no_thought_back_is_asked_again_without() -> None:
    def judge(seen: SeenRequest) -> ServerReply | ServerTalk:
        said = "The reasoning_content in the intermediate messages is not allowed"
        return CHAT.refusal(400, message=said) if "reasoning_content" in seen.raw.decode() else talk("Hi")

    thought = ReasoningBlock(provider="local", text="Hm", opaque={"field": "reasoning_content"})
    request = ModelRequest(
        model="m",
        messages=(
            user(TextBlock(text="Hi")),
            assistant(thought, CallBlock(call=CALL)),
            user(ResultBlock(call=CALL, text="ok")),
        ),
    )
    async with ProviderServer(CHAT, then=judge) as server:
        got = outcome(await heard(provider(server.url), request))
    assert got.notices == ("reasoning_dropped",)
    assert got.texts == ("Hi",)


async def test_an_error_with_status_200_is_still_an_error() -> None:
    body = b'{"error": {"message": "no slot available", "type": "unavailable_error", "code": "overloaded"}}'
    smiling = raw(body, headers={"content-type": "application/json"})
    async with ProviderServer(CHAT, then=smiling) as server:
        _, error = await failed(provider(server.url), asking())
    assert error.info == "ServerOverloaded"


@pytest.mark.parametrize(
    "body", [b'{"error": "model not found"}', b'{"detail": "model not found"}', b"model not found"]
)
async def test_a_model_the_server_does_not_have_is_named(body: bytes) -> None:
    gone = raw(body, status=404, headers={"content-type": "application/json"})
    async with ProviderServer(CHAT, then=gone) as server:
        _, error = await failed(provider(server.url), asking())
    assert error.info == "ModelNotFound"
    assert "'test-model'" in str(error)


async def test_members_only_one_server_understands_can_be_added() -> None:
    async with ProviderServer(CHAT, talk("Hi")) as server:
        await heard(provider(server.url, extra={"top_k": 40}), asking())
    assert server.seen[0].body["top_k"] == 40


def test_a_thought_goes_back_within_the_work_it_began_and_no_further() -> None:
    thought = ReasoningBlock(provider="local", text="Hm", opaque={"field": "reasoning"})
    work = (
        user(TextBlock(text="Hi")),
        assistant(thought, CallBlock(call=CALL)),
        user(ResultBlock(call=CALL, text="ok")),
    )
    assert sent(*work)[1]["reasoning"] == "Hm"
    after = sent(*work, assistant(TextBlock(text="Done")), user(TextBlock(text="Next")))
    assert "reasoning" not in after[1]


def test_details_of_a_thought_go_back_as_they_came() -> None:
    details = [{"type": "reasoning.encrypted", "data": "e"}]
    thought = ReasoningBlock(provider="local", text="Hm", opaque={"field": "reasoning", "details": details})
    work = (
        user(TextBlock(text="Hi")),
        assistant(thought, CallBlock(call=CALL)),
        user(ResultBlock(call=CALL, text="ok")),
    )
    said = sent(*work)[1]
    assert said["reasoning_details"] == details
    assert "reasoning" not in said


def test_a_thought_of_another_server_stays_at_home() -> None:
    thought = ReasoningBlock(provider="openrouter", text="Hm", opaque={"field": "reasoning"})
    history = sent(
        user(TextBlock(text="Hi")),
        assistant(thought, CallBlock(call=CALL)),
        user(ResultBlock(call=CALL, text="ok")),
    )
    assert "Hm" not in str(history)


def test_arguments_that_are_no_object_go_back_as_an_empty_one() -> None:
    broken = Call(id=CallId(""), name="shell", arguments='{"comm')
    history = sent(
        user(TextBlock(text="Hi")), assistant(CallBlock(call=broken)), user(ResultBlock(call=broken, text="?"))
    )
    assert history[1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_pictures_of_a_tool_are_shown_by_the_user() -> None:
    png = Picture(media_type="image/png", base64="AA==")
    history = sent(
        user(TextBlock(text="Hi")),
        assistant(CallBlock(call=CALL)),
        user(ResultBlock(call=CALL, text="seen", pictures=(png,)), TextBlock(text="and?")),
    )
    assert [message["role"] for message in history] == ["user", "assistant", "tool", "user"]
    assert [part["type"] for part in history[3]["content"]] == ["image_url", "text"]


def test_a_model_that_sees_nothing_is_told_that_there_was_a_picture() -> None:
    png = Picture(media_type="image/png", base64="AA==")
    history = sent(user(TextBlock(text="Hi"), PictureBlock(picture=png)), manner=RequestForm(images=False))
    assert history[0]["content"] == "Hi\n\n(a picture, which this model cannot see)"
