"""Any conversation, stopped anywhere, leaves a whole log and a history that a model service accepts."""

import contextlib
from collections.abc import Sequence

import anyio
from hypothesis import example, given
from hypothesis import strategies as st

from hames.core.context import messages
from hames.domain.commands import CreateThread, InterruptTurn, ResolveApproval, StartTurn
from hames.domain.errors import HarnessError
from hames.domain.events import ApprovalRequested, ItemCompleted, ItemStarted, TurnEnded, TurnStarted
from hames.domain.items import TextInput
from hames.domain.request import CallBlock, Message, ResultBlock
from hames.domain.state import ThreadState, apply, blank
from hames.store.memory import MemoryStore
from hames.testing.fakes.model import ScriptedModel, Step, call, call_raw, fail, hang, say, search, stop, think
from support import ASKING, BROKEN, ECHO, engine

steps = st.sampled_from(
    [
        say("some words", pieces=3),
        say("cut off", cut=True),
        say(" "),
        think("hm"),
        think("cut off", cut=True),
        search("weather"),
        call("echo", x=1),
        call("asking"),
        call("broken"),
        call("unknown"),
        call_raw("echo", "{"),
        call_raw("echo", "{}", call_id="same"),
        call_raw("echo", '{"x":', cut=True),
        fail("for good"),
        fail("for now", retryable=True),
        stop("max_tokens"),
        stop("pause"),
        stop("refusal"),
        hang(),
    ]
)
replies = st.lists(steps, max_size=5)
answers = st.sampled_from(["once", "always", "reject"])


@given(
    script=st.lists(replies, min_size=1, max_size=5),
    stop_after=st.integers(0, 40),
    decisions=st.lists(answers, min_size=3, max_size=3),
    prompts=st.integers(1, 3),
)
@example(  # a message of two blocks, of which the second never ends, in a reply that is then refused
    script=[[say("some words"), say("cut off", cut=True), stop("refusal")]],
    stop_after=40,
    decisions=["once"] * 3,
    prompts=1,
)
def test_any_conversation_stopped_anywhere_leaves_a_whole_log(
    script: list[list[Step]], stop_after: int, decisions: list[str], prompts: int
) -> None:
    anyio.run(converse, script, stop_after, decisions, prompts)


async def converse(script: Sequence[Sequence[Step]], stop_after: int, decisions: list[str], prompts: int) -> None:
    store, model = MemoryStore(), ScriptedModel(*script)
    async with engine(model, ECHO, BROKEN, ASKING, store=store, max_steps=6) as the_engine:
        thread = await the_engine.execute(CreateThread())
        assert isinstance(thread, ThreadState)
        watcher = await the_engine.follow(thread.id, replay=True)
        heard = 0
        live = watcher.state
        for _ in range(prompts):
            await the_engine.execute(StartTurn(thread_id=thread.id, content=(TextInput(text="go"),)))
            ended = False
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    # It may fall silent after the last change was heard.
                    tasks.start_soon(interrupt_when_hanging, model, the_engine, thread.id)
                    while not ended:
                        for change in await watcher.next():
                            assert change.before == live, "a change that does not follow from the one before"
                            live = change.after
                            heard += 1
                            ended = ended or isinstance(change.record.event, TurnEnded)
                            if isinstance(change.record.event, ApprovalRequested) and heard < stop_after:
                                decision = decisions[heard % 3]
                                approval_id = change.record.event.approval.id
                                await the_engine.execute(
                                    ResolveApproval(approval_id=approval_id, decision=decision)  # type: ignore[arg-type]
                                )
                        if not ended and heard >= stop_after:
                            await interrupt(the_engine, thread.id)
                    tasks.cancel_scope.cancel()
        assert isinstance(live, ThreadState)
        check_history(messages(live))
    check_log(await store.read(thread.id), live)


async def interrupt_when_hanging(model: ScriptedModel, the_engine, thread_id) -> None:  # type: ignore[no-untyped-def]
    await model.hanging.wait()
    await interrupt(the_engine, thread_id)


async def interrupt(the_engine, thread_id) -> None:  # type: ignore[no-untyped-def]
    with contextlib.suppress(HarnessError):  # it may have ended by itself
        await the_engine.execute(InterruptTurn(thread_id=thread_id))


def check_log(records, live: ThreadState) -> None:  # type: ignore[no-untyped-def]
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    state = blank(live.id)
    for record in records:
        state = apply(state, record)
    assert state == live
    begun = [r.event.item.id for r in records if isinstance(r.event, ItemStarted)]
    done = [r.event.item.id for r in records if isinstance(r.event, ItemCompleted)]
    assert sorted(begun) == sorted(done) == sorted(set(begun))
    turns = [r.event.turn_id for r in records if isinstance(r.event, TurnStarted)]
    assert turns == [r.event.turn_id for r in records if isinstance(r.event, TurnEnded)]
    assert live.running is None
    assert live.approvals == ()


def check_history(spoken: tuple[Message, ...]) -> None:
    assert [message.role for message in spoken] == [("user", "assistant")[n % 2] for n in range(len(spoken))]
    following: Sequence[Message | None] = [*spoken[1:], None]
    for message, after in zip(spoken, following, strict=True):
        assert message.blocks
        calls = [block.call.id for block in message.blocks if isinstance(block, CallBlock)]
        results = [b.call.id for b in after.blocks if isinstance(b, ResultBlock)] if after else []
        assert calls == results
        assert len(set(calls)) == len(calls)
        for block in message.blocks:
            assert getattr(block, "text", "x").strip(), "model services refuse an empty text"
