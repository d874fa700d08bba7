"""A model service that does not stop talking is stopped, before it fills the disk."""

import anyio
import pytest

from hames.core import compaction, loop
from hames.domain.commands import CompactThread
from hames.domain.events import ItemCompleted, TurnEnded
from hames.domain.items import Compaction
from hames.testing.fakes.model import ScriptedModel, Step, call_raw, say, think
from support import created, engine, events, turn_end, whole_turn


@pytest.mark.parametrize("kind", ["text", "thoughts", "a call", "empty blocks"])
async def test_RES_1_a_reply_without_end_is_stopped_and_not_asked_for_again(kind: str) -> None:
    much = "x" * (loop.REPLY_CHARS + 1)
    endless: dict[str, list[Step]] = {
        "text": [say(much, pieces=8)],
        "thoughts": [think(much, pieces=8)],
        "a call": [call_raw("echo", f'"{much}"', pieces=8)],
        "empty blocks": [say("x", pieces=1)] * (loop.REPLY_CHARS // loop.BLOCK_CHARS + 1),
    }
    model = ScriptedModel(endless[kind], [say("Here I am.")])
    async with engine(model) as its_engine:
        thread = await created(its_engine)
        with anyio.fail_after(120):
            changes = await whole_turn(its_engine, thread.id)
        ended = events(changes)[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.status == "failed"
        assert "characters" in (ended.error.message if ended.error else "")
        again = events(await whole_turn(its_engine, thread.id))[-1]
        assert isinstance(again, TurnEnded)
        assert again.status == "completed"
    model.assert_finished()


async def test_RES_1_a_summary_without_end_is_given_up() -> None:
    model = ScriptedModel([say("Hello.")], [say("x" * (compaction.SUMMARY_CHARS + 1), pieces=8)])
    async with engine(model) as its_engine:
        thread = await created(its_engine)
        await whole_turn(its_engine, thread.id)
        watcher = await its_engine.watch(thread.id)
        await its_engine.execute(CompactThread(thread_id=thread.id))
        with anyio.fail_after(120):
            told = events(await turn_end(watcher))
        watcher.close()
    made = [event.item for event in told if isinstance(event, ItemCompleted) and isinstance(event.item, Compaction)]
    assert [item.status for item in made] == ["failed"]
