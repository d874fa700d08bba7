"""When a turn ends because its process died too often, and what counts as progress in between."""

import pytest

from hames.domain.continuing import MAX_CRASHES, MAX_CRASHES_IN_ALL, is_progress, reason_not_to_continue
from hames.domain.events import ApprovalResolved, Event, ItemCompleted
from hames.domain.ids import ApprovalId, CallId, ItemId, TurnId
from hames.domain.items import AgentMessage, TextInput, ToolCall, UserMessage
from hames.domain.state import Turn

TURN = TurnId("t")


def turn(crashes: int = 0, *, paused: bool = False) -> Turn:
    message = UserMessage(id=ItemId("m"), step=0, content=(TextInput(text="go"),))
    return Turn(id=TURN, started_at_ms=0, items=(message,), crashes=crashes, paused=paused)


@pytest.mark.parametrize(
    ("crashes", "deaths", "ends"),
    [
        (MAX_CRASHES - 1, None, True),  # on files, each crash in the log counts
        (MAX_CRASHES - 2, None, False),
        (MAX_CRASHES + 2, 0, False),  # the store says that nobody died since the last progress
        (MAX_CRASHES + 2, MAX_CRASHES - 1, False),
        (0, MAX_CRASHES, True),  # nobody got as far as to write that the turn continues
        (MAX_CRASHES_IN_ALL - 1, 1, True),
        (MAX_CRASHES_IN_ALL - 1, 0, False),
    ],
)
def test_a_turn_ends_after_three_deaths_without_progress_or_ten_in_all(
    crashes: int, deaths: int | None, ends: bool
) -> None:
    assert bool(reason_not_to_continue(turn(crashes), waits=False, deaths=deaths)) is ends
    assert not reason_not_to_continue(turn(crashes, paused=True), waits=False, deaths=deaths)
    assert not reason_not_to_continue(turn(crashes), waits=True, deaths=deaths)


def tool(status: str) -> Event:
    item = ToolCall(id=ItemId("i"), step=1, call_id=CallId("c"), name="t", arguments={}, status=status)  # type: ignore[arg-type]
    return ItemCompleted(turn_id=TURN, item=item)


def answer(ended: str) -> Event:
    return ApprovalResolved(
        turn_id=TURN,
        approval_id=ApprovalId("a"),
        item_id=ItemId("i"),
        decision="once",
        ended=ended,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        *((tool(status), True) for status in ("completed", "failed", "declined")),
        (tool("interrupted"), False),
        (tool("skipped"), False),
        (
            ItemCompleted(turn_id=TURN, item=AgentMessage(id=ItemId("i"), step=1, text="Again", status="completed")),
            False,
        ),
        (answer("answered"), True),
        (answer("withdrawn"), False),
    ],
)
def test_progress_is_a_tool_that_came_to_its_end_or_an_answer(event: Event, expected: bool) -> None:
    assert is_progress(event) is expected
