"""`_meta` on a thread, a turn, a message and its parts comes back as it was given, from every answer, for ever."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from flint_support import Message, real_engine, talking
from hames.testing.fakes.model import ScriptedModel, say, wait_for

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "notes.txt").write_text("notes")
    return tmp_path


def user_messages(turn: Message) -> list[Message]:
    return [item for item in turn["items"] if item["type"] == "userMessage"]


@pytest.mark.spec("flint/meta-anywhere", "flint/meta-no-assumptions")
@pytest.mark.parametrize("meta", [None, 5, [], {"a": [1.5, "ü", None]}, "x", False], ids=str)
async def test_meta_comes_back_untouched_also_after_a_restart(folder: Path, meta: Any) -> None:
    parts = [
        {"type": "text", "text": "hi", "_meta": meta},
        {"type": "image", "url": PIXEL, "_meta": meta},
        {"type": "file", "path": "notes.txt", "_meta": meta},
        {"type": "text", "text": "plain"},
    ]
    async with real_engine(ScriptedModel([say("Hello.")]), folder) as engine, talking(engine) as talk:
        opened = await talk.call("thread/start", _meta=meta)
        assert opened["thread"]["_meta"] == meta
        thread_id = opened["thread"]["id"]
        assert (await talk.until("thread/started"))["params"]["thread"]["_meta"] == meta
        await talk.call("turn/start", threadId=thread_id, input=parts, _meta=meta)
        ended = (await talk.until("turn/completed"))["params"]["turn"]
        assert ended["_meta"] == meta
        (message,) = user_messages(ended)
        assert message["_meta"] == meta
        assert message["content"] == parts
    async with real_engine(ScriptedModel(), folder) as engine, talking(engine) as talk:
        (listed,) = (await talk.call("thread/list"))["data"]
        resumed = (await talk.call("thread/resume", threadId=thread_id))["thread"]
        forked = (await talk.call("thread/fork", threadId=thread_id, _meta=[meta]))["thread"]
        assert (listed["_meta"], resumed["_meta"], forked["_meta"]) == (meta, meta, [meta])
        (turn,) = resumed["turns"]
        assert turn["_meta"] == meta
        assert user_messages(turn)[0]["content"] == parts


@pytest.mark.spec("flint/meta-anywhere")
async def test_what_carries_no_meta_gets_none(folder: Path) -> None:
    async with real_engine(ScriptedModel([say("Hello.")]), folder) as engine, talking(engine) as talk:
        ended = await talk.prompt(await talk.start())
        (listed,) = (await talk.call("thread/list"))["data"]
        (message,) = user_messages(ended["turn"])
    assert not [one for one in (listed, ended["turn"], message, message["content"][0]) if "_meta" in one]


@pytest.mark.spec("flint/meta-anywhere")
async def test_a_prompt_that_waits_and_a_word_in_between_keep_their_meta(folder: Path) -> None:
    go_on = anyio.Event()
    model = ScriptedModel([wait_for(go_on), say("One.")], [say("Two.")], [say("Three.")])
    async with real_engine(model, folder) as engine, talking(engine) as talk:
        thread_id = await talk.start()
        await talk.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        said = [{"type": "text", "text": "next", "_meta": 1}]
        queued = await talk.call("thread/queue/add", threadId=thread_id, input=said, _meta=2)
        waiting = await talk.call("thread/queue/list", threadId=thread_id)
        await talk.call("turn/steer", threadId=thread_id, input=[{"type": "text", "text": "psst", "_meta": 3}], _meta=4)
        go_on.set()
        first = (await talk.until("turn/completed"))["params"]["turn"]
        second = (await talk.until("turn/completed"))["params"]["turn"]
    assert (queued["queued"]["_meta"], waiting["data"][0]["_meta"]) == (2, 2)
    steered = user_messages(first)[1]
    assert (steered["_meta"], steered["content"][0]["_meta"]) == (4, 3)
    assert (second["_meta"], user_messages(second)[0]["content"][0]["_meta"]) == (2, 1)
