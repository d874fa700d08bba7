"""A turn that does not get on is told so and then stopped, and one that is not finished does not end as if it were."""

from pathlib import Path

import anyio
import pytest

from hames.domain.commands import SteerTurn
from hames.domain.events import Noticed
from hames.domain.items import CommandExecution, TextInput
from hames.domain.state import Change, Turn
from hames.testing.fakes.model import ScriptedModel, Step, call, call_raw, fail, say, stop, think, usage, wait_for
from situated_engine import results, situated_engine, texts
from support import created, engine, events, started, turn_end, whole_turn

PLAN = call("plan", entries=[{"step": "Look", "status": "completed"}, {"step": "Leap", "status": "pending"}])
DONE = call("plan", entries=[{"step": "Look", "status": "completed"}, {"step": "Leap", "status": "completed"}])


def ended(changes: list[Change]) -> Turn:
    return changes[-1].after.turns[-1]


def notices(changes: list[Change]) -> list[str]:
    return [event.name for event in events(changes) if isinstance(event, Noticed)]


@pytest.mark.parametrize(
    "cut",
    [
        [say("Half a sen"), stop("max_tokens")],
        [stop("max_tokens")],
        [say("Now I write"), call_raw("echo", '{"content": "long', cut=True), stop("max_tokens")],
        [call_raw("echo", '{"content": "long', cut=True), stop("max_tokens")],
        [call_raw("echo", '{"content": "long', cut=True), stop("tools")],
    ],
    ids=["text", "nothing", "text and call", "call", "call, and the service says so"],
)
async def test_a_reply_that_was_cut_off_goes_on(cut: list[Step]) -> None:
    model = ScriptedModel(cut, [call("echo", x=1)], [say("Done.")])
    async with engine(model) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    model.assert_finished()
    assert ended(changes).status == "completed"
    assert any("cut off" in text and "not executed" in text for text in texts(model.requests[1]))
    assert model.requests[2].messages[: len(model.requests[1].messages)] == model.requests[1].messages


async def test_replies_that_are_always_cut_off_fail_the_turn() -> None:
    model = ScriptedModel(*([say("Half"), stop("max_tokens")] for _ in range(4)))
    async with engine(model) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    model.assert_finished()
    error = ended(changes).error
    assert error is not None
    assert (ended(changes).status, error.info) == ("failed", "ReplyCutOff")


async def test_calls_of_a_reply_that_was_cut_off_behind_them_run_and_the_model_is_told() -> None:
    model = ScriptedModel(
        [call("echo", x=1), call_raw("echo", '{"y', cut=True), stop("max_tokens")],
        [say("Done.")],
    )
    async with engine(model) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    assert ended(changes).status == "completed"
    assert results(model.requests[1]) == ["echo {'x': 1}"]
    assert "cut off" in texts(model.requests[1])[-1]


@pytest.mark.parametrize(
    "empty", [[], [say("")], [say("  \n")], [think("Hm.")]], ids=["nothing", "", "blank", "thought"]
)
async def test_an_empty_reply_is_gone_on_from(empty: list[Step]) -> None:
    model = ScriptedModel([call("echo")], empty, empty, [say("Done.")])
    async with engine(model) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    model.assert_finished()
    assert ended(changes).status == "completed"
    assert "empty" in texts(model.requests[2])[-1]


async def test_replies_that_are_always_empty_fail_the_turn() -> None:
    model = ScriptedModel([], [], [])
    async with engine(model) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    model.assert_finished()
    error = ended(changes).error
    assert error is not None
    assert (ended(changes).status, error.info) == ("failed", "EmptyReply")


async def test_an_unfinished_plan_is_mentioned_once_and_then_reported(tmp_path: Path) -> None:
    model = ScriptedModel([PLAN], [say("Done.")], [say("Really.")])
    async with situated_engine(model, tmp_path) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    model.assert_finished()
    assert "Leap (pending)" in texts(model.requests[2])[-1]
    assert ended(changes).status == "completed"
    assert notices(changes) == ["plan_unfinished"]


async def test_a_plan_that_is_finished_after_the_reminder_is_not_reported(tmp_path: Path) -> None:
    model = ScriptedModel([PLAN], [say("Done.")], [DONE], [say("Now it is.")])
    async with situated_engine(model, tmp_path) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    model.assert_finished()
    assert notices(changes) == []


async def test_a_reminder_that_cannot_be_sent_does_not_fail_the_turn(tmp_path: Path) -> None:
    model = ScriptedModel([PLAN], [say("Done.")], [fail("the service is gone")])
    async with situated_engine(model, tmp_path) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    assert (ended(changes).status, ended(changes).stop_reason) == ("completed", "end")
    assert notices(changes) == ["plan_unfinished"]


@pytest.mark.needs("bwrap")
async def test_changed_files_with_nothing_run_are_mentioned_once(tmp_path: Path) -> None:
    write = [call("write", path="cart.py", content="x = 1\n")]
    model = ScriptedModel(write, [say("Done.")], [call("shell", command="true")], [say("Checked.")])
    async with situated_engine(model, tmp_path) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    model.assert_finished()
    assert "cart.py" in texts(model.requests[2])[-1]
    assert notices(changes) == []


@pytest.mark.parametrize(
    ("path", "reported"), [("cart.py", ["changes_unchecked"]), ("notes.md", [])], ids=["code", "prose"]
)
async def test_changes_that_are_never_checked_are_reported_unless_nothing_could_be_run(
    tmp_path: Path, path: str, reported: list[str]
) -> None:
    model = ScriptedModel([call("write", path=path, content="x")], [say("Done.")], [say("I said done.")])
    async with situated_engine(model, tmp_path) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    assert notices(changes) == reported
    assert len(model.requests) == (3 if reported else 2)


async def test_the_same_failing_call_is_remarked_on_and_then_the_turn_is_stopped(tmp_path: Path) -> None:
    model = ScriptedModel(*([call("read", path="missing.py")] for _ in range(10)))
    async with situated_engine(model, tmp_path) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    assert len(model.requests) == 8
    assert "failed 3 times" in texts(model.requests[3])[-1]
    assert not any("failed 3 times" in text for text in texts(model.requests[2]))
    error = ended(changes).error
    assert error is not None
    assert error.info == "RepeatedFailure"
    assert "'read' failed 8 times" in error.message


@pytest.mark.parametrize(
    "between",
    [[call("write", path="made.py", content="1")], [call("read", path="other.py")]],
    ids=["a change", "another failure"],
)
async def test_calls_that_fail_differently_or_after_a_change_are_not_the_same_failure(
    tmp_path: Path, between: list[Step]
) -> None:
    """What changed a file may have mended it. Other failures between do not count against the call, nor for it."""
    rounds = [step for _ in range(4) for step in ([call("read", path="missing.py")], between)]
    model = ScriptedModel(*rounds, [say("Gave up.")], [say("Yes.")])
    async with situated_engine(model, tmp_path) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    told = any("'read' has now failed" in text for text in texts(model.requests[-1]))
    assert told == ("other.py" in str(between))
    assert ended(changes).status == "completed"


@pytest.mark.needs("bwrap")
async def test_a_command_that_ends_with_another_code_than_0_does_not_stop_the_other_calls(tmp_path: Path) -> None:
    numbers = [call("shell", command=f"exit {int(number == 3)}") for number in range(1, 13)]
    model = ScriptedModel(numbers, [say("Done.")])
    async with situated_engine(model, tmp_path) as the_engine:
        changes = await whole_turn(the_engine, (await created(the_engine)).id)
    ran = [item for item in ended(changes).items if isinstance(item, CommandExecution)]
    assert [item.exit_code for item in ran] == [0, 0, 1, *[0] * 9]
    assert ran[2].status == "failed"
    assert not any("not executed" in text for text in results(model.requests[1]))


async def test_a_call_that_was_refused_still_stops_the_others(tmp_path: Path) -> None:
    model = ScriptedModel([call("write", path="../out", content="x"), call("list")], [say("Done.")])
    async with situated_engine(model, tmp_path) as the_engine:
        await whole_turn(the_engine, (await created(the_engine)).id)
    assert "not executed" in results(model.requests[1])[1]


async def test_the_model_is_told_when_few_calls_are_left(tmp_path: Path) -> None:
    model = ScriptedModel(*([call("list")] for _ in range(14)), [say("Done.")])
    async with situated_engine(model, tmp_path, max_steps=15) as the_engine:
        await whole_turn(the_engine, (await created(the_engine)).id)
    assert "10 model calls are left" in texts(model.requests[5])[-1]
    assert sum("calls are left" in text for text in texts(model.requests[-1])) == 1


async def test_a_plan_that_nobody_mentions_any_more_is_brought_back(tmp_path: Path) -> None:
    model = ScriptedModel([PLAN], *([call("list")] for _ in range(16)), [DONE], [say("Done.")])
    async with situated_engine(model, tmp_path) as the_engine:
        await whole_turn(the_engine, (await created(the_engine)).id)
    assert "Your plan is 15 steps old" in texts(model.requests[16])[-1]
    assert sum("steps old" in text for text in texts(model.requests[-1])) == 1


async def test_what_the_user_says_during_a_reply_that_breaks_off_is_not_lost() -> None:
    go = anyio.Event()
    model = ScriptedModel(
        [say("Half", cut=True), wait_for(go), fail("gone", retryable=True), usage(input_tokens=1)], [say("Done.")]
    )
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        await model.asked(1)
        await the_engine.execute(SteerTurn(thread_id=thread.id, content=(TextInput(text="and be quick"),)))
        go.set()
        await turn_end(watcher)
    assert "and be quick" in texts(model.requests[-1])
