"""Background processes in the engine: listed, ended, asked about, gone with their thread and with the harness."""

import subprocess
import sys
from pathlib import Path

import anyio
import psutil
import pytest

from hames.clock_and_ids import RandomIds, SystemClock
from hames.core.engine import Engine
from hames.core.engine_rules import EngineRules
from hames.core.threads import IDLE_SECONDS, KEPT
from hames.domain.approvals import RunCommand
from hames.domain.commands import ArchiveThread, DeleteThread, ListProcesses, ResolveApproval
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ThreadId
from hames.domain.items import CommandExecution
from hames.domain.options import Settings
from hames.domain.policy import ApprovalPolicy, WorkspaceWrite
from hames.domain.processes import ProcessList, ProcessStatus
from hames.sandbox.local import LocalSandbox
from hames.sandbox.trust.shell_trust import ShellTrust
from hames.store.memory import MemoryStore
from hames.testing.fakes.clock import FakeClock
from hames.testing.fakes.model import ScriptedModel, call, say
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.registry import BuiltinTools
from support import OneModel, created, question, started, turn_end

pytestmark = pytest.mark.needs("bwrap")


def house(
    model: ScriptedModel,
    sandbox: LocalSandbox,
    cwd: Path,
    policy: ApprovalPolicy = "never",
    clock: FakeClock | None = None,
) -> Engine:
    models = OneModel(model)
    defaults = Settings(model=models.default, cwd=str(cwd), approval_policy=policy, sandbox=WorkspaceWrite())
    return Engine(
        store=MemoryStore(),
        models=models,
        workspace=LocalWorkspace(),
        tools=BuiltinTools(sandbox, SystemClock()),
        trust=ShellTrust(),
        clock=clock or SystemClock(),
        ids=RandomIds(),
        rules=EngineRules(defaults=defaults),
    )


async def run_turn(engine: Engine, thread_id: ThreadId) -> None:
    watcher = await engine.watch(thread_id)
    await started(engine, thread_id)
    await turn_end(watcher)
    watcher.close()


async def processes(engine: Engine, thread_id: ThreadId, end: int | None = None) -> tuple[ProcessStatus, ...]:
    listed = await engine.execute(ListProcesses(thread_id=thread_id, end=end))
    assert isinstance(listed, ProcessList)
    return listed.processes


def sleeping(marker: str) -> bool:
    for process in psutil.process_iter(["cmdline", "name", "status"]):
        if process.info["name"] == "sleep" and marker in (process.info["cmdline"] or []):
            return process.info["status"] != psutil.STATUS_ZOMBIE
    return False


async def gone(marker: str) -> None:
    with anyio.fail_after(60):
        while sleeping(marker):
            await anyio.sleep(0.01)


async def test_they_are_listed_and_ended_by_clients_and_end_with_an_archived_thread(tmp_path: Path) -> None:
    start = [call("shell", command="echo up; exec sleep 5151.5", background=True)]
    sandbox = LocalSandbox()
    async with house(ScriptedModel([*start, *start], [say("Done.")]), sandbox, tmp_path) as engine:
        thread = await created(engine)
        assert await processes(engine, thread.id) == ()
        await run_turn(engine, thread.id)
        assert [(one.number, one.running) for one in await processes(engine, thread.id)] == [(1, True), (2, True)]
        assert [(one.number, one.running) for one in await processes(engine, thread.id, end=1)] == [
            (1, False),
            (2, True),
        ]
        with pytest.raises(InvalidCommand):
            await processes(engine, thread.id, end=1)
        await engine.execute(ArchiveThread(thread_id=thread.id, archived=True))
        assert not any(one.running for one in await processes(engine, thread.id))
        assert not sleeping("5151.5")
    sandbox.close()


@pytest.mark.parametrize("how", ["deleted", "closed"])
async def test_they_end_with_a_deleted_thread_and_with_the_engine(tmp_path: Path, how: str) -> None:
    sandbox, marker = LocalSandbox(), f"5252.{len(how)}"
    model = ScriptedModel([call("shell", command=f"echo up; exec sleep {marker}", background=True)], [say("Done.")])
    async with house(model, sandbox, tmp_path) as engine:
        thread = await created(engine)
        await run_turn(engine, thread.id)
        assert sleeping(marker)
        if how == "deleted":
            await engine.execute(DeleteThread(thread_id=thread.id))
            await gone(marker)
    assert not sleeping(marker)
    sandbox.close()


async def test_a_thread_with_one_is_not_unloaded(tmp_path: Path) -> None:
    sandbox, clock = LocalSandbox(), FakeClock()
    model = ScriptedModel([call("shell", command="echo up; exec sleep 5353.5", background=True)], [say("Done.")])
    async with house(model, sandbox, tmp_path, clock=clock) as engine:
        thread = await created(engine)
        await run_turn(engine, thread.id)
        for _ in range(KEPT + 1):
            await created(engine)
        clock.advance(IDLE_SECONDS + 1)
        await created(engine)
        assert engine.loaded(thread.id) is not None
        await processes(engine, thread.id, end=1)
        clock.advance(IDLE_SECONDS + 1)
        for _ in range(KEPT + 1):
            await created(engine)
        clock.advance(IDLE_SECONDS + 1)
        await created(engine)
        assert engine.loaded(thread.id) is None
    sandbox.close()


async def test_input_that_needs_a_word_waits_for_it(tmp_path: Path) -> None:
    sandbox = LocalSandbox()
    write = call("process", action="write", process=1, input="touch planted\n")
    model = ScriptedModel([call("shell", command="echo up; exec bash", background=True)], [write], [say("Done.")])
    async with house(model, sandbox, tmp_path, policy="unlessTrusted") as engine:
        thread = await created(engine)
        watcher = await engine.watch(thread.id)
        await started(engine, thread.id)
        asked: list[RunCommand] = []
        for decision in ("once", "reject"):
            approval = (await question(watcher)).approval
            assert isinstance(approval.intent, RunCommand)
            asked.append(approval.intent)
            await engine.execute(ResolveApproval(approval_id=approval.id, decision=decision))
        ended = (await turn_end(watcher))[-1].after
        assert [(one.command, one.process) for one in asked] == [
            ("echo up; exec bash", ""),
            ("touch planted\n", "process 1: echo up; exec bash"),
        ]
        item = [one for one in ended.turns[-1].items if isinstance(one, CommandExecution)][-1]
        assert item.status == "declined"
    assert not (tmp_path / "planted").exists()
    sandbox.close()


KILLED = """
import sys, anyio
sys.path.insert(0, {tests!r})
from pathlib import Path
from hames.sandbox.local import LocalSandbox
from hames.domain.policy import DangerFullAccess, WorkspaceWrite
from toolbench import workshop
async def main():
    async with workshop(Path({root!r}), walls=LocalSandbox()) as shop:
        for policy in (WorkspaceWrite(), DangerFullAccess()):
            for how in ("background", "terminal"):
                command = "echo up; setsid sleep {marker} & sleep {marker}"
                await shop.run(await shop.prepare("shell", command=command, **{{how: True}}), policy)
        print("up", flush=True)
        await anyio.sleep(600)
anyio.run(main)
"""


async def test_nothing_is_left_of_them_when_the_harness_is_killed(tmp_path: Path) -> None:
    marker = "5454.5"
    program = KILLED.format(tests=str(Path(__file__).parents[1]), root=str(tmp_path / "w"), marker=marker)
    harness = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert harness.stdout is not None
    try:
        with anyio.fail_after(60):
            assert await anyio.to_thread.run_sync(harness.stdout.readline, abandon_on_cancel=True) == b"up\n"
        assert sleeping(marker)
    finally:
        harness.kill()
        harness.wait()
        harness.stdout.close()
    await gone(marker)
