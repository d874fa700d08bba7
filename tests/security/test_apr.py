"""APR: faults around an approval. Nothing ever runs without a recorded accept of the same command."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hames.app import open_engine
from hames.config.load import load
from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.commands import CreateThread, InterruptTurn, ReadThread, ResolveApproval
from hames.domain.errors import ApprovalNotFound
from hames.domain.events import ApprovalResolved, ItemCompleted
from hames.domain.ids import ApprovalId, ThreadId
from hames.domain.items import CommandExecution
from hames.domain.policy import Decision
from hames.domain.state import ThreadState
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say
from support import events, question, started, turn_end

COMMAND = "touch ran.marker"


@asynccontextmanager
async def asked(
    workspace: Path, *replies: list[object]
) -> AsyncGenerator[tuple[Engine, Watcher, ThreadId, ApprovalId]]:
    """A real engine with real tools that waits for an answer about a real command."""
    model = ScriptedModel([call("shell", command=COMMAND)], *(replies or [[say("ok")]]))  # type: ignore[arg-type]
    options = load({"cwd": str(workspace), "sandbox": "dangerFullAccess"}, {"HOME": str(workspace / "home")})
    async with open_engine(options, models=OneModel(model)) as engine:
        thread = await engine.execute(CreateThread())
        assert isinstance(thread, ThreadState)
        watcher = await engine.watch(thread.id)
        await started(engine, thread.id)
        yield engine, watcher, thread.id, (await question(watcher)).approval.id


def ran(workspace: Path) -> bool:
    return (workspace / "ran.marker").exists()


def command(watched: list[object]) -> CommandExecution:
    items = [e.item for e in watched if isinstance(e, ItemCompleted) and isinstance(e.item, CommandExecution)]
    assert len(items) == 1
    return items[0]


async def test_APR_1_a_client_that_goes_away_leaves_the_question_for_the_next(tmp_path: Path) -> None:
    async with asked(tmp_path) as (engine, watcher, thread_id, approval_id):
        watcher.close()
        await anyio.wait_all_tasks_blocked()
        assert not ran(tmp_path)
        back = await engine.watch(thread_id)
        assert [approval.id for approval in back.state.approvals] == [approval_id]
        await engine.execute(ResolveApproval(approval_id=approval_id, decision="once"))
        await turn_end(back)
    assert ran(tmp_path)


async def test_APR_2_a_second_answer_counts_for_nothing(tmp_path: Path) -> None:
    async with asked(tmp_path) as (engine, watcher, _, approval_id):
        await engine.execute(ResolveApproval(approval_id=approval_id, decision="reject"))
        with pytest.raises(ApprovalNotFound):
            await engine.execute(ResolveApproval(approval_id=approval_id, decision="once"))
        assert command(events(await turn_end(watcher))).status == "declined"
    assert not ran(tmp_path)


@pytest.mark.parametrize("other", ["nope", "", "apr_", "ses_1"])
async def test_APR_3_and_4_an_answer_to_another_question_answers_nothing(tmp_path: Path, other: str) -> None:
    async with asked(tmp_path) as (engine, _, thread_id, approval_id):
        for wrong in (other, thread_id, approval_id.upper(), approval_id + " "):
            with pytest.raises(ApprovalNotFound):
                await engine.execute(ResolveApproval(approval_id=ApprovalId(wrong), decision="once"))
        await anyio.wait_all_tasks_blocked()
        assert not ran(tmp_path)


async def test_APR_5_an_answer_after_a_cancel_is_void(tmp_path: Path) -> None:
    async with asked(tmp_path) as (engine, watcher, thread_id, approval_id):
        await engine.execute(InterruptTurn(thread_id=thread_id))
        heard = await turn_end(watcher)
        with pytest.raises(ApprovalNotFound):
            await engine.execute(ResolveApproval(approval_id=approval_id, decision="once"))
        assert [e.decision for e in events(heard) if isinstance(e, ApprovalResolved)] == ["void"]
    assert not ran(tmp_path)


async def test_APR_6_an_answer_after_the_turn_ended_is_void(tmp_path: Path) -> None:
    async with asked(tmp_path) as (engine, watcher, _, approval_id):
        await engine.execute(ResolveApproval(approval_id=approval_id, decision="reject"))
        await turn_end(watcher)
        with pytest.raises(ApprovalNotFound):
            await engine.execute(ResolveApproval(approval_id=approval_id, decision="always"))
    assert not ran(tmp_path)


async def test_APR_7_and_10_after_a_restart_the_question_is_open_and_nothing_runs_by_itself(
    tmp_path: Path,
) -> None:
    import shutil

    async with asked(tmp_path) as (_, _, thread_id, approval_id):
        threads = tmp_path / ".harness" / "threads"
        shutil.copytree(threads, tmp_path / "as_killed")
    shutil.rmtree(threads)
    shutil.move(tmp_path / "as_killed", threads)
    options = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path / "home")})
    model = ScriptedModel([say("ok")])
    async with open_engine(options, models=OneModel(model)) as engine:
        state = await engine.execute(ReadThread(thread_id=thread_id))
        assert isinstance(state, ThreadState)
        assert [one.id for one in state.approvals] == [approval_id]
        assert not ran(tmp_path)
        watcher = await engine.watch(thread_id)
        await engine.execute(ResolveApproval(approval_id=approval_id, decision="reject"))
        await turn_end(watcher)
        with pytest.raises(ApprovalNotFound):
            await engine.execute(ResolveApproval(approval_id=approval_id, decision="once"))
    assert not ran(tmp_path)


@pytest.mark.parametrize("decision", ["void", "reject"])
async def test_APR_8_only_an_exact_yes_is_a_yes(tmp_path: Path, decision: Decision) -> None:
    async with asked(tmp_path) as (engine, watcher, _, approval_id):
        await engine.execute(ResolveApproval(approval_id=approval_id, decision=decision))
        assert command(events(await turn_end(watcher))).status == "declined"
    assert not ran(tmp_path)


async def test_APR_9_of_two_answers_at_once_the_recorded_one_counts(tmp_path: Path) -> None:
    async with asked(tmp_path) as (engine, watcher, _, approval_id):
        lost: list[str] = []

        async def answer(decision: Decision) -> None:
            try:
                await engine.execute(ResolveApproval(approval_id=approval_id, decision=decision))
            except ApprovalNotFound:
                lost.append(decision)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, "once")
            tasks.start_soon(answer, "reject")
        heard = events(await turn_end(watcher))
    recorded = [e.decision for e in heard if isinstance(e, ApprovalResolved)]
    assert len(recorded) == len(lost) == 1
    assert recorded != lost
    assert ran(tmp_path) == (recorded == ["once"])


async def test_the_answer_is_in_the_log_before_the_command_runs(tmp_path: Path) -> None:
    async with asked(tmp_path) as (engine, watcher, thread_id, approval_id):
        log = (tmp_path / ".harness" / "threads" / thread_id / "events.jsonl").read_bytes
        assert b"approval_requested" in log()
        assert b"approval_resolved" not in log()
        await engine.execute(ResolveApproval(approval_id=approval_id, decision="once"))
        assert b"approval_resolved" in log()
        await turn_end(watcher)
