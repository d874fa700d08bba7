"""Who did what, in the log: prompts that wait, steers, interrupts, and logs that know nothing of it."""

from pathlib import Path

import msgspec

from hames.api.engine import LocalEngine
from hames.domain.actors import HAMES, Actor
from hames.domain.commands import (
    ChangeSettings,
    CompactThread,
    DropPrompt,
    InterruptTurn,
    SteerTurn,
    SubmitPrompt,
)
from hames.domain.events import (
    ApprovalResolved,
    PromptQueued,
    PromptRemoved,
    Record,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
)
from hames.domain.foreign import disarmed
from hames.domain.ids import ApprovalId, ItemId, PromptId, ThreadId, TurnId
from hames.domain.items import TextInput, UserMessage
from hames.domain.options import Overrides, Settings
from hames.stdio.principals import account
from hames.testing.fakes.model import ScriptedModel, hang, say
from support import created, engine, started, turn_end

ANN, BOB = Actor(kind="user", name="ann", via="terminal"), Actor(kind="token", name="bob", via="page")
TEXT = (TextInput(text="go"),)


async def test_a_prompt_that_waited_is_still_its_writers() -> None:
    async with engine(ScriptedModel([hang()], [say("Done.")])) as house:
        thread = (await created(house)).id
        watcher = await house.watch(thread)
        await house.execute(SubmitPrompt(thread_id=thread, content=TEXT, by=ANN))
        await house.execute(SubmitPrompt(thread_id=thread, content=TEXT, by=BOB))
        queued = await house.execute(SubmitPrompt(thread_id=thread, content=TEXT, by=ANN))
        await house.execute(DropPrompt(thread_id=thread, prompt_id=queued.id, by=BOB))
        await house.execute(SteerTurn(thread_id=thread, content=TEXT, by=BOB))
        await house.execute(InterruptTurn(thread_id=thread, by=BOB))
        await turn_end(watcher)
        await house.execute(SubmitPrompt(thread_id=thread, content=TEXT, by=ANN))  # goes on with the queue
        await turn_end(watcher)
        found = [change.record.event for change in await house.history(thread)]
    assert [event.by for event in found if isinstance(event, PromptQueued)][:2] == [BOB, ANN]
    assert next(event.by for event in found if isinstance(event, PromptRemoved)) == BOB
    assert [event.by for event in found if isinstance(event, TurnStarted)][:2] == [ANN, BOB]
    assert next(event.by for event in found if isinstance(event, TurnEnded)) == BOB
    state = (await house_state(found))["messages"]
    assert state[:3] == [ANN, BOB, BOB]


async def house_state(found: list) -> dict:
    items = [event.item for event in found if type(event).__name__ == "ItemStarted"]
    return {"messages": [item.by for item in items if isinstance(item, UserMessage)]}


async def test_a_turn_that_the_harness_stopped_says_so() -> None:
    house = engine(ScriptedModel([hang()]))
    async with house:
        thread = (await created(house)).id
        await started(house, thread)
        watcher = await house.watch(thread)
    ended = [change.record.event for change in await watcher.next()]
    assert [event.by for event in ended if isinstance(event, TurnEnded)] == [HAMES]


async def test_settings_and_summaries_have_somebody_too() -> None:
    async with engine(ScriptedModel([say("Hi")], [say("Summary")])) as house:
        thread = (await created(house)).id
        watcher = await house.watch(thread)
        await house.execute(ChangeSettings(thread_id=thread, overrides=Overrides(approval_policy="always"), by=BOB))
        await started(house, thread)
        await turn_end(watcher)
        await house.execute(CompactThread(thread_id=thread, by=ANN))
        await turn_end(watcher)
        found = [change.record.event for change in await house.history(thread)]
    assert [event.by for event in found if isinstance(event, SettingsChanged)] == [BOB]
    assert [event.by for event in found if isinstance(event, TurnStarted)] == [None, ANN]


async def test_a_program_that_uses_the_library_is_its_account_or_whom_it_names() -> None:
    async with engine(ScriptedModel([say("Hi")], [say("Ho")])) as house:
        library = LocalEngine(house)
        thread = await library.start_thread()
        await thread.run("go")
        mail = Actor(kind="client", name="ann@example.com", via="library")
        watcher = await house.watch(thread.id)
        await library.execute(SubmitPrompt(thread_id=thread.id, content=TEXT, by=mail))
        await turn_end(watcher)
        found = [change.record.event for change in await house.history(thread.id)]
    own = Actor(kind="user", name=account(), via="library")
    assert [event.by for event in found if isinstance(event, TurnStarted)] == [own, mail]


def test_a_log_of_an_earlier_version_names_nobody() -> None:
    for line in (Path(__file__).parent / "format-1.jsonl").read_bytes().splitlines():
        text = msgspec.json.decode(line)
        assert "by" not in text.get("event", {})
    event = msgspec.json.decode(b'{"type":"turn_ended","turn_id":"t","status":"interrupted"}', type=TurnEnded)
    assert event.by is None


def test_a_foreign_log_names_nobody_whatever_it_says() -> None:
    settings = Settings(model="a/b", cwd="/")
    claims = (
        TurnStarted(turn_id=TurnId("t"), by=ANN),
        TurnEnded(turn_id=TurnId("t"), status="interrupted", by=ANN),
        SettingsChanged(settings=settings, by=ANN),
        PromptRemoved(prompt_id=PromptId("p"), by=ANN),
        ApprovalResolved(
            turn_id=TurnId("t"), approval_id=ApprovalId("a"), item_id=ItemId("i"), decision="once", by=ANN
        ),
    )
    for event in claims:
        record = Record(seq=1, at_ms=0, thread_id=ThreadId("s"), event=event)
        assert getattr(disarmed(record, settings).event, "by", None) is None
