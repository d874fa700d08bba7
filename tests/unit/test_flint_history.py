"""`thread/resume` replays the history: in the answer, and for a client of the specification alone as notifications."""

from pathlib import Path
from typing import Any

import pytest

from flint_support import Talk, wired
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say
from support import engine

TOLD = ("turn/started", "item/started", "item/completed", "turn/completed")


def history(talk: Talk) -> list[tuple[str, str, Any]]:
    """Which turn or item each notification is of, and what it says at the end."""
    found: list[tuple[str, str, Any]] = []
    for message in talk.heard:
        if message.get("method") in TOLD:
            params = message["params"]
            one = params.get("item") or params["turn"]
            found.append((message["method"], one["id"], one if message["method"] == "item/completed" else None))
    return found


async def met(talk: Talk, **capabilities: Any) -> Talk:
    return await talk.meet("test", **capabilities)


@pytest.mark.spec("flint/thread-resume-replays")
async def test_a_client_of_the_specification_hears_the_history_before_the_answer(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello."), call("plan", entries=[{"step": "Go", "status": "pending"}])], [say("Bye.")])
    store = JsonlStore(tmp_path / "data", places=Places(tmp_path / "state"))
    async with engine(OneModel(model), store=store, policy="never") as first, wired(first) as wire:
        talk = await met(Talk(wire))
        thread_id = await talk.start()
        talk.forget()
        await talk.prompt(thread_id)
        lived = history(talk)
    assert len(lived) > 6
    async with engine(OneModel(model), store=store, policy="never") as second:
        async with wired(second) as wire:
            plain = await met(Talk(wire))
            answer = await plain.call("thread/resume", threadId=thread_id)
            assert history(plain) == lived, "all of it came before the answer, in order"
            assert [turn["items"] for turn in answer["thread"]["turns"]] == [
                [one for method, _, one in lived if method == "item/completed"]
            ]
            plain.forget()
            await plain.call("thread/resume", threadId=thread_id)
            assert history(plain) == [], "a client that follows the thread has heard it"
        for name, capabilities, params in (
            ("test", {"experimentalApi": True}, {}),
            ("codex_client", {}, {}),
            ("test", {}, {"excludeTurns": True}),
        ):
            async with wired(second) as wire:
                other = await Talk(wire).meet(name, **capabilities)
                await other.call("thread/resume", threadId=thread_id, **params)
                assert history(other) == []


async def test_notifications_that_a_client_does_not_want_are_left_out_of_the_history(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path / "data", places=Places(tmp_path / "state"))
    async with engine(OneModel(ScriptedModel([say("Hello.")])), store=store) as the_engine:
        async with wired(the_engine) as wire:
            talk = await met(Talk(wire))
            thread_id = await talk.start()
            await talk.prompt(thread_id)
        async with wired(the_engine) as wire:
            quiet = await met(Talk(wire), optOutNotificationMethods=["item/started"])
            await quiet.call("thread/resume", threadId=thread_id)
            assert {method for method, _, _ in history(quiet)} == {*TOLD} - {"item/started"}
