"""A tool that waited for an approval when the agent was stopped: it never ran, and sync says so."""

from pathlib import Path

from hames.domain.commands import InterruptTurn, ReadThread
from hames.domain.state import ThreadState
from hames.protocols.sync.tools import NEVER_APPROVED
from hames.protocols.sync.view import Offer, view
from hames.testing.fakes.model import ScriptedModel, call, say
from support import created, engine, question, started, turn_end


async def test_a_tool_that_nobody_approved_before_the_stop_was_not_run(tmp_path: Path) -> None:
    async with engine(ScriptedModel([call("asking")], [say("done")]), cwd=tmp_path) as house:
        thread = await created(house)
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        await question(watcher)
        await house.execute(InterruptTurn(thread_id=thread.id))
        await turn_end(watcher)
        state = await house.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        shown = view(state, Offer(models=house.models, listed=()))
        calls = [one for message in shown.messages for one in message.tool_calls]
        assert [(one.status, one.outcome, one.reason) for one in calls] == [("error", "skipped", NEVER_APPROVED)]
