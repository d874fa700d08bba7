"""A long conversation stays light: only what is looked at is drawn, and the row under the eyes stays put."""

import re

from stagehand import Stage, staged

from hames.protocols.flint import items as wire
from hames.testing.fakes.model import ScriptedModel, say
from hames.tui.blocks.by_item import block_of
from hames.tui.transcript import KEPT_DRAWN

MANY = 10_000


def message(number: int) -> wire.ThreadItem:
    lines = "\n\n".join(f"message {number} line {line}" for line in range(1 + number % 4))
    return wire.AgentMessageItem(id=f"i{number}", text=lines)


async def long(stage: Stage, count: int = MANY) -> None:
    stage.app.transcript.extend(block_of(message(number)) for number in range(count))
    await stage.shows(f"message {count - 1} line")


async def test_ten_thousand_items_draw_a_screenful() -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        await long(stage)
        assert stage.app.transcript.drawn < 60
        await stage.presses("ctrl+home")
        await stage.shows("message 0 line 0")
        await stage.presses("ctrl+end")
        await stage.shows(f"message {MANY - 1} line 0")
        for _ in range(300):
            stage.app.action_scroll(-1)
        assert stage.app.transcript.drawn <= KEPT_DRAWN + 30


async def test_every_row_is_met_once_on_the_way_up() -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        await long(stage, 60)
        view = stage.app.transcript
        seen: list[str] = []
        while True:
            await stage.pilot.pause()
            rows = re.findall(r"message \d+ line \d+", stage.screen())
            fresh = [row for row in rows if row not in seen]
            seen = fresh + seen
            if view.scroll_y <= 0:
                break
            before = view.scroll_y
            view.scroll_relative(y=-3, animate=False)
            assert view.scroll_y != before
        expected = [f"message {number} line {line}" for number in range(60) for line in range(1 + number % 4)]
        assert seen == expected


async def test_what_comes_at_the_end_does_not_move_what_is_being_read() -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        await long(stage, 200)
        stage.app.action_scroll(-3)
        await stage.pilot.pause()
        before = stage.screen().split("\n")[1:12]
        assert not stage.app.transcript.following
        for number in range(200, 240):
            block = block_of(message(number))
            stage.app.transcript.append(block)
        await stage.until(lambda: stage.app.transcript._timer is None)
        await stage.pilot.pause()
        assert stage.screen().split("\n")[1:12] == before
        await stage.presses("ctrl+end")
        await stage.shows("message 239 line 0")
        assert stage.app.transcript.following


async def test_another_width_keeps_the_place() -> None:
    async with staged(ScriptedModel([say("x")]), size=(100, 30)) as stage:
        await long(stage, 300)
        view = stage.app.transcript
        stage.app.action_scroll(-5)
        await stage.pilot.pause()
        top = stage.screen().split("\n")[2]
        await stage.pilot.resize_terminal(50, 30)
        await stage.until(lambda: view.size.width <= 50)
        await stage.pilot.pause()
        assert top.strip().split(" line")[0] in "\n".join(stage.screen().split("\n")[1:5])
