"""MCP servers behind a thread: real processes on the official SDK, and what happens when they misbehave."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hames.app import open_engine
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.commands import CreateThread, InterruptTurn, ResolveApproval
from hames.domain.events import ApprovalRequested, Noticed
from hames.domain.items import McpToolCall
from hames.domain.state import ThreadState
from hames.testing.fakes.model import OneModel, ScriptedModel, Step, call, say
from support import started

SERVER = Path(__file__).with_name("mcp_server.py")


def configured(tmp_path: Path, *words: str, policy: str = "never", timeout: str = "") -> None:
    (tmp_path / "work").mkdir(exist_ok=True)
    args = ", ".join(f'"{word}"' for word in (str(SERVER), *words))
    (tmp_path / "config.toml").write_text(
        f'approval_policy = "{policy}"\n[mcp_servers.test]\ncommand = "{sys.executable}"\nargs = [{args}]\n'
        "startup_timeout_sec = 120\n"
    )


@asynccontextmanager
async def engine_with(tmp_path: Path, *replies: list[Step]) -> AsyncGenerator[tuple[Engine, ScriptedModel]]:
    model = ScriptedModel(*replies)
    environment = {
        "HOME": str(tmp_path),
        "HAMES_CONFIG": str(tmp_path / "config.toml"),
        "PATH": os.environ["PATH"],
    }
    options = load({"cwd": str(tmp_path / "work")}, environment)
    async with open_engine(options, models=OneModel(model)) as engine:
        yield engine, model


async def made(engine: Engine) -> ThreadState:
    thread = await engine.execute(CreateThread())
    assert isinstance(thread, ThreadState)
    return thread


def now(engine: Engine, thread: ThreadState) -> ThreadState:
    state = engine.loaded(thread.id)
    assert state is not None
    return state


def calls(state: ThreadState) -> list[McpToolCall]:
    return [item for turn in state.turns for item in turn.items if isinstance(item, McpToolCall)]


async def test_a_servers_tools_are_offered_called_and_answered(tmp_path: Path) -> None:
    configured(tmp_path)
    replies = [call("mcp__test__add", a=1, b=2)], [call("mcp__test__steps")], [call("mcp__test__picture")], [say("3")]
    async with engine_with(tmp_path, *map(list, replies)) as (engine, model):
        thread = await made(engine)
        with anyio.fail_after(240):
            changes = await long_turn(engine, thread)
    offered = {tool.name: tool for tool in model.requests[0].tools}
    assert offered["mcp__test__add"].description == "Adds two numbers."
    assert offered["mcp__test__add"].schema["required"] == ["a", "b"]
    added, stepped, shown = calls(changes[-1].after)
    assert (added.server, added.tool, added.arguments, added.status) == ("test", "add", {"a": 1, "b": 2}, "completed")
    assert added.result is not None
    assert added.result.text == "3"
    assert added.structured == {"result": 3}
    assert stepped.output == "1 of 3: step 1\n2 of 3: step 2\n3 of 3: step 3\n"
    assert shown.result is not None
    assert shown.result.pictures[0].media_type == "image/png"


async def long_turn(engine: Engine, thread: ThreadState):  # type: ignore[no-untyped-def]
    watcher = await engine.watch(thread.id)
    await started(engine, thread.id)
    heard = []
    while True:
        for change in await watcher.next():
            heard.append(change)
            if change.after.running is None and change.before.running is not None:
                return heard


async def test_a_failing_flooding_dying_server_fails_its_call_and_comes_back(tmp_path: Path) -> None:
    configured(tmp_path)
    replies = (
        [call("mcp__test__fail")],
        [call("mcp__test__flood")],
        [call("mcp__test__die")],
        [call("mcp__test__add", a=2, b=2)],
        [say("survived")],
    )
    async with engine_with(tmp_path, *map(list, replies)) as (engine, _):
        thread = await made(engine)
        with anyio.fail_after(240):
            changes = await long_turn(engine, thread)
    failed, flooded, died, added = calls(changes[-1].after)
    assert failed.status == "failed"
    assert failed.result is not None
    assert "fail" in failed.result.text
    assert flooded.result is not None
    assert len(flooded.result.text) < 70_000
    assert "omitted" in flooded.result.text
    assert died.status == "failed"
    assert added.status == "completed", added.result
    assert changes[-1].after.turns[-1].status == "completed"


async def test_a_hanging_call_ends_with_an_interrupt_and_its_process_with_the_engine(tmp_path: Path) -> None:
    configured(tmp_path)
    async with engine_with(tmp_path, [call("mcp__test__hang")], [call("mcp__test__add", a=1, b=1)], [say("ok")]) as (
        engine,
        _,
    ):
        thread = await made(engine)
        watcher = await engine.watch(thread.id)
        await started(engine, thread.id)
        with anyio.fail_after(240):
            while not calls(now(engine, thread)):
                await watcher.next()
        await engine.execute(InterruptTurn(thread_id=thread.id))
        with anyio.fail_after(60):
            while now(engine, thread).running:
                await watcher.next()
        with anyio.fail_after(240):
            changes = await long_turn(engine, thread)
        assert calls(changes[-1].after)[-1].status == "completed"
        assert servers(tmp_path)
    with anyio.fail_after(60):
        while servers(tmp_path):
            await anyio.sleep(0.05)


def servers(tmp_path: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str((entry / "cwd").readlink()).startswith(str(tmp_path)):
                    found.append(entry.name)
            except OSError:
                pass
    return found


async def test_a_server_that_dies_between_two_calls_is_told_and_comes_back(tmp_path: Path) -> None:
    configured(tmp_path)
    replies = [say("ready")], [call("mcp__test__add", a=2, b=2)], [say("4")]
    async with engine_with(tmp_path, *map(list, replies)) as (engine, _):
        thread = await made(engine)
        with anyio.fail_after(240):
            await long_turn(engine, thread)
            watcher = await engine.watch(thread.id)
            for pid in servers(tmp_path):
                os.kill(int(pid), signal.SIGKILL)
            (change,) = await watcher.next()
            event = change.record.event
            assert isinstance(event, Noticed)
            assert (event.severity, event.turn_id) == ("warning", None)
            assert event.message.startswith("MCP server 'test' stopped: it was killed by SIGKILL")
            changes = await long_turn(engine, thread)
    assert calls(changes[-1].after)[-1].status == "completed"
    assert any("is ready" in getattr(change.record.event, "message", "") for change in changes)


async def test_a_turn_that_waits_for_a_slow_server_can_be_interrupted(tmp_path: Path) -> None:
    configured(tmp_path, "--slow")
    async with engine_with(tmp_path, [say("never")]) as (engine, model):
        thread = await made(engine)
        watcher = await engine.watch(thread.id)
        await started(engine, thread.id)
        with anyio.fail_after(240):
            while not servers(tmp_path):
                await anyio.sleep(0.05)
            await engine.execute(InterruptTurn(thread_id=thread.id))
            while now(engine, thread).running:
                await watcher.next()
        assert now(engine, thread).turns[-1].status == "interrupted"
        assert not model.requests
        assert not servers(tmp_path)


@pytest.mark.parametrize("word", ["--broken", "--missing"])
async def test_a_server_that_does_not_start_leaves_the_other_tools(tmp_path: Path, word: str) -> None:
    configured(tmp_path, word)
    if word == "--missing":
        (tmp_path / "config.toml").write_text('[mcp_servers.test]\ncommand = "/no/such/program"\n')
    async with engine_with(tmp_path, [say("fine")]) as (engine, model):
        thread = await made(engine)
        with anyio.fail_after(240):
            changes = await long_turn(engine, thread)
    assert changes[-1].after.turns[-1].status == "completed"
    assert "shell" in {tool.name for tool in model.requests[0].tools}


async def test_policies_ask_about_mcp_calls_and_always_is_for_that_tool(tmp_path: Path) -> None:
    configured(tmp_path, policy="unlessTrusted")
    replies = (
        [call("mcp__test__add", a=1, b=1)],
        [call("mcp__test__add", a=2, b=2)],
        [call("mcp__test__steps")],
        [say("ok")],
    )
    async with engine_with(tmp_path, *map(list, replies)) as (engine, _):
        thread = await made(engine)
        watcher = await engine.watch(thread.id)
        await started(engine, thread.id)
        asked = 0
        with anyio.fail_after(240):
            while True:
                for change in await watcher.next():
                    if isinstance(change.record.event, ApprovalRequested):
                        asked += 1
                        decision = "always" if asked == 1 else "reject"
                        approval_id = change.record.event.approval.id
                        await engine.execute(ResolveApproval(approval_id=approval_id, decision=decision))  # type: ignore[arg-type]
                if (state := now(engine, thread)).running is None:
                    break
    assert [item.status for item in calls(state)] == ["completed", "completed", "declined"]
    assert asked == 2


def hames(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HAMES_CONFIG": str(tmp_path / "c.toml")}
    command = [sys.executable, "-m", "hames", "mcp", *words]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=240, check=False
    )


def test_servers_are_added_tested_listed_and_removed_by_command(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('model = "anthropic/x"\n')
    assert hames(tmp_path, "add", "mine", sys.executable, str(SERVER)).returncode == 0
    assert hames(tmp_path, "add", "web", "--url", "http://127.0.0.1:1/mcp").returncode == 0
    listed = hames(tmp_path, "list").stdout
    assert "mine" in listed
    assert "http://127.0.0.1:1/mcp" in listed
    tested = hames(tmp_path, "test", "mine")
    assert tested.returncode == 0, tested.stderr
    assert "mcp__mine__add" in tested.stdout
    assert hames(tmp_path, "test", "web").returncode == 1
    assert hames(tmp_path, "add", "mine", "again").returncode == 2
    assert hames(tmp_path, "add", "bad name", "x").returncode == 2
    assert hames(tmp_path, "remove", "mine").returncode == 0
    assert hames(tmp_path, "remove", "mine").returncode == 2
    assert "mine" not in hames(tmp_path, "list").stdout
    assert (tmp_path / "c.toml").read_text().startswith('model = "anthropic/x"\n')
