"""When a tool call of an ACP agent is shown: a call that it may still ask about is not shown as running."""

from typing import Any, cast

import anyio
import pytest

from hames.agents.acp.tool_calls import ToolCalls
from hames.domain.ids import ItemId
from hames.domain.items import CommandExecution, Item
from hames.domain.options import Settings
from hames.ports import TurnHandle

CALL: dict[str, Any] = {"toolCallId": "c1", "title": "touch a", "kind": "execute", "rawInput": {"command": "touch a"}}


class RecordingTurn:
    """The items that a person sees."""

    step = 1
    settings = Settings(model="m", cwd="/w")

    def __init__(self) -> None:
        self.started: list[Item] = []
        self.completed: list[Item] = []

    def new_item_id(self) -> ItemId:
        return ItemId(f"item_{len(self.started)}")

    async def start(self, item: Item) -> None:
        self.started.append(item)

    async def complete(self, item: Item) -> None:
        self.completed.append(item)

    async def append(self, item_id: ItemId, text: str, stream: str) -> None:
        pass


async def _nothing() -> None:
    pass


@pytest.fixture
def turn() -> RecordingTurn:
    return RecordingTurn()


@pytest.fixture
def calls(turn: RecordingTurn) -> ToolCalls:
    return ToolCalls(cast("TurnHandle", turn), set(), end_words=_nothing)


async def test_a_call_that_is_only_announced_is_not_shown_as_running(turn: RecordingTurn, calls: ToolCalls) -> None:
    await calls.update({**CALL, "status": "pending"})
    assert turn.started == []
    await calls.update(CALL, show=True)  # now it asks
    assert [type(one) for one in turn.started] == [CommandExecution]


@pytest.mark.parametrize("then", ["in_progress", "completed", "output", "a while"])
async def test_an_announced_call_is_shown_when_it_goes_on(turn: RecordingTurn, calls: ToolCalls, then: str) -> None:
    await calls.update({**CALL, "status": "pending"})
    match then:
        case "output":
            await calls.update({"toolCallId": "c1", "_meta": {"terminal_output": {"data": "x"}}})
        case "a while":
            with anyio.fail_after(60):
                await calls.wait_announced()
            await calls.show_announced()
        case _:
            await calls.update({"toolCallId": "c1", "status": then})
    assert len(turn.started) == 1
    await calls.end_all()
    await calls.end_all()
    assert len(turn.completed) == 1


async def test_announced_calls_are_shown_in_their_order(turn: RecordingTurn, calls: ToolCalls) -> None:
    await calls.update({**CALL, "status": "pending"})
    await calls.update({**CALL, "toolCallId": "c2", "rawInput": {"command": "touch b"}, "status": "in_progress"})
    await calls.end_all()
    assert [cast("CommandExecution", one).command for one in turn.started] == ["touch a", "touch b"]
