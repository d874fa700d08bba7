"""A turn with an output schema ends with an answer that matches it, or fails and says why; on every protocol."""

from pathlib import Path
from typing import Any

import pytest

from flint_support import Talk, talking, wired
from hames.clock_and_ids import SystemClock
from hames.domain.items import TextInput
from hames.protocols.bootstrap.session import BootstrapSession
from hames.providers.catalogue import Catalogue
from hames.testing.fakes.model import OneModel, ScriptedModel, hang, say
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.chat import CHAT
from hames.testing.services.openai import OPENAI
from hames.testing.services.server import Dialect, ProviderServer, ServerTalk, Words, talk
from server_support import events, following, http, running
from support import BareAgent, engine

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
CLIENTS = ("some-editor", "codex-some-editor")
SERVED: dict[str, tuple[Dialect, str]] = {
    "anthropic": (ANTHROPIC, "anthropic/claude-sonnet-5-5"),
    "openai": (OPENAI, "openai/gpt-6.1-sol"),
    "local": (CHAT, "local/qwen"),
}


def agent_messages(flint: Talk) -> list[str]:
    told = [params["item"] for params in flint.params("item/completed")]
    return [item["text"] for item in told if item["type"] == "agentMessage"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", SERVED)
async def test_the_schema_reaches_every_model_service_and_one_wrong_answer_is_repaired(name: str, client: str) -> None:
    dialect, model = SERVED[name]
    async with ProviderServer(dialect, talk("three"), talk('{"n": 3}')) as server:
        environment = {
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.url + "/v1",
            "LOCAL_BASE_URL": server.url + "/v1",
        }
        models = Catalogue(environment, clock=SystemClock(), default=model)
        async with engine(models, clock=SystemClock()) as house, talking(house, client) as flint:
            ended = await flint.prompt(await flint.start(), "count", outputSchema=SCHEMA)
            assert (ended["turn"]["status"], agent_messages(flint)[-1]) == ("completed", '{"n": 3}')
        await models.aclose()
    first, second = (seen.raw.decode() for seen in server.seen)
    assert "fits this JSON Schema" in first
    assert "additionalProperties" in first
    assert "That was not the JSON asked for" in second


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("replies", "complaint"),
    [
        (('{"n": "3"}', '{"n": "4"}'), "`n` must be an integer"),
        (("no", "never"), "it is not JSON"),
        (('{"m": 1}', "{}"), "`n` is missing"),
        (("...", "null"), "must be an object"),
    ],
)
async def test_an_answer_that_still_does_not_match_fails_the_turn_in_words(
    client: str, replies: tuple[str, str], complaint: str
) -> None:
    model = ScriptedModel(*([say(text)] for text in replies))
    async with engine(model) as house, talking(house, client) as flint:
        turn = (await flint.prompt(await flint.start(), "count", outputSchema=SCHEMA))["turn"]
    assert turn["status"] == "failed"
    assert "the answer does not match the schema" in turn["error"]["message"]
    assert complaint in turn["error"]["message"]
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    "parts",
    [
        (Words(text='Here it is:\n```json\n{"n": 3}\n```'),),
        (Words(text="Here it is:"), Words(text='{"n": 3}')),
        (Words(text='{"n":3}'),),
    ],
    ids=["in a code block", "in a text block of its own", "alone"],
)
async def test_the_last_message_is_the_answer_and_nothing_else(parts: tuple[Words, ...]) -> None:
    async with ProviderServer(ANTHROPIC, ServerTalk(parts=parts)) as server:
        models = Catalogue({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}, clock=SystemClock())
        async with engine(models, clock=SystemClock()) as house, talking(house) as flint:
            ended = await flint.prompt(await flint.start(), "count", outputSchema=SCHEMA)
        await models.aclose()
    assert (ended["turn"]["status"], agent_messages(flint)[-1]) == ("completed", '{"n":3}')
    assert len(server.seen) == 1


async def test_a_turn_without_a_schema_says_what_it_likes() -> None:
    model = ScriptedModel([say('{"n": 3}')], [say("three")])
    async with engine(model) as house, talking(house, "codex-some-editor") as flint:
        thread_id = await flint.start()
        await flint.prompt(thread_id, "count", outputSchema=SCHEMA)
        ended = await flint.prompt(thread_id, "again", outputSchema=None)
        assert ended["turn"]["status"] == "completed"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("schema", ["object", 3, [SCHEMA]])
async def test_a_schema_that_is_no_object_is_refused(client: str, schema: Any) -> None:
    async with engine(ScriptedModel()) as house, talking(house, client) as flint:
        thread_id = await flint.start()
        text = [{"type": "text", "text": "go"}]
        answer = await flint.answer("turn/start", threadId=thread_id, input=text, outputSchema=schema)
        assert "outputSchema" in answer["error"]["message"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_queued_prompt_keeps_its_schema(client: str) -> None:
    model = ScriptedModel([hang()], [say('{"n": "3"}')], [say('{"n": 3}')])
    async with engine(model) as house, talking(house, client) as flint:
        thread_id = await flint.start()
        text = [{"type": "text", "text": "count"}]
        begun = await flint.call("turn/start", threadId=thread_id, input=text)
        for _ in range(2):  # an interrupt holds the queue until somebody queues again
            await flint.call("thread/queue/add", threadId=thread_id, input=text, outputSchema=SCHEMA)
            if len(model.requests) == 1:
                await flint.call("turn/interrupt", threadId=thread_id, turnId=begun["turn"]["id"])
                await flint.until("turn/completed")
        ended = await flint.until("turn/completed")
        assert ended["params"]["turn"]["status"] == "completed"
        assert agent_messages(flint)[-1] == '{"n": 3}'


async def test_an_agent_that_knows_no_schema_gets_it_with_the_prompt() -> None:
    agent = BareAgent("three", '{"n": 3}')
    async with engine(OneModel(ScriptedModel()), agents={"scripted": agent}) as house, talking(house) as flint:
        ended = await flint.prompt(await flint.start(), "count", outputSchema=SCHEMA)
    assert ended["turn"]["status"] == "completed"
    first, second = agent.prompts
    assert isinstance(first.content[-1], TextInput)
    assert "fits this JSON Schema" in first.content[-1].text
    assert isinstance(second.content[0], TextInput)
    assert "That was not the JSON asked for" in second.content[0].text


async def test_a_schema_over_bootstrap_holds() -> None:
    model = ScriptedModel([say("three")], [say('{"n": 3}')], [say("x")], [say("y")])
    async with engine(model) as house, wired(house, BootstrapSession()) as wire:
        client = Talk(wire, version="2.0")
        await client.call("initialize", clientInfo={"name": "test", "version": "1"})
        thread_id = (await client.call("thread.create"))["thread"]["threadId"]
        turn = {"threadId": thread_id, "input": [{"type": "text", "text": "count"}], "outputSchema": SCHEMA}
        await client.call("turn.start", **turn)
        await client.until("turn.completed")
        assert len(model.requests) == 2
        await client.call("turn.start", **turn)
        failed = await client.until("turn.error")
        assert "does not match the schema" in str(failed)


async def test_a_schema_over_http_and_sync_holds(tmp_path: Path) -> None:
    model = ScriptedModel([say("three")], [say('{"n": 3}')], [say("x")], [say('{"n": 4}')])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        events(client) as reader,
    ):
        answer = await client.post("/prompt", json={"content": "count", "outputSchema": SCHEMA})
        assert answer.status_code == 200
        await reader.until("status", state="idle")
        assert reader.events[-2]["content"] == '{"n": 3}'
        refused = await client.post("/prompt", json={"content": "count", "outputSchema": "x"})
        assert refused.status_code == 400
        async with following(server, answer.json()["threadId"]) as page:
            await page.send({"type": "submit", "prompt": "again", "outputSchema": SCHEMA})
            await page.until(lambda state: '{"n": 4}' in str(state["messages"]) and state["status"] == "idle")
    assert len(model.requests) == 4
