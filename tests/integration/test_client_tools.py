"""Tools that a client declares and carries out itself, on the wire: declared, called, answered, and the client gone."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from flint_support import Message, Talk, talking
from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.domain.items import ToolCall
from hames.domain.models import ModelCard
from hames.domain.options import ClientTool
from hames.domain.policy import AgentName
from hames.domain.request import ResultBlock
from hames.providers.catalogue import Catalogue
from hames.providers.single_model import SingleModel
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.chat import CHAT
from hames.testing.services.openai import OPENAI
from hames.testing.services.server import Dialect, ProviderServer, talk, use
from support import BareAgent, created, engine, started, turn_end

CLIENTS = ("some-editor", "codex-some-editor")
SERVED: dict[str, tuple[Dialect, str]] = {
    "anthropic": (ANTHROPIC, "anthropic/claude-sonnet-5-5"),
    "openai": (OPENAI, "openai/gpt-6.1-sol"),
    "local": (CHAT, "local/qwen"),
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "weather", "description": "The weather of a city", "inputSchema": SCHEMA}
SUNNY = {"contentItems": [{"type": "inputText", "text": "Sunny, 21 degrees"}], "success": True}


async def begin(flint: Talk, thread_id: str) -> None:
    await flint.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])


async def asked(flint: Talk) -> Message:
    return await flint.until("item/tool/call")


def last_tool(house: Engine) -> ToolCall:
    (thread_id,) = house._threads.loaded
    state = house.loaded(thread_id)
    assert state is not None
    return [item for turn in state.turns for item in turn.items if isinstance(item, ToolCall)][-1]


@asynccontextmanager
async def served(name: str) -> AsyncGenerator[tuple[Engine, ProviderServer]]:
    dialect, model = SERVED[name]
    async with ProviderServer(dialect, use("weather", city="Oslo"), talk("Take sunglasses.")) as server:
        environment = {
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.url + "/v1",
            "LOCAL_BASE_URL": server.url + "/v1",
        }
        models = Catalogue(environment, clock=SystemClock(), default=model)
        async with engine(models, clock=SystemClock(), policy="always") as house:
            yield house, server
        await models.aclose()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", SERVED)
async def test_a_call_goes_to_the_client_and_its_answer_to_the_model(name: str, client: str) -> None:
    async with served(name) as (house, server), talking(house, client) as flint:
        thread_id = await flint.start(dynamicTools=[WEATHER])
        await begin(flint, thread_id)
        question = await asked(flint)
        params = question["params"]
        assert (params["tool"], params["arguments"], params["namespace"]) == ("weather", {"city": "Oslo"}, None)
        assert params["threadId"] == thread_id
        started = [told["item"]["id"] for told in flint.params("item/started")]
        assert params["callId"] in started
        await flint.say({"id": question["id"], "result": SUNNY})
        ended = await flint.until("turn/completed")
        assert ended["params"]["turn"]["status"] == "completed"
        assert "requestApproval" not in str(flint.methods())
    first, second = (seen.raw.decode() for seen in server.seen)
    assert "The weather of a city" in first
    assert "Sunny, 21 degrees" in second
    (done,) = [told["item"] for told in flint.params("item/completed") if told["item"]["id"] == params["callId"]]
    assert done["status"] == "completed"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"error": {"code": -32000, "message": "the radar is broken"}}, "the radar is broken"),
        ({"error": {"code": -32601, "message": ""}}, "did not carry out 'weather'"),
        (
            {"result": {"contentItems": [{"type": "inputText", "text": "no such city"}], "success": False}},
            "no such city",
        ),
        ({"result": {"contentItems": "x", "success": True}}, "contentItems"),
        ({"result": {"contentItems": []}}, "success"),
        ({"result": None}, "contentItems"),
        ({"result": 7}, "contentItems"),
    ],
)
async def test_a_tool_that_failed_is_a_result_the_model_reads(client: str, answer: Message, words: str) -> None:
    model = ScriptedModel([call("weather", city="Oslo")], [say("Too bad.")])
    async with engine(model) as house, talking(house, client) as flint:
        await begin(flint, await flint.start(dynamicTools=[WEATHER]))
        await flint.say({"id": (await asked(flint))["id"], **answer})
        ended = await flint.until("turn/completed")
        assert ended["params"]["turn"]["status"] == "completed"
        done = last_tool(house)
    assert done.status == "failed"
    assert done.result is not None
    assert words in done.result.text


async def test_pictures_reach_the_model_and_other_content_is_named() -> None:
    gif = base64.b64encode(b"GIF89a" + bytes([64, 0, 32, 0])).decode()
    content = [
        {"type": "inputImage", "imageUrl": f"data:image/gif;base64,{gif}"},
        {"type": "inputImage", "imageUrl": "https://example.org/map.png"},
        {"type": "inputImage", "imageUrl": "data:image/png;base64,????"},
        {"type": "inputAudio", "audioUrl": "data:audio/wav;base64,AAAA"},
    ]
    model = ScriptedModel([call("weather", city="Oslo")], [say("I see.")])
    async with engine(model) as house, talking(house) as flint:
        await begin(flint, await flint.start(dynamicTools=[WEATHER]))
        await flint.say({"id": (await asked(flint))["id"], "result": {"contentItems": content, "success": True}})
        await flint.until("turn/completed")
        result = last_tool(house).result
    assert result is not None
    assert [picture.media_type for picture in result.pictures] == ["image/gif"]
    assert "https://example.org/map.png" in result.text
    assert "a picture that cannot be shown" in result.text
    assert "inputAudio that cannot be shown" in result.text


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_that_goes_during_the_call_fails_the_tool_and_not_the_turn(client: str) -> None:
    model = ScriptedModel([call("weather", city="Oslo")], [say("Too bad.")])
    async with engine(model) as house, talking(house, "another") as watching:
        async with talking(house, client) as flint:
            thread_id = await flint.start(dynamicTools=[WEATHER])
            (own_id,) = house._threads.loaded
            await watching.call("thread/resume", threadId=own_id)
            await begin(flint, thread_id)
            await asked(flint)
        ended = await watching.until("turn/completed")
        assert ended["params"]["turn"]["status"] == "completed"
        assert "item/tool/call" not in watching.methods()
        result = last_tool(house).result
    assert result is not None
    assert "the client has gone" in result.text


async def test_without_a_client_the_tool_fails_in_words() -> None:
    model = ScriptedModel([call("weather", city="Oslo")], [say("Too bad.")])
    async with engine(model) as house, talking(house, "another") as watching:
        async with talking(house) as flint:
            thread_id = await flint.start(dynamicTools=[WEATHER])
        await begin(watching, thread_id)
        await watching.until("turn/completed")
        result = last_tool(house).result
    assert result is not None
    assert "no client that carries out 'weather' is connected" in result.text


async def test_an_interrupt_ends_the_call_and_a_late_answer_changes_nothing() -> None:
    model = ScriptedModel([call("weather", city="Oslo")], [say("Hello.")])
    async with engine(model) as house, talking(house, "codex-some-editor") as flint:
        thread_id = await flint.start(dynamicTools=[WEATHER])
        await begin(flint, thread_id)
        question = await asked(flint)
        await flint.call("turn/interrupt", threadId=thread_id, turnId=question["params"]["turnId"])
        ended = await flint.until("turn/completed")
        assert ended["params"]["turn"]["status"] == "interrupted"
        await flint.say({"id": question["id"], "result": SUNNY})
        assert (await flint.prompt(thread_id))["turn"]["status"] == "completed"


async def test_tools_survive_a_restart_for_a_codex_client_that_only_resumes(tmp_path: Path) -> None:
    def store() -> JsonlStore:
        return JsonlStore(tmp_path / "data", places=Places(tmp_path / "state"))

    async with engine(ScriptedModel(), store=store()) as house, talking(house, "codex-some-editor") as flint:
        thread_id = await flint.start(dynamicTools=[WEATHER])
    model = ScriptedModel([call("weather", city="Oslo")], [say("Fine.")])
    async with engine(model, store=store()) as house, talking(house, "codex-some-editor") as flint:
        await flint.call("thread/resume", threadId=thread_id)
        await begin(flint, thread_id)
        await flint.say({"id": (await asked(flint))["id"], "result": SUNNY})
        await flint.until("turn/completed")
        assert last_tool(house).status == "completed"


async def test_tools_of_a_namespace_have_its_name_in_front() -> None:
    inner = {"type": "function", "name": "weather", "description": "Weather", "inputSchema": SCHEMA}
    space = {"type": "namespace", "name": "city", "description": "Cities", "tools": [inner]}
    older = {"name": "time", "description": "The time", "inputSchema": {}}
    model = ScriptedModel([call("city__weather", city="Oslo")], [say("Fine.")])
    async with engine(model) as house, talking(house, "codex-some-editor") as flint:
        await begin(flint, await flint.start(dynamicTools=[space, older]))
        question = await asked(flint)
        assert (question["params"]["namespace"], question["params"]["tool"]) == ("city", "weather")
        await flint.say({"id": question["id"], "result": SUNNY})
        await flint.until("turn/completed")
    offered = {tool.name: tool for tool in model.requests[0].tools}
    assert {"city__weather", "time"} <= set(offered)
    assert offered["time"].schema["type"] == "object"


async def test_arguments_are_checked_before_the_client_is_asked() -> None:
    model = ScriptedModel([call("weather", town="Oslo")], [say("Sorry.")])
    async with engine(model) as house, talking(house) as flint:
        await begin(flint, await flint.start(dynamicTools=[WEATHER]))
        await flint.until("turn/completed")
        assert "item/tool/call" not in flint.methods()
        assert last_tool(house).status == "failed"


async def test_the_client_that_declared_the_tools_is_asked_and_no_other() -> None:
    model = ScriptedModel([call("weather", city="Oslo")], [say("Fine.")])
    async with engine(model) as house, talking(house) as flint, talking(house, "codex-other") as other:
        thread_id = await flint.start(dynamicTools=[WEATHER])
        listed = await other.call("thread/list")
        await other.call("thread/resume", threadId=listed["data"][0]["id"])
        await begin(flint, thread_id)
        await flint.say({"id": (await asked(flint))["id"], "result": SUNNY})
        await flint.until("turn/completed")
        await other.until("turn/completed")
        assert "item/tool/call" not in other.methods()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([{**WEATHER, "name": "two words"}], "dynamicTools[0].name"),
        ([{**WEATHER, "name": ""}], "dynamicTools[0].name"),
        ([{**WEATHER, "name": "x" * 65}], "dynamicTools[0].name"),
        ([{**WEATHER, "name": "mcp__files__read"}], "mcp__"),
        ([WEATHER, WEATHER], "two tools 'weather'"),
        ([{**WEATHER, "inputSchema": "x"}], "inputSchema"),
        ([{**WEATHER, "type": "magic"}], "dynamicTools"),
        ([{"name": "x"}], "description"),
        (["x"], "dynamicTools"),
        ("x", "dynamicTools"),
        ([{**WEATHER, "name": f"t{number}"} for number in range(201)], "more than 200"),
    ],
)
async def test_a_declaration_that_makes_no_sense_is_refused(client: str, tools: Any, words: str) -> None:
    async with engine(ScriptedModel()) as house, talking(house, client) as flint:
        answer = await flint.answer("thread/start", dynamicTools=tools)
        assert words in answer["error"]["message"]


async def test_an_agent_that_cannot_use_them_refuses_tools_in_words() -> None:
    model = OneModel(ScriptedModel())
    async with engine(model, agents={"scripted": BareAgent()}) as house, talking(house) as flint:
        thread_id = await flint.start(dynamicTools=[WEATHER])
        answer = await flint.answer("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        assert "tools that a client carries out" in answer["error"]["message"]


async def test_two_calls_can_wait_for_two_clients() -> None:
    model = ScriptedModel([call("weather", city="Oslo")], [call("weather", city="Rome")], [say("a")], [say("b")])
    async with engine(model) as house, talking(house) as one, talking(house) as two, anyio.create_task_group() as tasks:

        async def whole(flint: Talk) -> None:
            await begin(flint, await flint.start(dynamicTools=[WEATHER]))
            await flint.say({"id": (await asked(flint))["id"], "result": SUNNY})
            await flint.until("turn/completed")

        tasks.start_soon(whole, one)
        tasks.start_soon(whole, two)


@pytest.mark.parametrize("agent", ["plan", "review"])
async def test_a_mode_that_changes_nothing_does_not_offer_tools_of_the_client(agent: AgentName) -> None:
    """Nobody knows whether they change something."""
    model = ScriptedModel([call("weather", city="Oslo")], [say("Then not.")])
    weather = ClientTool(name="weather", description="The weather of a city", schema=SCHEMA)
    card = ModelCard(provider="p", model="m", display_name="m")
    async with engine(SingleModel(model, card), clock=SystemClock(), policy="never") as house:
        thread = await created(house, agent=agent, client_tools=(weather,))
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        await turn_end(watcher)
        watcher.close()
        first, second = model.requests
        assert "weather" not in [tool.name for tool in first.tools]
        [result] = [block for block in second.messages[-1].blocks if isinstance(block, ResultBlock)]
        assert result.failed and f"in {agent} mode" in result.text
