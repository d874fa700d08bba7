"""A search command of the user's own: offered where the service does not search, run with one argument and no keys."""

import json
import os
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from flint_support import talking
from hames.app import open_engine
from hames.client.appserver.client import AppServerClient
from hames.client.appserver.events import ItemCompleted, ItemStarted, TurnCompleted
from hames.clock_and_ids import SystemClock
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.request import ResultBlock
from hames.protocols.flint.items import WebSearchItem
from hames.providers.source import web_search_selector
from hames.sandbox.local import LocalSandbox
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say
from hames.tools.registry import BuiltinTools, ToolLimits
from hames.tools.websearch import WebSearchLimits

FINDS = """\
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "names": sorted(os.environ)}))
"""


def search_program(folder: Path, text: str = FINDS) -> Path:
    program = folder / "my-search"
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)
    return program


def environment(tmp_path: Path, *words: str, also: str = "") -> dict[str, str]:
    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "config.toml").write_text(f"search_command = {json.dumps(list(words))}\n{also}")
    return {
        "HOME": str(tmp_path),
        "HAMES_CONFIG": str(tmp_path / "config.toml"),
        "HAMES_STATE": str(tmp_path / "state"),
        "PATH": os.environ["PATH"],
        "ANTHROPIC_API_KEY": "sk-not-for-others",
    }


@asynccontextmanager
async def searching(tmp_path: Path, model: ScriptedModel, *words: str, seconds: float = 30.0) -> AsyncGenerator[Engine]:
    options = load({"cwd": str(tmp_path / "work")}, environment(tmp_path, *words))
    limits = ToolLimits(web=WebSearchLimits(seconds=seconds, output_bytes=2_000))
    sandbox = LocalSandbox(environ=options.environment)
    tools = BuiltinTools(sandbox, SystemClock(), limits=limits, search_command=options.search_command)
    async with open_engine(options, models=OneModel(model), tools=tools) as engine:
        yield engine


def read_by(model: ScriptedModel) -> ResultBlock:
    blocks = [block for message in model.requests[-1].messages for block in message.blocks]
    (result,) = [block for block in blocks if isinstance(block, ResultBlock)]
    return result


async def searched(tmp_path: Path, query: str, *words: str, seconds: float = 30.0) -> ResultBlock:
    """What the model reads after a search."""
    model = ScriptedModel([call("web_search", query=query)], [say("Done.")])
    async with searching(tmp_path, model, *words, seconds=seconds) as engine, talking(engine) as talk:
        ended = await talk.prompt(await talk.start())
    assert ended["turn"]["status"] == "completed"
    (item,) = [item for item in ended["turn"]["items"] if item["type"] == "webSearch"]
    assert item["query"] == query
    return read_by(model)


async def test_a_process_that_speaks_flint_searches_with_the_users_program(tmp_path: Path) -> None:
    program = search_program(tmp_path, "import sys; print('about', sys.argv[1])")
    script = tmp_path / "script.json"
    script.write_text(json.dumps([[{"call": "web_search", "with": {"query": "what are hames"}}], "I read about it."]))
    env = {**environment(tmp_path, str(program)), "HAMES_MODEL": f"scripted/{script}"}
    command = [sys.executable, "-m", "hames", "app-server", "--cwd", str(tmp_path / "work")]
    told: list[Any] = []
    with anyio.fail_after(60):
        async with AppServerClient.spawn(command, env=env) as client:
            opened = await client.start_thread()
            with client.events(opened.thread.id) as heard:
                await client.start_turn(opened.thread.id, "go")
                async for event in heard:
                    if isinstance(event, ItemStarted | ItemCompleted) and isinstance(event.item, WebSearchItem):
                        told.append((type(event), event.item.query))
                    if isinstance(event, TurnCompleted):
                        break
    assert told == [(ItemStarted, "what are hames"), (ItemCompleted, "what are hames")]
    (log,) = (tmp_path / "work" / ".harness" / "threads").glob("*/events.jsonl")
    assert "about what are hames" in log.read_text()


async def test_the_query_is_one_argument_and_never_an_option(tmp_path: Path) -> None:
    program = str(search_program(tmp_path))
    for query, words, argv in (
        ("a b; $(touch x) 'c'", (program,), ["a b; $(touch x) 'c'"]),
        ("a b", (program, "--terms", "{query}", "-n3"), ["--terms", "a b", "-n3"]),
        ("a b", (program, "https://example.com/?q={query}"), ["https://example.com/?q=a b"]),
        ("--output=/x", (program, "{query}"), [" --output=/x"]),
        ("-site:x y", (program, "--terms={query}"), ["--terms=-site:x y"]),
    ):
        result = await searched(tmp_path, query, *words)
        assert json.loads(result.text)["argv"] == argv


async def test_the_program_starts_at_home_and_is_given_no_keys(tmp_path: Path) -> None:
    found = json.loads((await searched(tmp_path, "q", str(search_program(tmp_path)))).text)
    assert found["cwd"] == str(Path.home())
    assert not [name for name in found["names"] if "KEY" in name]


@pytest.fixture
def greeter() -> Iterator[int]:
    """A server on a loopback port that says hello."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"hello from outside")

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


async def test_it_reaches_the_network_where_commands_do_not(tmp_path: Path, greeter: int) -> None:
    text = f"import socket; print(socket.create_connection(('127.0.0.1', {greeter}), 5).recv(99).decode())"
    assert (await searched(tmp_path, "q", str(search_program(tmp_path, text)))).text == "hello from outside"


@pytest.mark.parametrize(
    ("text", "seconds", "failed", "words"),
    [
        ("print('x' * 100_000)", 30, False, "bytes omitted"),
        ("pass", 30, False, "nothing was found"),
        ("import sys; print('no quota'); sys.exit(3)", 30, True, "failed with exit code 3\nno quota"),
        ("import time; print('soon', flush=True); time.sleep(60)", 0.5, True, "took longer than 0.5 s"),
    ],
)
async def test_what_goes_wrong_is_read_by_the_model(
    tmp_path: Path, text: str, seconds: float, failed: bool, words: str
) -> None:
    result = await searched(tmp_path, "q", str(search_program(tmp_path, text)), seconds=seconds)
    assert result.failed is failed
    assert words in result.text
    assert len(result.text) < 2_200


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = await searched(tmp_path, "q", "/no/such/search")
    assert result.failed
    assert "/no/such/search" in result.text


def offered(model: ScriptedModel) -> list[str]:
    return [tool.name for tool in model.requests[0].tools if tool.name == "web_search"]


@pytest.mark.parametrize("agent", ["code", "plan"])
@pytest.mark.parametrize("configured", [True, False])
async def test_it_is_offered_to_every_agent_when_there_is_one(tmp_path: Path, configured: bool, agent: str) -> None:
    model = ScriptedModel([say("Hello.")])
    words = (str(search_program(tmp_path)),) if configured else ()
    async with searching(tmp_path, model, *words) as engine, talking(engine) as talk:
        await talk.call("config/set", id="agent", value=agent)
        await talk.prompt(await talk.start())
    assert offered(model) == ["web_search"] * configured
    assert ("write" in [tool.name for tool in model.requests[0].tools]) is (agent == "code")


async def test_it_is_not_offered_where_the_service_searches_itself(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello.")], [say("Hello.")])
    options = load({"cwd": str(tmp_path / "work")}, environment(tmp_path, str(search_program(tmp_path))))
    models = OneModel(model, selectors=(web_search_selector([OneModel(model).cards()[0]]),))
    async with open_engine(options, models=models) as engine, talking(engine) as talk:
        thread = await talk.start()
        await talk.call("config/set", id="web_search", value="on")
        await talk.prompt(thread)
        assert offered(model) == []
        await talk.call("config/set", id="web_search", value="off")
        await talk.prompt(thread)
    assert "web_search" in [tool.name for tool in model.requests[1].tools]


@pytest.mark.parametrize(("policy", "asked"), [("never", False), ("unlessTrusted", False), ("always", True)])
async def test_only_always_asks_about_what_the_user_set_up(tmp_path: Path, policy: str, asked: bool) -> None:
    program = search_program(tmp_path, "import pathlib; pathlib.Path('%s').touch()" % (tmp_path / "ran"))
    model = ScriptedModel([call("web_search", query="q")], [say("Done.")])
    async with searching(tmp_path, model, str(program)) as engine, talking(engine) as talk:
        thread = await talk.start(approvalPolicy=policy)
        await talk.call("turn/start", threadId=thread, input=[{"type": "text", "text": "go"}])
        if asked:
            question = await talk.until("item/toolCall/requestApproval")
            assert (question["params"]["name"], question["params"]["arguments"]) == ("web_search", {"query": "q"})
            await talk.say({"id": question["id"], "result": {"decision": "decline"}})
        await talk.until("turn/completed")
        assert ("item/toolCall/requestApproval" in talk.methods()) is asked
    assert (tmp_path / "ran").exists() is not asked
    assert read_by(model).failed is asked
