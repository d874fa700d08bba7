"""`hames.open_engine` and what `Harness` can do beyond the core specification: approvals, sandbox, disk, any model."""

import threading
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from tests.server_support import events, following, http

import hames
from hames import CancelToken, Config, Harness, PromptCancelled, TurnBusy, tool
from hames.client.appserver.client import AppServerClient
from hames.client.appserver.websocket import websocket
from hames.domain.approvals import Approval, UseTool
from hames.domain.errors import Misconfigured
from hames.domain.events import ApprovalRequested, ItemCompleted, ItemDelta, TurnEnded, TurnStarted
from hames.domain.items import AgentMessage, CommandExecution, ToolCall
from hames.domain.json import Json
from hames.domain.policy import Decision, ReadOnly, WorkspaceWrite
from hames.domain.request import ResultBlock, TextBlock
from hames.domain.state import Turn
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from hames.testing.services.chat import CHAT
from hames.testing.services.server import ProviderServer, talk

KEY = Config(api_key="test")


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """An environment with no configuration and a state of its own."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "HAMES_STATE": str(tmp_path / "state"),
        "HAMES_CONFIG": str(tmp_path / "none"),
    }


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@tool
def add(a: int, b: int = 1) -> str:
    """Adds two numbers."""
    return str(a + b)


def said(turn: Turn) -> list[str]:
    return [item.text for item in turn.items if isinstance(item, AgentMessage)]


async def test_a_program_starts_a_thread_prompts_it_and_hears_every_event(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    model = ScriptedModel([call("add", a=1)], [say("It is 2.")])
    with anyio.fail_after(60):
        async with hames.open_engine(
            cwd=workspace, tools=[add], provider=model, approval_policy="never", environment=environment
        ) as engine:
            thread = await engine.start_thread("sums")
            events = [change.record.event async for change in thread.prompt("1 + 1?")]
            state = await thread.read()
            page = await engine.list_threads()
    assert isinstance(events[0], TurnStarted)
    assert any(isinstance(event, ItemDelta) for event in events)
    assert isinstance(events[-1], TurnEnded)
    assert said(state.turns[-1]) == ["It is 2."]
    assert [(one.id, one.title) for one in page.threads] == [(thread.id, "sums")]
    offered = {one.name for one in model.requests[0].tools}
    assert {"add", "shell", "read"} <= offered


async def test_without_the_builtin_tools_only_the_programs_own_are_offered(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    model = ScriptedModel([say("hi")])
    with anyio.fail_after(60):
        async with hames.open_engine(
            cwd=workspace, tools=[add], builtin_tools=False, provider=model, environment=environment
        ) as engine:
            await (await engine.start_thread()).run("hello")
    assert [one.name for one in model.requests[0].tools] == ["add"]


@pytest.mark.needs("bwrap")
async def test_approvals_are_events_that_the_program_answers_and_commands_run_in_the_sandbox(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    model = ScriptedModel(
        [call("shell", command="echo one > made.txt && cat /proc/self/status | grep NoNewPrivs")],
        [call("shell", command="echo two > other.txt")],
        [say("done")],
    )
    asked: list[str] = []
    with anyio.fail_after(60):
        async with hames.open_engine(
            cwd=workspace,
            provider=model,
            approval_policy="always",
            sandbox=WorkspaceWrite(),
            environment=environment,
        ) as engine:
            thread = await engine.start_thread()
            async for change in thread.prompt("go"):
                if isinstance(event := change.record.event, ApprovalRequested):
                    asked.append(event.approval.id)
                    await thread.answer(event.approval.id, "once" if len(asked) == 1 else "reject", "not that one")
            turn = (await thread.read()).turns[-1]
    commands = [item for item in turn.items if isinstance(item, CommandExecution)]
    assert [item.status for item in commands] == ["completed", "declined"]
    assert "NoNewPrivs:\t1" in commands[0].output
    assert (workspace / "made.txt").read_text() == "one\n"
    assert not (workspace / "other.txt").exists()
    results = [one for one in model.requests[2].messages[-1].blocks if isinstance(one, ResultBlock)]
    assert "not that one" in results[0].text


async def test_run_asks_the_callback_and_rejects_without_one(workspace: Path, environment: Mapping[str, str]) -> None:
    model = ScriptedModel([call("add", a=1)], [say("yes")], [call("add", a=2)], [say("no")])
    seen: list[Approval] = []

    async def approve(approval: Approval) -> Decision:
        seen.append(approval)
        return "once"

    with anyio.fail_after(60):
        async with hames.open_engine(
            cwd=workspace, tools=[add], provider=model, approval_policy="always", environment=environment
        ) as engine:
            thread = await engine.start_thread()
            first = await thread.run("go", approve)
            second = await thread.run("again")
    assert isinstance(seen[0].intent, UseTool)
    calls = [item for turn in (first, second) for item in turn.items if isinstance(item, ToolCall)]
    assert [item.status for item in calls] == ["completed", "declined"]
    assert len(seen) == 1


async def test_threads_are_kept_and_opened_again_by_another_engine(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    model = ScriptedModel([say("Hello.")], [say("Again.")])
    with anyio.fail_after(60):
        async with hames.open_engine(cwd=workspace, provider=model, environment=environment) as engine:
            thread = await engine.start_thread()
            await thread.run("one")
        async with hames.open_engine(cwd=workspace, provider=model, environment=environment) as engine:
            again = await engine.open_thread(thread.id)
            replayed = [change.record.event async for change in _replayed(again)]
            turn = await again.run("two")
    assert said(turn) == ["Again."]
    assert len(model.requests[1].messages) == 3
    assert sum(isinstance(event, ItemCompleted) for event in replayed) == 2


async def _replayed(thread: hames.LocalThread):  # type: ignore[no-untyped-def]
    async for change in thread.follow(replay=True):
        yield change
        if isinstance(change.record.event, TurnEnded):
            return


async def test_a_turn_is_interrupted_and_a_second_prompt_is_refused_while_one_runs(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    model = ScriptedModel([hang()])
    ended: list[TurnEnded] = []
    with anyio.fail_after(60):
        async with hames.open_engine(cwd=workspace, provider=model, environment=environment) as engine:
            thread = await engine.start_thread()

            async def listen() -> None:
                async for change in thread.prompt("go"):
                    if isinstance(event := change.record.event, TurnEnded):
                        ended.append(event)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listen)
                await model.hanging.wait()
                with pytest.raises(TurnBusy):
                    await thread.run("me too")
                await thread.interrupt()
    assert [event.status for event in ended] == ["interrupted"]


async def test_options_are_those_of_the_commands_and_are_checked_like_theirs(
    workspace: Path, environment: Mapping[str, str], tmp_path: Path
) -> None:
    with pytest.raises(Misconfigured, match="approval_policy is 'perhaps'"):
        async with hames.open_engine(cwd=workspace, approval_policy="perhaps", environment=environment):  # type: ignore[arg-type]
            pass
    data = tmp_path / "threads"
    async with hames.open_engine(
        cwd=workspace,
        data_dir=data,
        model="scripted/hello",
        sandbox={"type": "readOnly"},
        extra_path=("/opt/bin",),
        environment=environment,
    ) as engine:
        thread = await engine.start_thread(approval_policy="never")
        state = await thread.read()
        assert said(await thread.run("Hello?"))[0].startswith("Hello.")
        assert "scripted/hello" in [card.id for card in engine.models()]
    assert (state.settings.model, state.settings.sandbox) == ("scripted/hello", ReadOnly())
    assert state.settings.approval_policy == "never"
    assert [path.name for path in (data / "threads").iterdir()] == [thread.id]


class Deciding:
    """A handler that answers approvals."""

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = list(decisions)
        self.asked: list[Approval] = []
        self.results: list[tuple[str, bool]] = []
        self.texts: list[str] = []

    async def on_approval(self, approval: Approval) -> Decision:
        self.asked.append(approval)
        return self.decisions.pop(0)

    def on_text(self, text: str) -> None:
        self.texts.append(text)

    def on_tool_call(self, id: str, name: str, input: Json) -> None: ...

    def on_tool_result(self, id: str, result: str, is_error: bool) -> None:
        self.results.append((result, is_error))


async def test_a_harness_with_a_policy_asks_its_handler_before_a_tool_runs() -> None:
    handler = Deciding("once", "reject")
    model = ScriptedModel([call("add", a=1)], [call("add", a=5)], [say("ok")])
    with anyio.fail_after(60):
        await Harness(KEY, [add], handler, provider=model, approval_policy="always").prompt("go")
    assert [approval.intent.name for approval in handler.asked if isinstance(approval.intent, UseTool)] == ["add"] * 2
    assert [result for result, failed in handler.results if not failed] == ["2"]
    assert len(handler.results) == 2


async def test_a_harness_with_a_policy_and_nobody_to_ask_rejects() -> None:
    called: list[int] = []

    @tool
    def touch(n: int) -> str:
        """Touches."""
        called.append(n)
        return "touched"

    @tool(read_only=True)
    def look() -> str:
        """Looks."""
        return "seen"

    model = ScriptedModel([call("look"), call("touch", n=1)], [say("ok")])
    with anyio.fail_after(60):
        await Harness(KEY, [touch, look], provider=model, approval_policy="always").prompt("go")
    results = [one for one in model.requests[1].messages[-1].blocks if isinstance(one, ResultBlock)]
    assert [one.failed for one in results] == [False, True]
    assert called == []


@pytest.mark.needs("bwrap")
async def test_a_harness_offers_our_own_tools_in_the_sandbox_that_was_asked_for(workspace: Path) -> None:
    model = ScriptedModel([call("shell", command="touch here.txt")], [say("ok")])
    harness = Harness(KEY, [add], provider=model, builtin_tools=True, sandbox="readOnly", cwd=workspace)
    with anyio.fail_after(60):
        await harness.prompt("go")
    result = next(one for one in model.requests[1].messages[-1].blocks if isinstance(one, ResultBlock))
    assert "Read-only file system" in result.text
    assert not (workspace / "here.txt").exists()
    assert {"add", "Bash"} <= {one.name for one in model.requests[0].tools}
    assert "coding agent" in model.requests[0].system


async def test_a_harness_with_a_data_directory_goes_on_where_it_was(tmp_path: Path) -> None:
    model = ScriptedModel([say("Noted.")], [say("Blue.")])
    with anyio.fail_after(60):
        first = Harness(KEY, provider=model, data_dir=tmp_path / "data")
        await first.prompt("My colour is blue.")
        second = Harness(KEY, provider=model, data_dir=tmp_path / "data", thread_id=first.thread_id)
        await second.prompt("Which colour?")
    assert [block.text for block in second.messages[0].blocks if isinstance(block, TextBlock)] == ["My colour is blue."]
    assert len(model.requests[1].messages) == 3
    with pytest.raises(Misconfigured, match="data_dir"):
        Harness(KEY, provider=model, thread_id="ses_1")


async def test_a_harness_asks_any_provider_by_name() -> None:
    async with ProviderServer(CHAT, talk("Hello.")) as server:
        config = Config(api_key="sesame", model="compatible/some-model", base_url=f"{server.url}/v1")
        handler = Deciding()
        with anyio.fail_after(60):
            await Harness(config, handler=handler).prompt("hi")
    assert handler.texts == ["Hello."]
    asked = next(request for request in server.seen if request.body)
    assert (asked.body["model"], asked.headers["authorization"]) == ("some-model", "Bearer sesame")


async def test_a_harness_that_is_held_open_runs_prompt_after_prompt_on_one_engine() -> None:
    model = ScriptedModel([say("one")], [say("two")])
    handler = Deciding()
    with anyio.fail_after(60):
        async with Harness(KEY, handler=handler, provider=model) as harness:
            await harness.prompt("1")
            await harness.prompt("2")
    assert handler.texts == ["one", "two"]
    assert len(model.requests[1].messages) == 3


class _Blocks:
    """A tool written out, with a loop that blocks its thread until it is told to stop."""

    name = "grind"
    description = "Works for a long time"
    input_schema: Mapping[str, Json] = {"type": "object", "properties": {}}

    def __init__(self) -> None:
        self.begun, self.stopped = threading.Event(), threading.Event()

    def execute(self, input: dict[str, Json]) -> str:
        self.begun.set()
        while not hames.cancelled():
            pass
        self.stopped.set()
        return "too late"


async def _cancelled(harness: Harness, begun: threading.Event, stopped: threading.Event) -> None:
    async def prompt() -> None:
        with pytest.raises(PromptCancelled):
            await harness.prompt("go")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prompt)
            assert await anyio.to_thread.run_sync(begun.wait, 20)
            harness.cancel()
        assert await anyio.to_thread.run_sync(stopped.wait, 20)


async def test_a_synchronous_tool_in_a_blocking_loop_hears_of_a_cancel() -> None:
    grind = _Blocks()
    await _cancelled(Harness(KEY, [grind], provider=ScriptedModel([call("grind")])), grind.begun, grind.stopped)


async def test_a_function_with_a_cancel_token_waits_on_it_and_the_model_never_sees_it() -> None:
    begun, stopped = threading.Event(), threading.Event()

    @tool
    def wait(name: str, token: CancelToken) -> str:
        """Waits."""
        begun.set()
        assert token.wait(20)
        stopped.set()
        return name

    assert wait.input_schema["properties"] == {"name": {"type": "string"}}
    await _cancelled(Harness(KEY, [wait], provider=ScriptedModel([call("wait", name="x")])), begun, stopped)


async def test_a_tool_that_is_not_cancelled_is_told_nothing_and_outside_of_a_call_nothing_is_cancelled() -> None:
    seen: list[bool] = []

    @tool
    def look(token: CancelToken) -> str:
        """Looks."""
        seen.extend([token.cancelled, hames.cancelled(), token.wait(0)])
        return "ok"

    await Harness(KEY, [look], provider=ScriptedModel([call("look")], [say("ok")])).prompt("go")
    assert seen == [False, False, False]
    assert hames.cancelled() is False


async def test_a_served_harness_has_its_tools_behind_http_sync_and_flint_on_one_port() -> None:
    called: list[int] = []

    @tool
    def count(n: int) -> str:
        """Counts."""
        called.append(n)
        return f"counted {n}"

    model = ScriptedModel(
        [call("count", n=1)],
        [say("one")],
        [call("count", n=2)],
        [say("two")],
        [call("count", n=3)],
        [say("three")],
        [call("count", n=4)],
        [say("four")],
    )
    handler = Deciding()
    harness = Harness(KEY, [count], handler, provider=model)
    with anyio.fail_after(60):
        async with harness.serve() as server:
            async with http(server) as client, events(client) as told:
                assert (await client.post("/prompt", json={"content": "over HTTP"})).is_success
                await told.until("text", content="one")
                await told.until("status", state="idle")
            async with (
                websocket(f"{server.url.replace('http', 'ws', 1)}/flint") as stream,
                AppServerClient.connect(stream, name="test") as flint,
            ):
                opened = await flint.start_thread()
                turn = await flint.run(opened.thread.id, "over flint")
                assert turn.status == "completed"
            async with following(server, harness.thread_id or "") as sync:
                await sync.until(lambda state: len(state["messages"]) > 0)
                await sync.send({"type": "submit", "prompt": "over sync"})
                await sync.until(lambda state: "three" in str(state["messages"]))
                await sync.until(lambda state: state["status"] != "running")
            await harness.prompt("from the program itself")
    assert called == [1, 2, 3, 4]
    assert handler.texts == ["one", "three", "four"]
    assert len(harness.messages) == 12
