"""Tools of a client whose thread runs in another process: the call comes to its process, and the answer goes back."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from flint_support import Message, Talk, talking, wired
from hames.core import client_tools
from hames.core.engine import Engine
from hames.domain.actors import Actor
from hames.domain.commands import ReadThread
from hames.domain.ids import ThreadId
from hames.domain.items import ToolCall
from hames.domain.roles import Access
from hames.domain.state import ThreadState
from hames.server.peers import visitor
from hames.stdio.principals import Principal
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from server_support import http, running
from support import create_in, created, shared_engine, started, turn_end

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "weather", "description": "The weather of a city", "inputSchema": SCHEMA}
SUNNY = {"contentItems": [{"type": "inputText", "text": "Sunny, 21 degrees"}], "success": True}
CLIENTS = ("some-editor", "codex-some-editor")


def weather_model() -> ScriptedModel:
    return ScriptedModel([call("weather", city="Oslo")], [say("Take sunglasses.")])


@asynccontextmanager
async def two_processes(place: Path, model: ScriptedModel) -> AsyncGenerator[tuple[Engine, Engine]]:
    """The first runs the threads that clients of the second start."""
    async with shared_engine(place, model) as owner, shared_engine(place) as other:
        create_in(owner, other)
        yield owner, other


async def begin(flint: Talk, thread_id: str) -> None:
    await flint.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])


async def asked(flint: Talk) -> Message:
    return await flint.until("item/tool/call")


async def last_tool(engine: Engine, thread_id: str | None = None) -> ToolCall:
    state = await engine.execute(ReadThread(thread_id=ThreadId(thread_id or next(iter(engine._threads.loaded)))))
    assert isinstance(state, ThreadState)
    return [item for turn in state.turns for item in turn.items if isinstance(item, ToolCall)][-1]


async def result_text(engine: Engine) -> str:
    result = (await last_tool(engine)).result
    assert result is not None
    return result.text


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_call_goes_to_the_process_of_the_client_and_its_answer_to_the_model(
    tmp_path: Path, client: str
) -> None:
    model = weather_model()
    async with two_processes(tmp_path, model) as (owner, other), talking(other, client) as flint:
        thread_id = await flint.start(dynamicTools=[WEATHER])
        assert not other._threads.loaded, "the thread runs in the other process"
        await begin(flint, thread_id)
        question = await asked(flint)
        assert (question["params"]["tool"], question["params"]["arguments"]) == ("weather", {"city": "Oslo"})
        assert question["params"]["threadId"] == thread_id
        assert question["params"]["callId"] in [told["item"]["id"] for told in flint.params("item/started")]
        await flint.say({"id": question["id"], "result": SUNNY})
        await flint.say({"id": question["id"], "result": {**SUNNY, "success": False}})
        ended = await flint.until("turn/completed")
        assert ended["params"]["turn"]["status"] == "completed"
        done = await last_tool(owner)
    assert (done.status, done.result and done.result.text) == ("completed", "Sunny, 21 degrees")
    model.assert_finished()


async def test_an_error_of_the_client_is_a_result_that_the_model_reads(tmp_path: Path) -> None:
    async with two_processes(tmp_path, weather_model()) as (owner, other), talking(other) as flint:
        await begin(flint, await flint.start(dynamicTools=[WEATHER]))
        await flint.say({"id": (await asked(flint))["id"], "error": {"code": -32000, "message": "the radar is broken"}})
        assert (await flint.until("turn/completed"))["params"]["turn"]["status"] == "completed"
        assert "the radar is broken" in await result_text(owner)


async def test_a_client_that_goes_fails_the_call_in_words(tmp_path: Path) -> None:
    async with two_processes(tmp_path, weather_model()) as (owner, other):
        async with talking(other) as flint:
            await begin(flint, await flint.start(dynamicTools=[WEATHER]))
            await asked(flint)
            watcher = await owner.watch(next(iter(owner._threads.loaded)))
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        assert "the client has gone" in await result_text(owner)


async def test_a_process_that_ends_fails_the_call_of_its_client_in_words(tmp_path: Path) -> None:
    async with shared_engine(tmp_path, weather_model()) as owner:
        async with AsyncExitStack() as stack:
            other = await stack.enter_async_context(shared_engine(tmp_path))
            create_in(owner, other)
            flint = await stack.enter_async_context(talking(other))
            await begin(flint, await flint.start(dynamicTools=[WEATHER]))
            await asked(flint)
            watcher = await owner.watch(next(iter(owner._threads.loaded)))
            for link in await other._sharing._links():
                await link._stream.aclose()  # type: ignore[attr-defined] - what the kernel does when it is killed
            assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        words = await result_text(owner)
    assert "'weather', has ended: the tool may or may not have run" in words
    assert words.startswith("process ")


@pytest.mark.slow
async def test_a_process_that_stops_answering_fails_the_call_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitor, "ALIVE_SECONDS", 0.2)
    async with two_processes(tmp_path, weather_model()) as (owner, other), talking(other) as flint:
        await begin(flint, await flint.start(dynamicTools=[WEATHER]))
        await asked(flint)
        watcher = await owner.watch(next(iter(owner._threads.loaded)))
        for link in await other._sharing._links():
            monkeypatch.setattr(link, "_take", lambda *_: None)
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        assert "does not answer" in await result_text(owner)


@pytest.mark.slow
async def test_a_call_that_lasts_while_its_process_lives_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitor, "ALIVE_SECONDS", 1.0)
    questions: list[object] = []
    async with two_processes(tmp_path, weather_model()) as (owner, other), talking(other) as flint:
        await begin(flint, await flint.start(dynamicTools=[WEATHER]))
        question = await asked(flint)
        enough = anyio.Event()
        (link,) = await other._sharing._links()
        take = link._take  # type: ignore[attr-defined]

        def count(*given: Any) -> None:
            take(*given)
            questions.append(given)
            if len(questions) == 2:
                enough.set()

        monkeypatch.setattr(link, "_take", count)
        with anyio.fail_after(60):
            await enough.wait()
        await flint.say({"id": question["id"], "result": SUNNY})
        await flint.until("turn/completed")
        assert (await last_tool(owner)).status == "completed"


@pytest.mark.parametrize("elsewhere", [pytest.param(False, marks=pytest.mark.slow), True])
async def test_a_client_that_never_answers_fails_the_call_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    monkeypatch.setattr(client_tools, "DEADLINE_SECONDS", 0.3)
    async with (
        two_processes(tmp_path, weather_model()) as (owner, other),
        talking(other if elsewhere else owner) as flint,
    ):
        await begin(flint, await flint.start(dynamicTools=[WEATHER]))
        question = await asked(flint)
        assert (await flint.until("turn/completed"))["params"]["turn"]["status"] == "completed"
        assert "did not answer the call of 'weather' within" in await result_text(owner)
        await flint.say({"id": question["id"], "result": SUNNY})
        assert await flint.call("thread/loaded/list"), "a late answer does no harm"


async def test_an_interrupt_withdraws_the_call_from_the_client(tmp_path: Path) -> None:
    model = ScriptedModel([call("weather", city="Oslo")], [say("Hello.")])
    async with two_processes(tmp_path, model) as (_, other), talking(other) as flint:
        thread_id = await flint.start(dynamicTools=[WEATHER])
        await begin(flint, thread_id)
        question = await asked(flint)
        await flint.call("turn/interrupt", threadId=thread_id, turnId=question["params"]["turnId"])
        assert (await flint.until("turn/completed"))["params"]["turn"]["status"] == "interrupted"
        (link,) = await other._sharing._links()
        with anyio.fail_after(60):
            while link._calls:  # type: ignore[attr-defined]
                await anyio.lowlevel.checkpoint()
        await flint.say({"id": question["id"], "result": SUNNY})
        assert (await flint.prompt(thread_id))["turn"]["status"] == "completed"


@pytest.mark.slow
async def test_of_three_processes_the_one_whose_client_declared_the_tool_is_asked(tmp_path: Path) -> None:
    async with (
        two_processes(tmp_path, weather_model()) as (owner, other),
        shared_engine(tmp_path) as third,
        talking(other) as flint,
        talking(third, "codex-other") as codex,
        talking(owner, "codex-here") as here,
    ):
        thread_id = await flint.start(dynamicTools=[WEATHER])
        for one in (codex, here):  # these only resume it, and could carry it out if nobody had declared it
            listed = await one.call("thread/list")
            await one.call("thread/resume", threadId=listed["data"][0]["id"])
        await begin(flint, thread_id)
        await flint.say({"id": (await asked(flint))["id"], "result": SUNNY})
        for one in (flint, codex, here):
            await one.until("turn/completed")
        assert "item/tool/call" not in codex.methods() + here.methods()
        assert (await last_tool(owner)).status == "completed"


async def test_a_client_of_this_process_is_preferred_to_an_equal_one_of_another(tmp_path: Path) -> None:
    async with (
        two_processes(tmp_path, weather_model()) as (owner, other),
        talking(owner) as here,
        talking(other) as there,
    ):
        thread_id = await here.start(dynamicTools=[WEATHER])
        await there.call("thread/resume", threadId=thread_id, dynamicTools=[WEATHER])
        await begin(there, thread_id)
        await here.say({"id": (await asked(here))["id"], "result": SUNNY})
        await there.until("turn/completed")
        assert "item/tool/call" not in there.methods()


async def test_an_observer_of_another_process_is_offered_no_call(tmp_path: Path) -> None:
    observer = Principal(Access(actor=Actor(kind="token", name="guest", via="flint"), role="observer"))
    async with two_processes(tmp_path, weather_model()) as (owner, other):
        async with talking(owner) as here:
            thread_id = await here.start(dynamicTools=[WEATHER])
        async with wired(other, principal=observer) as wire:
            guest = await Talk(wire).meet("codex-guest")
            await guest.call("thread/resume", threadId=(await guest.call("thread/list"))["data"][0]["id"])
            await started(owner, ThreadId(thread_id))
            await guest.until("turn/completed")
            assert "item/tool/call" not in guest.methods()
        assert "no client that carries out 'weather' is connected" in await result_text(owner)


async def test_the_client_is_asked_after_its_own_process_took_over_the_thread(tmp_path: Path) -> None:
    model = weather_model()
    async with shared_engine(tmp_path, model) as other, talking(other) as flint:
        async with shared_engine(tmp_path) as owner:
            create_in(owner, other)
            thread_id = await flint.start(dynamicTools=[WEATHER])
        await begin(flint, thread_id)
        await flint.say({"id": (await asked(flint))["id"], "result": SUNNY})
        await flint.until("turn/completed")
        assert (await last_tool(other)).status == "completed"
    model.assert_finished()


async def test_a_thread_that_was_just_taken_over_waits_for_the_clients_of_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its turn goes on at once, and their processes need a moment to find who writes it now."""
    model = weather_model()

    async def leave(_thread_id: ThreadId) -> None:
        """The third process is to have it."""

    async with shared_engine(tmp_path) as other, talking(other) as flint:
        monkeypatch.setattr(other._sharing, "_take_over", leave)
        async with shared_engine(tmp_path, ScriptedModel([hang()])) as owner:
            create_in(owner, other)
            thread_id = await flint.start(dynamicTools=[WEATHER])
        async with shared_engine(tmp_path, model) as third:
            await started(third, ThreadId(thread_id))
            await flint.say({"id": (await asked(flint))["id"], "result": SUNNY})
            await flint.until("turn/completed")
            assert (await last_tool(third)).status == "completed"


async def test_frontend_tools_of_a_run_reach_a_thread_of_another_process(tmp_path: Path) -> None:
    model = ScriptedModel([call("greet", who="Ada")], [say("Greeted.")])
    greet = {"name": "greet", "description": "d", "parameters": {"type": "object", "properties": {"who": {}}}}
    async with two_processes(tmp_path, model) as (owner, other), running(other, tmp_path / "data") as server:
        thread = await created(owner)
        async with http(server) as client:
            body: dict[str, Any] = {"threadId": thread.id, "tools": [greet]}
            said = [{"id": "m1", "role": "user", "content": "greet her"}]
            first = await client.post("/agui", json={**body, "runId": "r1", "messages": said}, timeout=60)
            assert "TOOL_CALL_START" in first.text, first.text
            (owned,) = owner._threads.loaded
            call_id = (await last_tool(owner)).call_id
            said += [{"id": "m2", "role": "tool", "toolCallId": call_id, "content": "hello Ada"}]
            second = await client.post("/agui", json={**body, "runId": "r2", "messages": said}, timeout=60)
            assert "Greeted." in second.text, second.text
        done = await last_tool(owner, owned)
    assert (done.status, done.result and done.result.text) == ("completed", "hello Ada")
