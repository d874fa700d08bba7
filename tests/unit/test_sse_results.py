"""Over SSE every tool call that was told has its result, however its turn ended: a page would wait for ever."""

from pathlib import Path

import pytest

from hames.domain.commands import InterruptTurn
from hames.protocols.sse import messages as m
from hames.protocols.sse.outbound import project
from hames.store.jsonl import JsonlStore
from hames.store.places import EVENTS, Places
from hames.testing.fakes.clock import CountingIds
from hames.testing.fakes.model import ScriptedModel, call, say
from support import BROKEN, ECHO, STUCK, created, engine, started, turn_end, until


@pytest.mark.parametrize("first", ["stuck", "broken", "nothing of that name"])
async def test_every_call_that_was_told_has_a_result(first: str) -> None:
    model = ScriptedModel([call(first), call("echo", x=1), call("echo", x=2)], [call("stuck")])
    async with engine(model, ECHO, STUCK, BROKEN) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        changes = await until(watcher, lambda event: getattr(event, "text", "") == "begun")
        await the_engine.execute(InterruptTurn(thread_id=thread.id))
        changes += await turn_end(watcher)
    told = [event for change in changes for event in project(change)]
    calls = [event.id for event in told if isinstance(event, m.ToolCall)]
    results = [event.id for event in told if isinstance(event, m.ToolResult | m.ToolSkipped)]
    assert len(calls) >= 3
    assert sorted(calls) == sorted(results)


async def test_a_log_that_was_cut_behind_a_call_tells_its_result(tmp_path: Path) -> None:
    def store() -> JsonlStore:
        return JsonlStore(tmp_path / ".harness", places=Places(tmp_path / "state"))

    async with engine(ScriptedModel([call("stuck"), call("echo")]), store=store()) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        await until(watcher, lambda event: getattr(event, "text", "") == "begun")
        path = tmp_path / ".harness" / "threads" / thread.id / EVENTS
        lines = path.read_bytes().splitlines(keepends=True)
    last_call = max(number for number, line in enumerate(lines) if b'"tool_called"' in line)
    path.write_bytes(b"".join(lines[: last_call + 1]))
    async with engine(ScriptedModel([say("well")]), store=store(), ids=CountingIds(1000)) as the_engine:
        watcher = await the_engine.watch(thread.id)
        if watcher.state.running is not None:
            await turn_end(watcher)
        told = [event for change in await the_engine.history(thread.id) for event in project(change)]
    calls = [event.id for event in told if isinstance(event, m.ToolCall)]
    assert len(calls) == 2
    assert calls == [event.id for event in told if isinstance(event, m.ToolResult | m.ToolSkipped)]
