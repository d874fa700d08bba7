"""The library, sentence by sentence of the core specification, over the real dialect and in process."""

import threading
from collections.abc import AsyncGenerator

import anyio
import pytest

import hames
from hames import Config, Harness, PromptCancelled, ProviderError, tool
from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.request import (
    ModelEvent,
    ModelRequest,
    ReasoningEnded,
    ResultBlock,
    TextEnded,
    ToolCallEnded,
)
from hames.testing.fakes.model import ScriptedModel, Step, call, fail, hang, say, tell, think, wait_for
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.server import ProviderServer, ServerTalk, Use, Words, talk
from library_support import KEY, add


class Heard:
    """A handler that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def on_text(self, text: str) -> None:
        self.events.append(("text", text))

    def on_tool_call(self, id: str, name: str, input: Json) -> None:
        self.events.append(("tool_call", id, name, input))

    def on_tool_result(self, id: str, result: str, is_error: bool) -> None:
        self.events.append(("tool_result", id, result, is_error))


class WithUser(Heard):
    def on_user(self, text: str) -> None:
        self.events.append(("user", text))

    def on_reasoning(self, text: str) -> None:
        self.events.append(("reasoning", text))


class Read:
    """A tool written out as the protocol says."""

    name = "read"
    description = "Reads a file"
    input_schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

    def __init__(self) -> None:
        self.inputs: list[dict[str, Json]] = []

    async def execute(self, input: dict[str, Json]) -> str:
        self.inputs.append(input)
        if input["path"] == "missing":
            raise FileNotFoundError("no such file: missing")
        return f"content of {input['path']}"


@pytest.mark.spec(
    "core/config-model-default",
    "core/model-haiku",
    "core/config-max-tokens-default",
    "core/config-system-prompt-default",
    "core/config-max-turns-default",
)
async def test_the_defaults_are_the_specifications_and_reach_the_api() -> None:
    assert (KEY.model, KEY.max_tokens, KEY.system_prompt, KEY.max_turns) == ("claude-3-haiku-20240307", 4096, "", 10)
    endless = ServerTalk(parts=(Use(name="add", arguments='{"a":1}'),), stop="tools")
    async with ProviderServer(ANTHROPIC, then=endless) as server:
        await Harness(Config(api_key="k", base_url=server.url), [add]).prompt("go")
    bodies = [request.body for request in server.seen]
    assert [(body["model"], body["max_tokens"]) for body in bodies] == [("claude-3-haiku-20240307", 4096)] * 10
    assert not any("system" in body for body in bodies)


@pytest.mark.spec("core/config-api-key-required")
def test_a_key_is_required() -> None:
    with pytest.raises(TypeError):
        Config()  # type: ignore[call-arg]
    with pytest.raises(Misconfigured, match="API key is required"):
        Harness(Config(api_key=""))


def test_a_configuration_that_is_printed_keeps_its_key_to_itself() -> None:
    shown = repr(Config(api_key="sesame", model="claude-3-opus-20240229"))
    assert "sesame" not in shown
    assert "model='claude-3-opus-20240229'" in shown


@pytest.mark.spec(
    "core/uses-anthropic",
    "core/config-api-key",
    "core/config-model",
    "core/config-max-tokens",
    "core/config-system-prompt",
    "core/tool-choice-auto",
    "core/registration-name",
    "core/registration-description",
    "core/registration-input-schema",
    "core/registration-initial-request",
    "core/registration-constant",
    "core/harness-config",
    "core/harness-tools",
    "core/stream-incremental",
)
async def test_everything_configured_reaches_the_api() -> None:
    async with ProviderServer(ANTHROPIC, talk("Hello."), talk("Again.")) as server:
        config = Config(
            api_key="sesame",
            model="claude-3-opus-20240229",
            max_tokens=77,
            system_prompt="Be brief.",
            base_url=server.url,
        )
        harness = Harness(config, [add, Read()])
        await harness.prompt("hi")
        await harness.prompt("and again")
    assert len(server.seen) == 2
    for request in server.seen:
        body = request.body
        assert request.headers["x-api-key"] == "sesame"
        assert (body["model"], body["max_tokens"], body["stream"]) == ("claude-3-opus-20240229", 77, True)
        assert "Be brief." in str(body["system"])
        assert body.get("tool_choice", {"type": "auto"}) == {"type": "auto"}
        assert body["tools"] == server.seen[0].body["tools"]
    body = server.seen[0].body
    assert [(t["name"], t["description"]) for t in body["tools"]] == [
        ("add", "Adds two numbers."),
        ("read", "Reads a file"),
    ]
    assert body["tools"][0]["input_schema"]["properties"]["b"]["description"] == "what to add"
    assert body["tools"][0]["input_schema"]["required"] == ["a"]
    assert body["tools"][1]["input_schema"] == Read.input_schema


@pytest.mark.spec("core/tool-choice-fixed")
def test_tool_choice_cannot_be_configured() -> None:
    assert "tool_choice" not in Config.__struct_fields__


@pytest.mark.spec("core/model-haiku", "core/model-sonnet", "core/model-opus")
@pytest.mark.parametrize("model", ["claude-3-haiku-20240307", "claude-3-5-sonnet-20241022", "claude-3-opus-20240229"])
async def test_the_specifications_models_are_asked_for_by_name(model: str) -> None:
    async with ProviderServer(ANTHROPIC, talk("ok")) as server:
        await Harness(Config(api_key="k", model=model, base_url=server.url)).prompt("hi")
        assert server.seen[0].body["model"] == model


@pytest.mark.spec(
    "core/sequence-typical-turn",
    "core/handler-on-text",
    "core/handler-on-tool-call",
    "core/handler-on-tool-result",
    "core/on-text-once-per-block",
    "core/on-tool-call-once",
    "core/on-tool-result-once",
    "core/timing-no-partial-data",
    "core/loop-parses-text-and-tool-use",
    "core/tool-execute",
    "core/tool-name",
    "core/harness-constructor",
    "core/harness-handler",
    "core/handler-at-construction",
)
async def test_a_typical_turn_with_a_tool_over_the_real_dialect() -> None:
    heard, read = Heard(), Read()
    first = ServerTalk(
        parts=(
            Words(text="I'll read that file for you."),
            Use(id="id1", name="read", arguments='{"path":"config.json"}'),
        ),
        stop="tools",
        cuts=7,
    )
    async with ProviderServer(ANTHROPIC, first, talk("It is empty.")) as server:
        await Harness(Config(api_key="k", base_url=server.url), [read], heard).prompt("read config.json")
    assert heard.events == [
        ("text", "I'll read that file for you."),
        ("tool_call", "id1", "read", {"path": "config.json"}),
        ("tool_result", "id1", "content of config.json", False),
        ("text", "It is empty."),
    ]
    assert read.inputs == [{"path": "config.json"}]


@pytest.mark.spec("core/timing-text-block-stop", "core/timing-tool-block-stop", "core/stream-observable")
async def test_each_event_comes_when_its_block_is_whole_and_not_before() -> None:
    heard, text_open, tool_open = Heard(), anyio.Event(), anyio.Event()
    from hames.domain.ids import CallId
    from hames.domain.items import Call
    from hames.domain.request import TextDelta, ToolCallDelta, ToolCallStarted

    model = ScriptedModel(
        [
            tell(TextDelta(block=0, text="Adding.")),
            wait_for(text_open),
            tell(TextEnded(block=0)),
            tell(ToolCallStarted(block=1, name="add")),
            tell(ToolCallDelta(block=1, text='{"a":1}')),
            wait_for(tool_open),
            tell(ToolCallEnded(block=1, call=Call(id=CallId("c"), name="add", arguments='{"a":1}'))),
        ],
        [say("2")],
    )
    harness = Harness(KEY, [add], heard, provider=model)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.prompt, "1 + 1")
        await anyio.wait_all_tasks_blocked()
        assert heard.events == []
        text_open.set()
        await anyio.wait_all_tasks_blocked()
        assert heard.events == [("text", "Adding.")]
        tool_open.set()
    assert heard.events[1:] == [("tool_call", "c", "add", {"a": 1}), ("tool_result", "c", "2", False), ("text", "2")]


@pytest.mark.spec("core/timing-tool-done", "core/stream-observable")
async def test_a_result_is_told_when_its_tool_is_done_and_before_the_next_one_is() -> None:
    heard, begun, release = Heard(), anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        await release.wait()
        return "waited"

    model = ScriptedModel([call("add", a=1), call("wait")], [say("ok")])
    harness = Harness(KEY, [add, wait], heard, provider=model)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(harness.prompt, "go")
            await begun.wait()
            await anyio.wait_all_tasks_blocked()
            assert [event[2] for event in heard.events if event[0] == "tool_result"] == ["2"]
            release.set()
    assert [event[2] for event in heard.events if event[0] == "tool_result"] == ["2", "waited"]


@pytest.mark.spec("core/harness-handler-none", "core/handler-nil-silent")
async def test_no_handler_is_silent() -> None:
    model = ScriptedModel([call("add", a=1)], [say("2")])
    await Harness(KEY, [add], None, provider=model).prompt("go")
    model.assert_finished()


@pytest.mark.spec("core/handler-synchronous")
async def test_events_are_delivered_one_by_one_on_the_harnesss_own_thread_before_it_goes_on() -> None:
    done: list[str] = []
    threads: set[int] = set()

    class Slow(Heard):
        def on_text(self, text: str) -> None:
            done.append(f"heard {text}")
            threads.add(threading.get_ident())

        def on_tool_call(self, id: str, name: str, input: Json) -> None:
            done.append("heard the call")

        def on_tool_result(self, id: str, result: str, is_error: bool) -> None:
            done.append("heard the result")

    class Model(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            async for event in super().stream(request):
                yield event
                if isinstance(event, TextEnded | ToolCallEnded):
                    done.append("the model goes on")

    model = Model([say("one"), call("add", a=1)], [say("two")])
    await Harness(KEY, [add], Slow(), provider=model).prompt("go")
    assert done == [
        "heard one",
        "the model goes on",
        "heard the call",
        "the model goes on",
        "heard the result",
        "heard two",
        "the model goes on",
    ]
    assert threads == {threading.get_ident()}


async def test_an_exception_of_the_handler_ends_the_prompt_and_is_raised() -> None:
    class Bad(Heard):
        def on_text(self, text: str) -> None:
            raise ZeroDivisionError("my own fault")

    harness = Harness(KEY, [add], Bad(), provider=ScriptedModel([say("hi"), call("add", a=1)], [say("x")]))
    with anyio.fail_after(60), pytest.raises(ZeroDivisionError):
        await harness.prompt("go")


@pytest.mark.spec("core/prompt-emits-user-event")
async def test_a_handler_that_wants_to_hears_the_user_and_the_reasoning() -> None:
    heard = WithUser()
    await Harness(KEY, handler=heard, provider=ScriptedModel([think("hm"), say("hi")])).prompt("hello")
    assert heard.events == [("user", "hello"), ("reasoning", "hm"), ("text", "hi")]


@pytest.mark.spec("core/timing-no-partial-data")
@pytest.mark.parametrize("half", [think("half", cut=True), say("half", cut=True)])
async def test_blocks_that_were_cut_off_or_hold_no_words_are_not_told(half: Step) -> None:
    heard = WithUser()
    model = ScriptedModel([tell(ReasoningEnded(block=0, opaque="sealed")), half, hang()])
    harness = Harness(KEY, handler=heard, provider=model)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(harness.prompt, "hello")
            await model.hanging.wait()
            tasks.cancel_scope.cancel()
    assert heard.events == [("user", "hello")]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(Misconfigured, match="same name"):
        Harness(KEY, [Read(), Read()])


@pytest.mark.spec(
    "core/loop-collects-results",
    "core/tools-sequential",
    "core/tools-stop-at-error",
    "core/tools-results-so-far",
    "core/tools-rest-not-executed",
    "core/tools-fail-fast-reassess",
    "core/errors-do-not-halt",
    "core/errors-as-results",
    "core/errors-sent-back",
    "core/errors-agent-decides",
)
async def test_the_first_failing_tool_stops_the_rest_and_the_agent_reads_why() -> None:
    read, heard = Read(), Heard()
    model = ScriptedModel(
        [call("read", path="a"), call("read", path="missing"), call("read", path="b")], [say("I see.")]
    )
    await Harness(KEY, [read], heard, provider=model).prompt("go")
    assert [given["path"] for given in read.inputs] == ["a", "missing"]
    results = [event for event in heard.events if event[0] == "tool_result"]
    assert [(result[2], result[3]) for result in results] == [
        ("content of a", False),
        ("no such file: missing", True),
    ]
    sent = [block for block in model.requests[1].messages[-1].blocks if isinstance(block, ResultBlock)]
    assert [(block.failed, block.text.partition(":")[0]) for block in sent] == [
        (False, "content of a"),
        (True, "no such file"),
        (True, "not executed"),
    ]
    assert sent[1].text == "no such file: missing"


async def test_an_input_that_does_not_fit_is_an_error_the_agent_reads() -> None:
    heard = Heard()
    model = ScriptedModel([call("add", a="one")], [call("add")], [call("nope")], [say("sorry")])
    await Harness(KEY, [add], heard, provider=model).prompt("go")
    results = [event for event in heard.events if event[0] == "tool_result"]
    assert all(result[3] for result in results)
    assert "a" in str(results[0][2])
    assert "nope" in str(results[2][2])


@pytest.mark.spec("core/tool-description", "core/tool-input-schema")
def test_a_tool_from_a_function_has_its_name_docstring_and_hints() -> None:
    assert (add.name, add.description) == ("add", "Adds two numbers.")
    assert add.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "description": "what to add", "default": 1}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert add(1, 2) == "3"

    @tool(name="other", description="Something else")
    async def work(items: list[str], *, deep: bool = False) -> dict[str, int]:
        return {"n": len(items)}

    assert (work.name, work.description) == ("other", "Something else")
    assert work.input_schema["properties"]["items"] == {"type": "array", "items": {"type": "string"}}
    assert anyio.run(work.execute, {"items": ["a"]}) == '{"n":1}'
    with pytest.raises(Misconfigured):

        @tool
        def bad(*args: str) -> str:
            return ""


def test_sync_code_prompts_without_a_loop_and_cancels_from_another_thread() -> None:
    heard = Heard()
    model = ScriptedModel([call("add", a=1)], [say("2")], [hang()])
    harness = Harness(KEY, [add], heard, provider=model)
    harness.prompt_sync("go")
    assert heard.events[-1] == ("text", "2")
    timer = threading.Timer(0.1, harness.cancel)
    timer.start()
    with pytest.raises(PromptCancelled):
        harness.prompt_sync("wait")
    timer.join()
    harness.close()
    harness.close()


async def test_a_sync_tool_does_not_stop_the_loop() -> None:
    release = threading.Event()

    @tool
    def slow() -> str:
        """Waits in a thread."""
        release.wait(5)
        return "done"

    harness = Harness(KEY, [slow], provider=ScriptedModel([call("slow")], [say("ok")]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.prompt, "go")
        await anyio.sleep(0.02)
        release.set()  # only a running loop gets here


def test_importing_the_package_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = "import sys, hames; print(sorted(m for m in sys.modules if m.partition('.')[0] in sys.argv[1:]))"
    heavy = ["msgspec", "anyio", "asyncio", "httpx2", "anthropic", "mcp", "starlette", "textual", "ssl"]
    out = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_unknown_names_are_unknown() -> None:
    with pytest.raises(AttributeError):
        hames.nothing_like_that  # noqa: B018
    assert set(hames.__all__) == {*hames._HOMES}


async def test_a_failure_in_the_middle_is_raised_once_retries_are_spent() -> None:
    model = ScriptedModel(*[[say("half", cut=True), fail("reset", retryable=True)] for _ in range(3)])
    harness = Harness(KEY, provider=model)
    harness._clock.sleep = lambda seconds: anyio.sleep(0)  # type: ignore[method-assign]
    with pytest.raises(ProviderError, match="reset"):
        await harness.prompt("go")


def test_a_program_that_forgets_to_close_still_ends() -> None:
    import subprocess
    import sys

    code = (
        "from hames import Config, Harness; from hames.testing.fakes.model import ScriptedModel, say;"
        "h = Harness(Config(api_key='k'), provider=ScriptedModel([say('hi')])); h.prompt_sync('x'); print('returned')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "returned\n"
