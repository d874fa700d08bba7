"""Whether a command is trusted is found out beside the event loop, and not for ever."""

import threading

import anyio
import pytest

from hames.core import toolcall
from hames.domain.approvals import RunCommand
from hames.domain.commands import ReadThread, ResolveApproval
from hames.domain.items import ToolItem
from hames.domain.state import ThreadState
from hames.ports import Verdict
from hames.testing.fakes.model import ScriptedModel, call, say
from support import PlainTool, created, echo, engine, question, started, turn_end

SHELL = PlainTool("shell", echo, intent=RunCommand(command="ls", cwd="/"))


class SlowTrust:
    """Says yes, once it is let go."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.free = threading.Event()

    def judge(self, command: str, *, cwd: str, workspace: str) -> Verdict:
        self.asked.set()
        assert self.free.wait(60)
        return Verdict(trusted=True)


async def test_the_engine_goes_on_while_a_command_is_judged() -> None:
    trust = SlowTrust()
    async with engine(ScriptedModel([call("shell")], [say("done")]), SHELL, trust=trust) as running:
        thread = await created(running)
        watcher = await running.watch(thread.id)
        await started(running, thread.id)
        with anyio.fail_after(60):
            await anyio.to_thread.run_sync(trust.asked.wait)
            await created(running)  # nobody else waits for the judge
            trust.free.set()
            await turn_end(watcher)


async def test_what_cannot_be_judged_in_time_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolcall, "JUDGE_SECONDS", 0.01)
    trust = SlowTrust()
    async with engine(ScriptedModel([call("shell")], [say("done")]), SHELL, trust=trust) as running:
        thread = await created(running)
        watcher = await running.watch(thread.id)
        await started(running, thread.id)
        with anyio.fail_after(60):
            approval = (await question(watcher)).approval
            assert approval.reason == "the safety check took too long"
            trust.free.set()
            await running.execute(ResolveApproval(approval_id=approval.id, decision="once"))
            await turn_end(watcher)


async def test_a_command_is_not_shown_as_running_while_it_is_judged() -> None:
    trust = SlowTrust()
    async with engine(ScriptedModel([call("shell")], [say("done")]), SHELL, trust=trust) as running:
        thread = await created(running)
        watcher = await running.watch(thread.id)
        await started(running, thread.id)
        with anyio.fail_after(60):
            await anyio.to_thread.run_sync(trust.asked.wait)
            seen = await running.execute(ReadThread(thread_id=thread.id))
            assert isinstance(seen, ThreadState)
            assert [item for turn in seen.turns for item in turn.items if isinstance(item, ToolItem)] == []
            trust.free.set()
            await turn_end(watcher)
