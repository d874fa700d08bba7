"""Scripts, from a file and in a test's own hands: the same port, the same promises."""

import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio
import pytest

from hames.domain.errors import Misconfigured, ProviderError, UnknownModel
from hames.domain.ids import CallId
from hames.domain.items import Call
from hames.domain.json import Json
from hames.domain.request import (
    CallBlock,
    Message,
    ModelEvent,
    ModelRequest,
    ProviderNotice,
    ReplyEnded,
    ResultBlock,
    TextBlock,
    TextDelta,
    ToolCallEnded,
)
from hames.domain.usage import Usage
from hames.providers.catalogue import Catalogue
from hames.providers.scripted.provider import ScriptedProvider, read_script
from hames.testing.checks.provider import asking, check_stopping, check_stream
from hames.testing.fakes.clock import FakeClock
from hames.testing.fakes.model import (
    OneModel,
    ScriptedModel,
    call,
    call_raw,
    fail,
    hang,
    notice,
    say,
    search,
    stop,
    tell,
    think,
    usage,
    wait_for,
)
from hames.testing.services.outcome import Outcome, failed, heard, outcome, said_and_done


class Stage:
    """A script file, and a conversation with it."""

    def __init__(self, folder: Path, script: Json) -> None:
        path = folder / "script.json"
        path.write_text(json.dumps(script))
        self.clock = FakeClock()
        self.model = str(path)
        self.provider = ScriptedProvider(clock=self.clock)
        self.messages: tuple[Message, ...] = ()

    def request(self, thread: str = "t1") -> ModelRequest:
        return ModelRequest(model=self.model, messages=self.messages, cache_key=thread)

    def prompt(self, text: str) -> None:
        self.messages += (Message(role="user", blocks=(TextBlock(text=text),)),)

    async def hear(self) -> Outcome:
        events = await heard(self.provider, self.request())
        self.messages += said_and_done("scripted", events)
        return outcome(events)


async def test_a_script_is_a_list_of_replies_one_per_call(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[{"think": "Hm."}, {"call": "shell", "with": {"command": "ls"}}], "Done, all of it."])
    stage.prompt("go")
    first = await stage.hear()
    assert first.thoughts == ("Hm.",)
    assert [(made.name, json.loads(made.arguments)) for made in first.calls] == [("shell", {"command": "ls"})]
    assert first.reason == "tools"
    second = await stage.hear()
    assert (second.texts, second.reason) == (("Done, all of it.",), "end")


async def test_past_its_end_a_script_says_so(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["One."])
    stage.prompt("go")
    await stage.hear()
    stage.prompt("again")
    _, error = await failed(stage.provider, stage.request())
    assert "only 1 replies" in str(error)


async def test_a_script_goes_on_where_the_history_stands_after_a_restart(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["One.", "Two.", "Three."])
    for word in ("One.", "Two."):
        stage.prompt("go")
        assert (await stage.hear()).texts == (word,)
    stage.provider = ScriptedProvider(clock=stage.clock)
    stage.prompt("go")
    assert (await stage.hear()).texts == ("Three.",)


async def test_threads_play_the_same_script_each_from_its_own_place(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["One.", "Two."])
    stage.prompt("go")
    for thread in ("a", "b"):
        assert outcome(await heard(stage.provider, stage.request(thread))).texts == ("One.",)


async def test_a_failure_leaves_no_trace_and_is_still_over(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path, [{"fail": "overloaded", "status": 529, "info": "ServerOverloaded", "retryable": True}, "ok"]
    )
    stage.prompt("go")
    _, error = await failed(stage.provider, stage.request())
    assert (str(error), error.status, error.info, error.retryable) == ("overloaded", 529, "ServerOverloaded", True)
    assert (await stage.hear()).texts == ("ok",)


CONVERSATIONS = {
    "conversations": [
        {"when": "fix", "replies": [{"call": "shell", "with": {"command": "make"}}, "Fixed."]},
        {"when": "thank", "replies": ["You are welcome."]},
    ],
    "otherwise": ["What?", "Really?"],
}


async def test_a_prompt_finds_its_conversation_and_starts_it_anew_each_time(tmp_path: Path) -> None:
    stage = Stage(tmp_path, CONVERSATIONS)
    for _ in range(2):
        stage.prompt("Please FIX it")
        assert (await stage.hear()).reason == "tools"
        assert (await stage.hear()).texts == ("Fixed.",)
        stage.prompt("thanks, thank you")
        assert (await stage.hear()).texts == ("You are welcome.",)


async def test_a_prompt_nobody_wrote_an_answer_for_is_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"conversations": CONVERSATIONS["conversations"]})
    stage.prompt("sing")
    _, error = await failed(stage.provider, stage.request())
    assert "'fix', 'thank'" in str(error)


async def test_pace_is_kept_on_the_clock(tmp_path: Path) -> None:
    script = {
        "pace_ms": 10,
        "otherwise": [["one two three", {"wait_ms": 500}, {"say": "ab", "pieces": 2, "pace_ms": 100}]],
    }
    stage = Stage(tmp_path, script)
    stage.prompt("go")
    assert (await stage.hear()).texts == ("one two three", "ab")
    assert stage.clock.elapsed == pytest.approx(4 * 0.01 + 0.5 + 3 * 0.1)


async def test_a_script_can_say_everything_a_model_can(tmp_path: Path) -> None:
    reply = [
        {"search": "hames"},
        {"notice": "rate_limits", "message": "nearly"},
        {"call": "shell", "arguments": '{"command": '},
        {"usage": {"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 2}},
        {"stop": "max_tokens"},
    ]
    stage = Stage(tmp_path, [reply])
    stage.prompt("go")
    got = await stage.hear()
    assert (got.searches, got.notices) == (("hames",), ("rate_limits",))
    assert got.calls[0].arguments == '{"command": '
    assert got.usage == Usage(input_tokens=7, output_tokens=3, cache_read_tokens=2)
    assert got.reason == "max_tokens"


async def test_a_script_hangs_until_it_is_stopped(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [["so", {"hang": True}]])
    stage.prompt("go")
    stream = stage.provider.stream(stage.request())
    with anyio.fail_after(60):
        assert await anext(stream) == TextDelta(block=0, text="so")
        await anext(stream)
        with anyio.move_on_after(0.05) as scope:
            await anext(stream)
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("7", "cannot be read"),
        ('{"replies": []}', "replies"),
        ('[{"sing": "la"}]', "sing"),
        ('[{"say": "a", "think": "b"}]', "one of say"),
        ("[{}]", "one of say"),
        ('[{"stop": "never"}]', "never"),
        ('{"conversations": [{"replies": []}]}', "when"),
    ],
)
def test_a_mistake_in_a_script_is_named(text: str, words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        read_script(text, name="mine")


def test_a_script_is_found_by_name_or_path_and_needs_no_key(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('["Hi"]')
    models = Catalogue({}, clock=FakeClock(), scripts={"mine": str(path)})
    for name in ("scripted/hello", "scripted/mine", f"scripted/{path}"):
        assert models.provider(models.find(name)).name == "scripted"
    assert "scripted/mine" in [card.id for card in models.cards()]


@pytest.mark.parametrize("bad", ["nowhere.json", "/dev/zero", "."])
def test_what_is_not_a_script_is_refused_when_it_is_chosen(bad: str) -> None:
    models = Catalogue({}, clock=FakeClock())
    with pytest.raises(Misconfigured, match="script"):
        models.provider(models.find(f"scripted/{bad}"))
    with pytest.raises(UnknownModel):
        models.find("scripted/")


async def test_hello_needs_nothing_at_all() -> None:
    request = ModelRequest(model="hello", messages=asking().messages)
    assert "script" in (await check_stream(ScriptedProvider(clock=FakeClock()), request)).texts[0]


def from_file(tmp_path: Path) -> tuple[Callable[[], ScriptedProvider], ModelRequest]:
    stage = Stage(tmp_path, [[{"think": "Hm"}, "Hello there", {"call": "shell", "with": {"command": "ls"}}]])
    stage.prompt("go")
    return lambda: ScriptedProvider(clock=stage.clock), stage.request()


async def test_the_contract_from_a_file(tmp_path: Path) -> None:
    make, request = from_file(tmp_path)
    got = await check_stream(make(), request)
    assert (got.thoughts, got.texts, got.reason) == (("Hm",), ("Hello there",), "tools")
    await check_stopping(EachTimeAnew(make), request)


async def test_the_contract_in_process() -> None:
    def make() -> ScriptedModel:
        return ScriptedModel([think("Hm"), say("Hello there"), call("shell", command="ls")])

    got = await check_stream(make(), asking())
    assert (got.thoughts, got.texts, got.reason) == (("Hm",), ("Hello there",), "tools")
    await check_stopping(EachTimeAnew(make), asking())


class EachTimeAnew:
    """A script plays once; the checks ask often."""

    name = "scripted"

    def __init__(self, make: Callable[[], ScriptedProvider | ScriptedModel]) -> None:
        self._make = make

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        return self._make().stream(request)


async def test_a_scripted_model_reads_like_a_conversation() -> None:
    model = ScriptedModel([call("shell", command="ls")], [say("Done.")])
    made = [e.call for e in await heard(model, asking()) if isinstance(e, ToolCallEnded)]
    assert made == [Call(id=CallId("call_0_0"), name="shell", arguments='{"command":"ls"}')]
    with pytest.raises(AssertionError, match="asked 1 times"):
        model.assert_finished()
    await heard(model, asking())
    model.assert_finished()
    await failed(model, asking())
    with pytest.raises(AssertionError, match="asked 3 times"):
        model.assert_finished()


async def test_a_scripted_model_can_fail_wait_hang_and_stop_short() -> None:
    go = anyio.Event()
    model = ScriptedModel(
        [say("half", cut=True), fail("broken", retryable=True, status=500)],
        [wait_for(go), say("now")],
        [hang()],
        [
            call_raw("shell", "{", call_id="x"),
            search("q", failed=True),
            notice("n"),
            usage(input_tokens=1),
            stop("pause"),
        ],
        [tell(ProviderNotice(name="raw"))],
        [call_raw("shell", '{"a', cut=True), stop("max_tokens")],
    )
    events, error = await failed(model, asking())
    assert ("".join(e.text for e in events if isinstance(e, TextDelta)), error.status) == ("half", 500)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heard, model, asking())
            await model.asked(2)
            go.set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heard, model, asking())
            await model.hanging.wait()
            assert model.open_streams == 1
            tasks.cancel_scope.cancel()
    assert model.open_streams == 0
    got = outcome(await heard(model, asking()))
    assert (got.calls[0].id, got.searches, got.notices, got.reason) == ("x", ("q",), ("n",), "pause")
    assert got.usage == Usage(input_tokens=1)
    assert outcome(await heard(model, asking())).notices == ("raw",)
    cut = await heard(model, asking())
    assert cut[-1] == ReplyEnded(reason="max_tokens", word="max_tokens")
    assert not any(isinstance(e, ToolCallEnded) for e in cut)
    model.assert_finished()
    assert len(model.requests) == 6


async def test_a_scripted_model_that_is_asked_too_much_fails_the_turn() -> None:
    with pytest.raises(ProviderError, match="asked for one more"):
        await heard(ScriptedModel(), asking())


def test_one_model_is_a_catalogue_of_one() -> None:
    model = ScriptedModel([say("Hi")])
    models = OneModel(model)
    assert models.find(models.default) == models.find("test") == models.cards()[0]
    assert models.provider(models.cards()[0]) is model
    with pytest.raises(UnknownModel):
        models.find("other")


async def test_a_result_is_not_a_prompt(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"conversations": [{"when": "go", "replies": ["One.", "Two."]}]})
    made = Call(id=CallId("c"), name="shell", arguments="{}")
    stage.prompt("go")
    stage.messages += (
        Message(role="assistant", blocks=(CallBlock(call=made),)),
        Message(role="user", blocks=(ResultBlock(call=made, text="stop"), TextBlock(text="hurry"))),
    )
    assert (await stage.hear()).texts == ("Two.",)


async def test_hello_answers_every_prompt() -> None:
    from hames.domain.request import Message, TextBlock

    provider = ScriptedProvider(clock=FakeClock())
    said = Message(role="user", blocks=(TextBlock(text="hi"),))
    answer = Message(role="assistant", blocks=(TextBlock(text="Hello."),))
    for messages in ((said,), (said, answer, said), (said, answer, said, answer, said)):
        request = ModelRequest(model="hello", messages=messages)
        assert any(isinstance(event, TextDelta) for event in [event async for event in provider.stream(request)])


async def test_the_prompt_after_a_turn_without_a_reply_is_answered_by_its_own_conversation(tmp_path: Path) -> None:
    script = {
        "conversations": [
            {"when": "fail", "replies": [[{"fail": "on holiday"}]]},
            {"when": "greet", "replies": ["Hello."]},
        ],
        "otherwise": ["Something else."],
    }
    stage = Stage(tmp_path, script)
    # What the engine sends: neighbours of one role are one message.
    stage.messages = (Message(role="user", blocks=(TextBlock(text="please fail"), TextBlock(text="greet me"))),)
    assert (await stage.hear()).texts == ("Hello.",)
    stage.prompt("please fail")
    for _ in range(2):  # the same prompt again, after it failed: the conversation begins anew
        assert "on holiday" in str((await failed(stage.provider, stage.request()))[1])
        last = stage.messages[-1]
        stage.messages = (*stage.messages[:-1], Message(role="user", blocks=(*last.blocks, TextBlock(text="fail"))))


async def test_the_prompt_after_an_interrupted_tool_is_not_taken_for_steering(tmp_path: Path) -> None:
    script = {
        "conversations": [
            {"when": "wait", "replies": [[{"call": "shell", "with": {"command": "sleep 9"}}], "Waited."]},
            {"when": "greet", "replies": ["Hello."]},
        ]
    }
    for result, text, expected in (
        ("interrupted; it may have run", "greet me", "Hello."),
        ("not run: nobody approved it", "greet me", "Hello."),
        ("done", "greet me meanwhile", "Waited."),
    ):
        stage = Stage(tmp_path, script)
        stage.prompt("wait")
        (made,) = (await stage.hear()).calls
        back = ResultBlock(call=made, text=result, failed=result != "done")
        messages = [message for message in stage.messages if not isinstance(message.blocks[0], ResultBlock)]
        stage.messages = (*messages, Message(role="user", blocks=(back, TextBlock(text=text))))
        assert (await stage.hear()).texts == (expected,)


async def test_a_script_that_remembers_nothing_plays_a_reply_again_until_the_history_has_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"remembers": False, "conversations": [{"when": "", "replies": ["One.", "Two."]}]})
    stage.prompt("go")
    for _ in range(2):
        assert outcome(await heard(stage.provider, stage.request())).texts == ("One.",)
    stage.prompt("go on")
    assert (await stage.hear()).texts == ("One.",)
