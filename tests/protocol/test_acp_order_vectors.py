"""ACP, message by message: prompts that wait, cancel at any moment, and the order of what is said."""

import json
from typing import Any

import pytest
from acp_messages import (
    BOTH,
    CHANGE,
    ITEM,
    RUN,
    SELECTED,
    TEXT,
    THREAD,
    TURN,
    answered,
    ask,
    asked,
    following,
    messages,
    prompted,
    tell,
)
from msgspec.structs import replace

from acp_schema import check_message
from hames.domain.approvals import Approval
from hames.domain.commands import InterruptTurn
from hames.domain.errors import InvalidCommand
from hames.domain.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    ItemCompleted,
    ItemDelta,
    ItemStarted,
    PromptQueued,
    PromptRemoved,
    QueueHeld,
    TurnEnded,
    TurnStarted,
)
from hames.domain.ids import ApprovalId, CallId, ItemId, PromptId, TurnId
from hames.domain.items import AgentMessage, CommandExecution, TextInput, UserMessage
from hames.domain.state import QueuedPrompt, ThreadState, Turn
from hames.protocols.acp.session import AcpSession
from hames.protocols.session import Execute, Follow
from hames.testing.checks.session import receive

# -- the queue


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("how", ["held", "dropped", "cancelled", "$/cancel_request", "lost"])
def test_a_queued_prompt_is_always_answered(version: int, how: str) -> None:
    session, now = following(version)
    now, _ = tell(session, now, TurnStarted(turn_id=TURN), PromptQueued(prompt_id=PromptId("p"), content=()))
    [action], _ = ask(session, "session/prompt", prompted(*TEXT))
    session.done(action, QueuedPrompt(id=PromptId("p"), content=()))
    assert messages(session) == []
    match how:
        case "held":
            _, heard = tell(session, now, QueueHeld(held=True))
            assert session.next_deadline() == 0.0
            [drop] = session.expire(0.0)
            assert isinstance(drop, Execute)
        case "dropped":
            _, heard = tell(session, now, PromptRemoved(prompt_id=PromptId("p")))
        case "lost":
            session.lost(THREAD, "the thread was closed")
            heard = messages(session)
        case _:
            params = {"sessionId": THREAD} if how == "cancelled" else {"requestId": 7}
            method = "session/cancel" if how == "cancelled" else how
            _, said = receive(session, json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())
            heard = [json.loads(line) for line in said.splitlines()]
    [answer] = [one for one in heard if one.get("id") == 7]
    if how == "lost":
        assert answer["error"]["code"] == -32603
    elif version == 1:
        assert answer["result"]["stopReason"] == "cancelled"
    else:
        assert answer["error"]["code"] == -32800


# -- cancel races


def notified(session: AcpSession, method: str, **params: Any) -> tuple[list[Any], list[Any]]:
    """The commands that a notification becomes, and what is said at once."""
    actions, said = receive(session, json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())
    commands = [action.command for action in actions if isinstance(action, Execute)]
    return commands, [json.loads(line) for line in said.splitlines()]


def running(version: int) -> tuple[AcpSession, ThreadState]:
    """A turn that this client asked for with request 7."""
    session, now = following(version)
    [action], _ = ask(session, "session/prompt", prompted(*TEXT))
    session.done(action, Turn(id=TURN, started_at_ms=1, items=(SAID,)))
    messages(session)
    now, _ = tell(session, now, TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=SAID))
    return session, now


SAID = UserMessage(id=ItemId("u"), step=0, content=(TextInput(text="go"),))
CALL = CommandExecution(id=ITEM, step=1, call_id=CallId("c"), command="make", cwd="/w")
STOPPED = TurnEnded(turn_id=TURN, status="interrupted")


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("moment", ["nothing runs", "the turn runs", "a tool runs", "the turn has ended"])
def test_cancel_of_a_session_is_never_answered_and_always_an_interrupt(version: int, moment: str) -> None:
    """Whether a turn runs is known to the engine alone: it may have begun a moment ago."""
    session, now = following(version) if moment == "nothing runs" else running(version)
    if moment == "a tool runs":
        tell(session, now, ItemStarted(turn_id=TURN, item=CALL))
    elif moment == "the turn has ended":
        tell(session, now, TurnEnded(turn_id=TURN, status="completed"))
    assert notified(session, "session/cancel", sessionId=THREAD) == ([InterruptTurn(thread_id=THREAD)], [])


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(
    ("request_id", "moment", "interrupts"),
    [
        (7, "running", True),
        (7, "ended", False),
        ("7", "running", False),
        (8, "running", False),
        (7.0, "running", False),
        (None, "running", False),
        ([7], "running", False),
        (True, "running", False),
    ],
)
def test_cancel_of_a_request_ends_the_turn_of_that_request_only(
    version: int, request_id: Any, moment: str, interrupts: bool
) -> None:
    session, now = running(version)
    if moment == "ended":
        tell(session, now, TurnEnded(turn_id=TURN, status="completed"))
    commands, said = notified(session, "$/cancel_request", requestId=request_id)
    assert commands == ([InterruptTurn(thread_id=THREAD, turn_id=TURN)] if interrupts else [])
    assert said == []


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("status", ["interrupted", "completed"])
def test_a_prompt_that_is_cancelled_again_and_again_is_answered_once(version: int, times: int, status: Any) -> None:
    """The turn may end by itself before the interrupt comes: then it has ended so."""
    session, now = running(version)
    heard: list[Any] = []
    for _ in range(times):
        heard += notified(session, "session/cancel", sessionId=THREAD)[1]
        heard += notified(session, "$/cancel_request", requestId=7)[1]
    _, told = tell(session, now, TurnEnded(turn_id=TURN, status=status))
    heard += told
    heard += notified(session, "$/cancel_request", requestId=7)[1]
    word = "cancelled" if status == "interrupted" else "end_turn"
    if version == 1:
        [answer] = [one for one in heard if "method" not in one]
        assert (answer["id"], answer["result"]["stopReason"]) == (7, word)
    else:
        updates = [one["params"]["update"] for one in heard]
        assert [one["stopReason"] for one in updates if one["sessionUpdate"] == "state_update"] == [word]


@pytest.mark.parametrize("version", BOTH)
def test_a_refused_interrupt_says_nothing(version: int) -> None:
    """The turn ended by itself: there is nobody to tell."""
    session, _ = running(version)
    actions, _ = receive(
        session, json.dumps({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": THREAD}}).encode()
    )
    [action] = actions
    assert session.failed(action, InvalidCommand("no turn runs")) == []
    assert messages(session) == []


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("first", ["the turn ends", "the interrupt is refused"])
def test_close_while_a_turn_runs_is_answered_once(version: int, first: str) -> None:
    session, now = running(version)
    actions, heard = ask(session, "session/close", {"sessionId": THREAD}, number=8)
    [interrupt] = actions
    assert isinstance(interrupt, Execute)
    assert heard == [], "the turn has not ended yet"
    if first == "the turn ends":
        heard = tell(session, now, STOPPED)[1]
        session.expire(0.0)
        session.failed(interrupt, InvalidCommand("no turn runs"))
    else:
        session.failed(interrupt, InvalidCommand("no turn runs"))
        heard = messages(session)
        assert tell(session, now, STOPPED)[1] == [], "a closed session is told nothing"
    heard += messages(session)
    assert [one["result"] for one in heard if one.get("id") == 8] == [{}]


# -- two permissions at once


ALLOW = {"outcome": {**SELECTED, "optionId": "allow_once"}}


def two_questions(version: int) -> tuple[AcpSession, ThreadState, Any, Any]:
    session, now = following(version)
    now, first = asked(session, now, RUN, "apr_1")
    now, second = asked(session, now, CHANGE, "apr_2")
    assert first["id"] != second["id"]
    return session, now, first, second


def withdrawn(heard: list[Any]) -> list[Any]:
    return [one["params"]["requestId"] for one in heard if one.get("method") == "$/cancel_request"]


@pytest.mark.parametrize("version", BOTH)
def test_one_of_two_permissions_is_answered_elsewhere_and_the_other_stays(version: int) -> None:
    session, now, first, second = two_questions(version)
    resolved = ApprovalResolved(turn_id=TURN, approval_id=ApprovalId("apr_1"), item_id=ITEM, decision="reject")
    _, heard = tell(session, now, resolved)
    assert withdrawn(heard) == [first["id"]]
    assert answered(session, first, result=ALLOW) == []
    assert [one.approval_id for one in answered(session, second, result=ALLOW)] == ["apr_2"]


@pytest.mark.parametrize("version", BOTH)
def test_both_permissions_are_cancelled_and_both_rejected(version: int) -> None:
    session, _, first, second = two_questions(version)
    for question, name in ((second, "apr_2"), (first, "apr_1")):
        interrupt, reject = answered(session, question, result={"outcome": {"outcome": "cancelled"}})
        assert interrupt == InterruptTurn(thread_id=THREAD, turn_id=TURN)
        assert (reject.approval_id, reject.decision) == (name, "reject")


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("how", ["lost", "session/close"])
def test_both_permissions_are_withdrawn_when_the_session_goes(version: int, how: str) -> None:
    session, _, first, second = two_questions(version)
    if how == "lost":
        session.lost(THREAD, "the thread was closed")
        heard = messages(session)
    else:
        _, heard = ask(session, how, {"sessionId": THREAD})
    assert withdrawn(heard) == [first["id"], second["id"]]
    assert answered(session, first, result=ALLOW) == answered(session, second, result=ALLOW) == []


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("closed", [True, False])
def test_a_session_that_is_opened_again_asks_only_what_is_not_asked(version: int, closed: bool) -> None:
    session, now, first, second = two_questions(version)
    if closed:
        ask(session, "session/close", {"sessionId": THREAD})
    actions, _ = ask(session, "session/resume", {"sessionId": THREAD, "cwd": "/w"}, number=9)
    follow = actions[-1]
    assert isinstance(follow, Follow)
    session.followed(follow, now, (), 0.0)
    heard = messages(session)
    kinds = [one.get("method", "answer") for one in heard]
    questions = [one["id"] for one in heard if one.get("method") == "session/request_permission"]
    assert questions == ([first["id"], second["id"]] if closed else [])
    assert "session/request_permission" not in kinds[: kinds.index("answer")], "the answer comes before a question"
    assert [one.approval_id for one in answered(session, second, result=ALLOW)] == ["apr_2"]


# -- order


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("ending", [TurnEnded(turn_id=TURN, status="completed"), STOPPED])
def test_a_turn_is_told_from_its_first_word_to_its_last(version: int, ending: TurnEnded) -> None:
    session, now = running(version)
    text = AgentMessage(id=ItemId("m"), step=1)
    events: list[Event] = [
        ItemStarted(turn_id=TURN, item=text),
        ItemDelta(turn_id=TURN, item_id=text.id, stream="text", text="so"),
        ItemCompleted(turn_id=TURN, item=replace(text, text="so", status="completed")),
        ItemStarted(turn_id=TURN, item=CALL),
        ItemCompleted(turn_id=TURN, item=replace(CALL, status="completed", exit_code=0)),
        ending,
    ]
    _, heard = tell(session, now, *events)
    for message in heard:
        check_message(version, message, "session/prompt")
    kinds = [one["params"]["update"]["sessionUpdate"] if "method" in one else "answer" for one in heard]
    steps = {
        1: ["agent_message_chunk", "tool_call", "tool_call_update", "answer"],
        2: ["agent_message_chunk", "tool_call_update", "tool_call_update", "state_update"],
    }[version]
    places = iter(kinds)
    assert all(step in places for step in steps), kinds
    assert kinds[-1] == steps[-1]


@pytest.mark.parametrize("version", BOTH)
def test_a_permission_comes_behind_the_call_that_it_is_about(version: int) -> None:
    session, now = running(version)
    approval = Approval(id=ApprovalId("apr_1"), turn_id=TURN, item_id=ITEM, intent=RUN)
    _, heard = tell(session, now, ItemStarted(turn_id=TURN, item=CALL), ApprovalRequested(approval=approval))
    told = [index for index, one in enumerate(heard) if '"toolCallId": "item_1"' in json.dumps(one) and "id" not in one]
    [question] = [index for index, one in enumerate(heard) if one.get("method") == "session/request_permission"]
    assert told[0] < question


@pytest.mark.parametrize("version", BOTH)
def test_a_prompt_that_waited_is_answered_for_its_own_turn(version: int) -> None:
    """Two prompts of one client: each answer has the number of its request, and they come in their order."""
    session, now = running(version)
    [action], _ = ask(session, "session/prompt", prompted(*TEXT), number=8)
    waiting = PromptId("p")
    now, _ = tell(session, now, PromptQueued(prompt_id=waiting, content=SAID.content))
    session.done(action, QueuedPrompt(id=waiting, content=SAID.content))
    second = TurnId("turn_2")
    said = replace(SAID, id=ItemId("u2"), client_id=waiting)
    events: list[Event] = [
        TurnEnded(turn_id=TURN, status="completed"),
        PromptRemoved(prompt_id=waiting),
        TurnStarted(turn_id=second),
        ItemStarted(turn_id=second, item=said),
        TurnEnded(turn_id=second, status="interrupted"),
    ]
    _, heard = tell(session, now, *events)
    answers = [(one["id"], one["result"]) for one in heard if "method" not in one]
    if version == 1:
        assert [(number, one["stopReason"]) for number, one in answers] == [(7, "end_turn"), (8, "cancelled")]
    else:
        assert answers == [(8, {"messageId": "u2"})], "the first was answered when it began"
