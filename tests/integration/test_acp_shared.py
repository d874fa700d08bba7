"""ACP on a thread that another process runs: history, then the live stream, and the first permission answer wins."""

from pathlib import Path

import anyio
import pytest

from acp_support import Desk
from hames.testing.fakes.model import ScriptedModel, call, say
from support import created, shared_engine, started, turn_end


@pytest.mark.parametrize("version", [1, 2])
async def test_a_thread_of_another_process_is_loaded_followed_and_answered(tmp_path: Path, version: int) -> None:
    model = ScriptedModel([say("First.")], [call("asking", text="x")], [say("Second.")])
    async with (
        shared_engine(tmp_path, model) as other,
        shared_engine(tmp_path) as here,
        anyio.create_task_group() as tasks,
    ):
        thread = await created(other)
        watcher = await other.follow(thread.id)
        await started(other, thread.id)
        await turn_end(watcher)
        watcher.close()
        there = await Desk(other, tasks, tmp_path, version).client(answer=None)
        await there.open(thread.id, tmp_path)
        await started(other, thread.id)
        [asked_there] = await there.asked()

        client = await Desk(here, tasks, tmp_path, version).client(answer=None)
        await client.open(thread.id, tmp_path)
        assert "First." in client.said()
        [question] = await client.asked()
        await client.select(question, "allow_once")
        await client.until(lambda _: "Second." in client.said())
        await there.until(lambda _: "Second." in there.said())
        await there.until(lambda one: one.get("method") == "$/cancel_request")
        await there.select(asked_there, "reject_once")  # too late: the first answer counts
        assert client.said().count("First.") == client.said().count("Second.") == 1
        calls = [one for one in client.updates("tool_call_update") if one.get("status") == "completed"]
        assert len({one["toolCallId"] for one in calls}) == 1
        tasks.cancel_scope.cancel()
    model.assert_finished()
