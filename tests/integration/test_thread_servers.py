"""MCP servers that a client names for one thread: started for it alone, and gone with it. Real programs, real SDK."""

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from flint_support import SELECTORS, Message, Talk, talking
from hames.app import open_engine
from hames.config.load import load
from hames.core.engine import Engine
from hames.testing.fakes.model import OneModel, ScriptedModel, Step, call, say
from support import BareAgent, engine

SERVER = Path(__file__).with_name("mcp_server.py")
CLIENTS = ("some-editor", "codex-some-editor")
SECRET = "sk-very-secret-value"


def server(*words: str, **members: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(SERVER), *words], "startup_timeout_sec": 120, **members}


@asynccontextmanager
async def engine_at(tmp_path: Path, *replies: list[Step]) -> AsyncGenerator[tuple[Engine, ScriptedModel]]:
    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "config.toml").touch()
    model = ScriptedModel(*replies)
    environment = {
        "HOME": str(tmp_path),
        "HAMES_CONFIG": str(tmp_path / "config.toml"),
        "HAMES_STATE": str(tmp_path / "state"),
        "PATH": os.environ["PATH"],
    }
    options = load({"cwd": str(tmp_path / "work")}, environment)
    async with open_engine(options, models=OneModel(model)) as the_engine:
        yield the_engine, model


async def slowly(flint: Talk, wanted: Callable[[Message], bool]) -> Message:
    """As `until`, for what waits for a program to start."""
    with anyio.fail_after(120):
        while True:
            try:
                return await flint.until(wanted)
            except TimeoutError:
                continue


async def run_turn(flint: Talk, thread_id: str, **params: Any) -> Message:
    await flint.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}], **params)
    return (await slowly(flint, lambda message: message.get("method") == "turn/completed"))["params"]["turn"]


def mcp_calls(flint: Talk) -> list[Message]:
    return [item for params in flint.params("item/completed") if (item := params["item"])["type"] == "mcpToolCall"]


def tools(model: ScriptedModel, number: int = -1) -> set[str]:
    return {tool.name for tool in model.requests[number].tools if tool.name.startswith("mcp__")}


def warnings(flint: Talk) -> str:
    told = [message["params"].get("message", "") for message in flint.heard if "params" in message]
    return "\n".join(words for words in told if isinstance(words, str))


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_clients_server_is_offered_to_its_thread_and_to_no_other(client: str, tmp_path: Path) -> None:
    replies = [call("mcp__mine__add", a=1, b=2)], [say("3")], [say("nothing")]
    async with engine_at(tmp_path, *map(list, replies)) as (the_engine, model), talking(the_engine, client) as flint:
        mine = await flint.start(approvalPolicy="never", config={"mcp_servers": {"mine": server()}})
        assert (await run_turn(flint, mine))["status"] == "completed"
        other = await flint.start()
        await run_turn(flint, other)
        listed = await flint.call("mcpServerStatus/list", threadId=mine)
        assert [one["name"] for one in listed["data"]] == ["mine"]
    assert "mcp__mine__add" in tools(model, 0)
    assert tools(model, 2) == set()
    (added,) = mcp_calls(flint)
    assert (added["server"], added["tool"], added["status"]) == ("mine", "add", "completed")


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_clients_server_is_asked_about_like_any_other(client: str, tmp_path: Path) -> None:
    replies = [call("mcp__mine__add", a=1, b=2)], [say("declined")]
    async with engine_at(tmp_path, *map(list, replies)) as (the_engine, _), talking(the_engine, client) as flint:
        policy = "untrusted" if client.startswith("codex") else "unlessTrusted"
        thread_id = await flint.start(approvalPolicy=policy, config={"mcp_servers": {"mine": server()}})
        await flint.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        asked = await slowly(flint, lambda message: "requestApproval" in message.get("method", ""))
        await flint.say({"id": asked["id"], "result": {"decision": "decline"}})
        await slowly(flint, lambda message: message.get("method") == "turn/completed")
        assert [item["status"] for item in mcp_calls(flint)] != ["completed"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_values_of_the_environment_are_in_no_file_and_a_restart_says_so(client: str, tmp_path: Path) -> None:
    config = {"mcp_servers": {"mine": server(env={"API_KEY": SECRET})}}
    async with engine_at(tmp_path, [say("one")]) as (the_engine, model), talking(the_engine, client) as flint:
        thread_id = await flint.start(config=config)
        await run_turn(flint, thread_id)
        assert tools(model)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    async with (
        engine_at(tmp_path, [say("two")], [say("three")]) as (the_engine, model),
        talking(the_engine, client) as flint,
    ):
        await flint.call("thread/resume", threadId=thread_id)
        assert (await run_turn(flint, thread_id))["status"] == "completed"
        assert "the value of API_KEY is not saved with the thread" in warnings(flint)
        assert tools(model) == set()
        await flint.call("thread/resume", threadId=thread_id, config=config)
        await run_turn(flint, thread_id)
        assert "mcp__mine__add" in tools(model)


async def test_a_server_without_secrets_is_there_after_a_restart_and_in_a_fork(tmp_path: Path) -> None:
    async with engine_at(tmp_path, [say("one")]) as (the_engine, _), talking(the_engine) as flint:
        thread_id = await flint.start(config={"mcp_servers": {"mine": server()}})
        await run_turn(flint, thread_id)
    async with (
        engine_at(tmp_path, [say("two")], [say("three")]) as (the_engine, model),
        talking(the_engine) as flint,
    ):
        await run_turn(flint, thread_id)
        assert "mcp__mine__add" in tools(model)
        forked = await flint.call("thread/fork", threadId=thread_id)
        await run_turn(flint, forked["thread"]["id"])
        assert "mcp__mine__add" in tools(model)


def process_with(marker: str) -> int | None:
    """The process with this word in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes():
                return int(path.parent.name)
        except OSError:
            continue
    return None


async def test_servers_that_are_named_anew_take_the_place_of_the_old_and_end_with_the_thread(tmp_path: Path) -> None:
    first, second = f"first-{tmp_path.name}-{os.getpid()}", f"second-{tmp_path.name}-{os.getpid()}"
    replies = [say("one")], [say("two")]
    async with engine_at(tmp_path, *map(list, replies)) as (the_engine, model), talking(the_engine) as flint:
        thread_id = await flint.start(config={"mcp_servers": {"one": server(first)}})
        await run_turn(flint, thread_id)
        assert process_with(first)
        await flint.call("thread/resume", threadId=thread_id, config={"mcp_servers": {"two": server(second)}})
        await run_turn(flint, thread_id)
        assert {name.split("__")[1] for name in tools(model)} == {"two"}
        assert not process_with(first)
        running = process_with(second)
        assert running is not None
        ended = os.pidfd_open(running)
        await flint.call("thread/delete", threadId=thread_id)
        with anyio.fail_after(60):
            await anyio.wait_readable(ended)
        os.close(ended)


async def test_always_for_a_tool_ends_when_the_server_becomes_another(tmp_path: Path) -> None:
    replies = [call("mcp__mine__add", a=1, b=2)], [say("3")], [call("mcp__mine__add", a=1, b=2)], [say("3")]
    async with engine_at(tmp_path, *map(list, replies)) as (the_engine, _), talking(the_engine) as flint:
        thread_id = await flint.start(config={"mcp_servers": {"mine": server()}})
        for number in range(2):
            await flint.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
            asked = await slowly(flint, lambda message: "requestApproval" in message.get("method", ""))
            decision = "acceptForSession" if number == 0 else "decline"
            await flint.say({"id": asked["id"], "result": {"decision": decision}})
            await slowly(flint, lambda message: message.get("method") == "turn/completed")
            if number == 0:
                other = {"mcp_servers": {"mine": server("other")}}
                await flint.call("thread/resume", threadId=thread_id, config=other)


async def test_tools_can_be_left_out(tmp_path: Path) -> None:
    some = server(enabled_tools=["add", "fail"], disabled_tools=["fail"])
    async with engine_at(tmp_path, [say("one")]) as (the_engine, model), talking(the_engine) as flint:
        config = {"mcp_servers": {"some": some, "off": server(enabled=False)}}
        await run_turn(flint, await flint.start(config=config))
    assert tools(model) == {"mcp__some__add"}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"mcp_servers": {"x": {}}}, "config.mcp_servers.x: needs either a command or a url"),
        ({"mcp_servers": {"x": {"command": "a", "url": "http://b"}}}, "needs either a command or a url"),
        ({"mcp_servers": {"x": {"url": "file:///b"}}}, "config.mcp_servers.x.url"),
        ({"mcp_servers": {"x": {"command": 3}}}, "config.mcp_servers.x: Expected `str`"),
        ({"mcp_servers": {"x": {"command": "a", "startup_timeout_sec": -1}}}, "timeout"),
        ({"mcp_servers": []}, "config.mcp_servers"),
        ({"mcp_servers.x.command": 3}, "config.mcp_servers.x"),
        ({"approval_policy": "sometimes"}, "config.approval_policy"),
        ({"sandbox_mode": "open"}, "config.sandbox_mode"),
        ({"model": 3}, "config.model"),
        ({"model": "x", "model.y": 1}, "config.model.y"),
        ({"sandbox_workspace_write": {"network_access": "yes"}}, "config.sandbox_workspace_write.network_access"),
        ("model=x", "config"),
    ],
)
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_config_that_makes_no_sense_is_refused(client: str, config: Any, words: str) -> None:
    async with engine(ScriptedModel()) as the_engine, talking(the_engine, client) as flint:
        answer = await flint.answer("thread/start", config=config)
        assert words in answer["error"]["message"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("dotted", [False, True])
async def test_keys_of_config_take_effect(client: str, tmp_path: Path, *, dotted: bool) -> None:
    config: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
    config |= {"developer_instructions": "Answer in rhyme", "personality": "pragmatic"}
    if dotted:
        config |= {"sandbox_workspace_write.network_access": True}
    else:
        config |= {"sandbox_workspace_write": {"network_access": True, "writable_roots": [str(tmp_path)]}}
    model = ScriptedModel([say("Done.")])
    async with engine(model) as the_engine, talking(the_engine, client) as flint:
        opened = await flint.call("thread/start", config=config)
        assert opened["approvalPolicy"] == "never"
        assert opened["sandbox"]["networkAccess"] is True
        assert opened["sandbox"]["writableRoots"] == ([] if dotted else [str(tmp_path)])
        await flint.prompt(opened["thread"]["id"])
    assert "Answer in rhyme" in model.requests[0].system
    assert "pragmatic" in model.requests[0].system


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("method", ["thread/start", "thread/resume", "thread/fork"])
async def test_a_key_of_config_without_effect_is_named_in_a_notice(client: str, method: str) -> None:
    config = {
        "model_verbosity": "low",
        "features": {"web_search": True, "cwd_relative_turn_diffs": True},
        "projects": {"/w": {"trust_level": "trusted"}},
        "tools": {"view_image": False},
        "mcp_servers": {"x": {"command": "a", "required": True}},
    }
    async with engine(ScriptedModel()) as the_engine, talking(the_engine, client) as flint:
        thread_id = await flint.start()
        where = {} if method == "thread/start" else {"threadId": thread_id}
        flint.forget()
        await flint.call(method, config=config, **where)
        await flint.until(lambda message: "mcp_servers.x.required" in str(message.get("params")))
    told = warnings(flint)
    for key in ("model_verbosity", "features.web_search", "tools.view_image", "mcp_servers.x.required"):
        assert f"config.{key} has no effect" in told
    assert "cwd_relative" not in told
    assert "trust_level" not in told


async def test_details_of_a_sandbox_do_not_turn_it_on() -> None:
    config = {"sandbox_workspace_write": {"network_access": True}}
    async with engine(ScriptedModel()) as the_engine, talking(the_engine) as flint:
        opened = await flint.call("thread/start", sandbox={"type": "readOnly"}, config=config)
        assert opened["sandbox"]["type"] == "readOnly"
        opened = await flint.call("thread/start", sandbox={"type": "workspaceWrite"}, config=config)
        assert opened["sandbox"]["networkAccess"] is True


async def test_what_the_request_says_counts_more_than_its_config() -> None:
    config = {"approval_policy": "never", "developer_instructions": "In prose"}
    model = ScriptedModel([say("Done.")])
    async with engine(model) as the_engine, talking(the_engine) as flint:
        opened = await flint.call(
            "thread/start", approvalPolicy="always", developerInstructions="In rhyme", config=config
        )
        assert opened["approvalPolicy"] == "always"
        await flint.prompt(opened["thread"]["id"])
    assert "In rhyme" in model.requests[0].system
    assert "In prose" not in model.requests[0].system


async def test_an_agent_that_cannot_use_them_refuses_servers_in_words() -> None:
    model = OneModel(ScriptedModel())
    async with engine(model, agents={"scripted": BareAgent()}) as the_engine, talking(the_engine) as flint:
        thread_id = await flint.start(config={"mcp_servers": {"mine": server()}})
        answer = await flint.answer("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        assert "MCP servers" in answer["error"]["message"]


@pytest.mark.parametrize("method", ["thread/start", "thread/resume", "thread/fork"])
async def test_an_effort_that_the_model_does_not_know_does_not_stop_a_codex_client(method: str) -> None:
    models = OneModel(ScriptedModel(), selectors=SELECTORS)
    async with engine(models) as the_engine, talking(the_engine, "codex-some-editor") as flint:
        where = {} if method == "thread/start" else {"threadId": await flint.start()}
        opened = await flint.call(method, config={"model_reasoning_effort": "ultra"}, **where)
        assert opened["reasoningEffort"] is None
        opened = await flint.call(method, config={"model_reasoning_effort": "high"}, **where)
        assert opened["reasoningEffort"] == "high"
