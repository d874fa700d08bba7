"""Tools of a client that is connected to another node than the one that runs its thread: nodes on one database."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from flint_support import Message, Talk, talking
from frozen_database import frozen_database
from hames.core.engine import Engine
from hames.domain.commands import ReadThread, SubmitPrompt
from hames.domain.errors import ThreadInUse
from hames.domain.ids import ThreadId
from hames.domain.items import TextInput, ToolCall
from hames.domain.state import ThreadState
from hames.server.peers import store_peers
from hames.server.peers.store_peers import StorePeers
from hames.testing.fakes.model import ScriptedModel, call, say
from hames.testing.services.postgres import Cluster
from node_support import end_lease, node
from support import created, turn_end

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "weather", "description": "The weather of a city", "inputSchema": SCHEMA}
SUNNY = {"contentItems": [{"type": "inputText", "text": "Sunny, 21 degrees"}], "success": True}
DONE = ScriptedModel([say("Done.")])


def weather_model() -> ScriptedModel:
    return ScriptedModel([call("weather", city="Oslo")], [say("Take sunglasses.")])


@asynccontextmanager
async def gateway_and_worker(database: str, model: ScriptedModel) -> AsyncGenerator[tuple[Engine, Engine]]:
    async with node(database, slots=0, name="gate") as gate, node(database, model, name="worker") as worker:
        yield gate, worker


async def begin(flint: Talk, thread_id: str) -> None:
    await flint.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])


async def asked(flint: Talk) -> Message:
    return await flint.until("item/tool/call")


async def last_tool(engine: Engine, thread_id: str) -> ToolCall:
    state = await engine.execute(ReadThread(thread_id=ThreadId(thread_id)))
    assert isinstance(state, ThreadState)
    return [item for turn in state.turns for item in turn.items if isinstance(item, ToolCall)][-1]


async def result_text(engine: Engine, thread_id: str) -> str:
    result = (await last_tool(engine, thread_id)).result
    assert result is not None
    return result.text


async def until_no_call_is_under_way(engine: Engine) -> None:
    peers = engine._sharing._peers
    assert isinstance(peers, StorePeers)
    with anyio.fail_after(60):
        while peers._under_way:
            await anyio.lowlevel.checkpoint()


async def test_a_call_goes_to_the_node_of_the_client_and_its_answer_to_the_model(database: str) -> None:
    model = weather_model()
    async with gateway_and_worker(database, model) as (gate, worker), talking(gate) as flint:
        thread_id = await flint.start(dynamicTools=[WEATHER])
        await begin(flint, thread_id)
        question = await asked(flint)
        assert (question["params"]["tool"], question["params"]["arguments"]) == ("weather", {"city": "Oslo"})
        await flint.say({"id": question["id"], "result": SUNNY})
        await flint.say({"id": question["id"], "result": {**SUNNY, "success": False}})
        assert (await flint.until("turn/completed"))["params"]["turn"]["status"] == "completed"
        assert worker._threads.loaded.keys() == {thread_id}
        done = await last_tool(worker, thread_id)
        await until_no_call_is_under_way(gate)
    assert (done.status, done.result and done.result.text) == ("completed", "Sunny, 21 degrees")
    model.assert_finished()


@pytest.mark.slow
async def test_a_client_that_goes_fails_the_call_in_words(database: str) -> None:
    async with gateway_and_worker(database, weather_model()) as (gate, worker):
        async with talking(gate) as flint:
            thread_id = await flint.start(dynamicTools=[WEATHER])
            await begin(flint, thread_id)
            await asked(flint)
            watcher = await worker.watch(ThreadId(thread_id))
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        assert "the client has gone" in await result_text(worker, thread_id)


@pytest.mark.slow
async def test_a_thread_without_a_client_says_so(database: str) -> None:
    async with gateway_and_worker(database, weather_model()) as (gate, worker):
        async with talking(gate) as flint:
            thread_id = await flint.start(dynamicTools=[WEATHER])
        watcher = await gate.watch(ThreadId(thread_id))
        await gate.execute(SubmitPrompt(thread_id=ThreadId(thread_id), content=(TextInput(text="go"),)))
        await turn_end(watcher)
        assert "no client that carries out 'weather' is connected" in await result_text(worker, thread_id)


@pytest.mark.slow
async def test_a_node_that_dies_fails_the_call_of_its_client_in_words(
    database: str, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_peers, "ALIVE_SECONDS", 0.2)
    async with gateway_and_worker(database, weather_model()) as (gate, worker), talking(gate) as flint:
        thread_id = await flint.start(dynamicTools=[WEATHER])
        await begin(flint, thread_id)
        await asked(flint)
        watcher = await worker.watch(ThreadId(thread_id))
        end_lease(postgres, database, "gate")
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        assert "'weather' has ended: the tool may or may not have run" in await result_text(worker, thread_id)
        await until_no_call_is_under_way(gate)


@pytest.mark.slow
async def test_an_interrupt_withdraws_the_call_from_the_client(database: str) -> None:
    model = ScriptedModel([call("weather", city="Oslo")], [say("Hello.")])
    async with gateway_and_worker(database, model) as (gate, _), talking(gate) as flint:
        thread_id = await flint.start(dynamicTools=[WEATHER])
        await begin(flint, thread_id)
        question = await asked(flint)
        await flint.call("turn/interrupt", threadId=thread_id, turnId=question["params"]["turnId"])
        assert (await flint.until("turn/completed"))["params"]["turn"]["status"] == "interrupted"
        await until_no_call_is_under_way(gate)
        await flint.say({"id": question["id"], "result": SUNNY})
        assert (await flint.prompt(thread_id))["turn"]["status"] == "completed"


@pytest.mark.slow
async def test_the_call_of_a_worker_that_dies_is_withdrawn_and_not_made_again(
    database: str, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_peers, "ALIVE_SECONDS", 0.2)
    async with (
        gateway_and_worker(database, weather_model()) as (gate, _),
        talking(gate) as flint,
    ):
        thread_id = await flint.start(dynamicTools=[WEATHER])
        await begin(flint, thread_id)
        await asked(flint)
        async with node(database, ScriptedModel([say("Done.")]), name="second"):
            end_lease(postgres, database, "worker")
            assert (await flint.until("turn/completed"))["params"]["turn"]["status"] == "completed"
            await until_no_call_is_under_way(gate)
        assert [one["method"] for one in flint.heard if "method" in one].count("item/tool/call") == 1
        assert (await last_tool(gate, thread_id)).status == "interrupted"


@pytest.mark.slow
async def test_of_three_nodes_the_one_whose_client_declared_the_tool_is_asked(database: str) -> None:
    async with (
        gateway_and_worker(database, weather_model()) as (gate, worker),
        node(database, slots=0, name="third") as third,
        talking(gate) as flint,
        talking(third, "codex-other") as codex,
        talking(worker, "codex-here") as here,
    ):
        thread_id = await flint.start(dynamicTools=[WEATHER])
        for one in (codex, here):  # these only resume it, and could carry it out if nobody had declared it
            await one.call("thread/resume", threadId=thread_id)
        await begin(flint, thread_id)
        await flint.say({"id": (await asked(flint))["id"], "result": SUNNY})
        for one in (flint, codex, here):
            await one.until("turn/completed")
        assert "item/tool/call" not in codex.methods() + here.methods()
        assert (await last_tool(worker, thread_id)).status == "completed"


@pytest.mark.slow
async def test_a_command_given_up_while_the_database_is_gone_says_that_it_may_run_and_does_not_run_later(
    database: str, postgres: Cluster
) -> None:
    name = database.partition("?")[0].rpartition("/")[2]
    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(node(database, slots=0, name="other"))
        thread = await created(other)
        relay = await stack.enter_async_context(frozen_database(postgres.home))
        gate = await stack.enter_async_context(node(relay.address(database), slots=0, name="gate"))
        refused: list[str] = []

        async def submit() -> None:
            with pytest.raises(ThreadInUse) as problem:
                await gate.execute(SubmitPrompt(thread_id=thread.id, content=(TextInput(text="first"),)))
            refused.append(str(problem.value))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(submit)
            with anyio.fail_after(60):
                while postgres.psql("select count(*) from hames.inbox", database=name).strip() != "1":
                    await anyio.sleep(0.05)
            relay.cut()
        assert "cannot be reached" in refused[0]
        assert "Whether it is carried out is not known: it may be, within a minute" in refused[0]
        postgres.psql("update hames.inbox set sent_at = sent_at - interval '60 seconds'", database=name)
        await stack.enter_async_context(node(database, ScriptedModel([say("Second.")]), name="worker"))
        watcher = await other.watch(thread.id)
        await other.execute(SubmitPrompt(thread_id=thread.id, content=(TextInput(text="second"),)))
        state = (await turn_end(watcher))[-1].after
        assert (len(state.turns), state.queue) == (1, ())
