"""What a client says about how to work reaches the model, whichever protocol it speaks and whoever serves the model."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flint_support import Talk, talking, wired
from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.core.prompts import BASE, PERSONALITIES
from hames.protocols.bootstrap.session import BootstrapSession
from hames.providers.catalogue import Catalogue
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import OneModel, ScriptedModel, say
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.chat import CHAT
from hames.testing.services.openai import OPENAI
from hames.testing.services.server import Dialect, ProviderServer, talk
from server_support import following, http, running
from support import ECHO, BareAgent, engine

SERVED: dict[str, tuple[Dialect, str]] = {
    "anthropic": (ANTHROPIC, "anthropic/claude-sonnet-5-5"),
    "openai": (OPENAI, "openai/gpt-6.1-sol"),
    "local": (CHAT, "local/qwen"),
}
GIVEN = {"developerInstructions": "Answer in rhyme", "baseInstructions": "You are a poet", "personality": "friendly"}
CLIENTS = ("some-editor", "codex-some-editor")
"""The second is spoken to in Codex's dialect."""


def system(body: Any) -> str:
    """The system prompt of a request, in any service's words."""
    if "instructions" in body:
        return body["instructions"]
    if "system" in body:
        return "".join(part["text"] for part in body["system"])
    return next((said["content"] for said in body["messages"] if said["role"] == "system"), "")


@asynccontextmanager
async def served(name: str, *replies: str, store: JsonlStore | None = None) -> AsyncGenerator[tuple[Engine, Any]]:
    """An engine whose models are served by a model server, and that server."""
    dialect, model = SERVED[name]
    async with ProviderServer(dialect, *map(talk, replies or ("Done.",)), then=talk("Done.")) as server:
        environment = {
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.url + "/v1",
            "LOCAL_BASE_URL": server.url + "/v1",
        }
        models = Catalogue(environment, clock=SystemClock(), default=model)
        async with engine(models, ECHO, clock=SystemClock(), store=store) as the_engine:
            yield the_engine, server
        await models.aclose()


def assert_poet(prompt: str) -> None:
    assert prompt.startswith("You are a poet")
    assert "Answer in rhyme" in prompt
    assert PERSONALITIES["friendly"] in prompt
    assert BASE not in prompt


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", SERVED)
async def test_instructions_of_a_thread_reach_every_model_service(name: str, client: str) -> None:
    async with served(name) as (the_engine, server), talking(the_engine, client) as flint:
        thread_id = await flint.start(model=SERVED[name][1], **GIVEN)
        assert (await flint.prompt(thread_id))["turn"]["status"] == "completed"
    assert_poet(system(server.seen[-1].body))


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_thread_without_instructions_has_our_own_system_prompt(client: str) -> None:
    async with served("anthropic") as (the_engine, server), talking(the_engine, client) as flint:
        given = dict.fromkeys(GIVEN)
        await flint.prompt(await flint.start(**given))
    prompt = system(server.seen[-1].body)
    assert prompt.startswith(BASE)
    assert not any(words and words in prompt for words in PERSONALITIES.values())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("method", ["thread/resume", "thread/fork", "turn/start", "thread/settings/update"])
async def test_instructions_may_come_later(client: str, method: str) -> None:
    async with served("anthropic", "One.", "Two.") as (the_engine, server), talking(the_engine, client) as flint:
        thread_id = await flint.start()
        await flint.prompt(thread_id)
        if method == "turn/start":
            await flint.prompt(thread_id, **GIVEN)
        else:
            answer = await flint.call(method, threadId=thread_id, **GIVEN)
            await flint.prompt(answer["thread"]["id"] if method == "thread/fork" else thread_id)
    assert system(server.seen[0].body).startswith(BASE)
    assert_poet(system(server.seen[1].body))


@pytest.mark.parametrize("client", CLIENTS)
async def test_instructions_survive_a_restart_and_a_fork(client: str, tmp_path: Path) -> None:
    def store() -> JsonlStore:
        return JsonlStore(tmp_path / "data", places=Places(tmp_path / "state"))

    async with served("anthropic", store=store()) as (the_engine, _), talking(the_engine, client) as flint:
        thread_id = await flint.start(**GIVEN)
        await flint.prompt(thread_id)
    async with served("anthropic", store=store()) as (the_engine, server), talking(the_engine, client) as flint:
        await flint.call("thread/resume", threadId=thread_id)
        await flint.prompt(thread_id)
        forked = await flint.call("thread/fork", threadId=thread_id)
        await flint.prompt(forked["thread"]["id"])
    for seen in server.seen:
        assert_poet(system(seen.body))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("member", "value"), [("developerInstructions", 3), ("baseInstructions", ["x"]), ("personality", "grumpy")]
)
async def test_instructions_of_a_wrong_type_are_refused(client: str, member: str, value: Any) -> None:
    async with served("anthropic") as (the_engine, _), talking(the_engine, client) as flint:
        answer = await flint.answer("thread/start", **{member: value})
        assert member in answer["error"]["message"]


async def test_instructions_of_a_collaboration_mode_are_added_and_end_with_it() -> None:
    def mode(words: str | None) -> Any:
        return {"mode": "default", "settings": {"model": "", "reasoning_effort": None, "developer_instructions": words}}

    async with served("anthropic") as (the_engine, server), talking(the_engine, "codex-some-editor") as flint:
        thread_id = await flint.start(developerInstructions="Answer in rhyme")
        await flint.prompt(thread_id, collaborationMode=mode("Ask before you act"))
        await flint.prompt(thread_id, collaborationMode=mode(None))
    first, second = (system(seen.body) for seen in server.seen)
    assert "Answer in rhyme" in first
    assert "Ask before you act" in first
    assert "Answer in rhyme" in second
    assert "Ask before you act" not in second


async def test_an_agent_that_cannot_take_instructions_refuses_the_turn_in_words() -> None:
    agents = {"scripted": BareAgent()}
    model = OneModel(ScriptedModel([say("Done.")]))
    async with engine(model, agents=agents) as the_engine, talking(the_engine, "codex-editor") as flint:
        thread_id = await flint.start(**GIVEN)
        answer = await flint.answer("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        assert "instructions" in answer["error"]["message"]


async def test_a_review_by_an_agent_that_cannot_take_instructions_is_refused_in_words() -> None:
    agent = BareAgent()
    agent.abilities = frozenset({"review"})
    model = OneModel(ScriptedModel())
    async with engine(model, agents={"scripted": agent}) as the_engine, talking(the_engine) as flint:
        thread_id = await flint.start(**GIVEN)
        answer = await flint.answer("review/start", threadId=thread_id, target={"type": "uncommittedChanges"})
        assert "instructions" in answer["error"]["message"]


async def test_instructions_of_a_page_reach_the_model(tmp_path: Path) -> None:
    async with (
        served("anthropic") as (the_engine, server),
        running(the_engine, tmp_path / "data") as web,
        http(web) as client,
    ):
        made = await client.post("/threads", json=GIVEN)
        assert made.status_code == 201
        thread_id = made.json()["thread"]["id"]
        async with following(web, thread_id) as page:
            await page.send({"type": "submit", "prompt": "go"})
            await page.until(lambda state: state["status"] == "idle" and len(state["messages"]) > 1)
            changed = {**GIVEN, "developerInstructions": "Answer in prose"}
            await page.send({"type": "configure", **changed}, {"type": "submit", "prompt": "again"})
            await page.until(lambda state: state["status"] == "idle" and len(state["messages"]) > 3)
    assert_poet(system(server.seen[0].body))
    assert "Answer in prose" in system(server.seen[1].body)


async def test_instructions_beside_a_prompt_over_http_reach_the_model(tmp_path: Path) -> None:
    async with (
        served("anthropic") as (the_engine, server),
        running(the_engine, tmp_path / "data") as web,
        http(web) as client,
    ):
        answer = await client.post("/prompt", json={"content": "go", **GIVEN})
        assert answer.status_code == 200
        await server.asked(1)
        refused = await client.post("/prompt", json={"content": "go", "personality": "grumpy"})
        assert refused.status_code == 400
    assert_poet(system(server.seen[0].body))


async def test_instructions_over_bootstrap_reach_the_model() -> None:
    async with served("anthropic") as (the_engine, server), wired(the_engine, BootstrapSession()) as wire:
        client = Talk(wire, version="2.0")
        await client.call("initialize", clientInfo={"name": "test", "version": "1"})
        made = await client.call("thread.create", **GIVEN)
        thread_id = made["thread"]["threadId"]
        text = [{"type": "text", "text": "go"}]
        await client.call("turn.start", threadId=thread_id, input=text)
        await client.until("turn.completed")
        await client.call("turn.start", threadId=thread_id, input=text, developerInstructions="Answer in prose")
        await client.until("turn.completed")
    assert_poet(system(server.seen[0].body))
    assert "Answer in prose" in system(server.seen[1].body)
