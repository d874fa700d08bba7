"""Ephemeral threads: in no list, gone when their client leaves, and whole while they exist."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from flint_support import Talk, real_engine, talking, wired
from hames.domain.commands import CreateThread, ListThreads, ReadThread, ThreadPage
from hames.domain.errors import ThreadNotFound
from hames.domain.events import ThreadCreated
from hames.domain.options import Settings
from hames.domain.state import Change, ThreadState, apply, blank
from hames.protocols.bootstrap import inbound as bootstrap
from hames.protocols.sync.encoder import ThreadListEncoder
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import ScriptedModel, hang, say
from support import engine


async def listed(the_engine: Any, **query: Any) -> list[str]:
    page = await the_engine.execute(ListThreads(**query))
    assert isinstance(page, ThreadPage)
    return [thread.id for thread in page.threads]


async def gone(the_engine: Any, thread_id: str) -> None:
    with anyio.fail_after(60):
        while True:
            try:
                await the_engine.execute(ReadThread(thread_id=thread_id))
            except ThreadNotFound:
                return
            await anyio.lowlevel.checkpoint()


async def test_an_ephemeral_thread_is_in_no_list_and_works_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    model = ScriptedModel([say("Hello there.")], [say("Again.")])
    async with real_engine(model, tmp_path) as the_engine, talking(the_engine, "any-client") as talk:
        opened = await talk.call("thread/start", ephemeral=True)
        assert opened["thread"]["ephemeral"] is True
        thread_id = opened["thread"]["id"]
        await talk.prompt(thread_id, "a word to find")
        for query in ({}, {"archived": True}, {"searchTerm": "word"}):
            assert (await talk.call("thread/list", **query))["data"] == []
        assert (await talk.call("thread/read", threadId=thread_id))["thread"]["ephemeral"] is True
        await talk.call("thread/archive", threadId=thread_id)
        assert await listed(the_engine, archived=True) == []
        every = bootstrap.decode("thread.list", {})
        assert isinstance(every, ListThreads)
        page = await the_engine.execute(every)
        assert isinstance(page, ThreadPage)
        assert page.threads == ()
        assert (await talk.prompt(thread_id))["turn"]["status"] == "completed"
        lasting = await talk.start()
        assert [thread["id"] for thread in (await talk.call("thread/list"))["data"]] == [lasting]


@pytest.mark.parametrize("running", [False, True])
async def test_an_ephemeral_thread_is_deleted_when_its_client_leaves(running: bool) -> None:
    model = ScriptedModel([say("Hello."), *([hang()] if running else [])])
    async with engine(model) as the_engine:
        async with wired(the_engine) as wire:
            talk = await Talk(wire).meet("codex")
            thread_id = await talk.start(ephemeral=True)
            lasting = await talk.start()
            if running:
                await talk.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
                await talk.until("item/agentMessage/delta")
            else:
                await talk.prompt(thread_id)
            await wire.aclose()
            await gone(the_engine, thread_id)
        assert await listed(the_engine) == [lasting]


async def test_a_fork_can_be_ephemeral_and_leaves_its_source_alone() -> None:
    async with engine(ScriptedModel([say("One.")], [say("Two.")])) as the_engine:
        async with wired(the_engine) as wire:
            talk = await Talk(wire).meet("codex")
            source = await talk.start()
            await talk.prompt(source)
            forked = await talk.call("thread/fork", threadId=source, ephemeral=True)
            assert (forked["thread"]["ephemeral"], len(forked["thread"]["turns"])) == (True, 1)
            assert await listed(the_engine) == [source]
            await wire.aclose()
            await gone(the_engine, forked["thread"]["id"])
        assert await listed(the_engine) == [source]


async def test_another_client_that_leaves_takes_no_ephemeral_thread_along() -> None:
    async with engine(ScriptedModel([say("One.")])) as the_engine, talking(the_engine, "codex") as talk:
        thread_id = await talk.start(ephemeral=True)
        async with talking(the_engine, "codex") as other:
            await other.call("thread/resume", threadId=thread_id)
        assert (await talk.prompt(thread_id))["turn"]["status"] == "completed"


async def test_ephemeral_threads_are_deleted_when_the_engine_ends(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    async with real_engine(ScriptedModel(), tmp_path) as the_engine:
        await the_engine.execute(CreateThread(ephemeral=True))
        assert len(list((tmp_path / "data" / "threads").iterdir())) == 1
    assert list((tmp_path / "data" / "threads").iterdir()) == []


async def test_threads_of_a_killed_process_are_swept_and_others_are_not(tmp_path: Path) -> None:
    def store() -> JsonlStore:
        return JsonlStore(tmp_path / "data", places=Places(tmp_path / "state"))

    (tmp_path / "ws").mkdir()
    killed, alive = store(), store()
    first = ThreadCreated(settings=Settings(model="a/b", cwd="/"), ephemeral=True)
    for owner, name in ((killed, "dead"), (killed, "kept"), (alive, "busy")):
        log = await owner.create(name, ephemeral=True)
        event = first if name != "kept" else ThreadCreated(settings=first.settings)
        await log.append([_record(name, event)], sync=True)
        if owner is killed:
            await log.close()  # a killed process lets go of its locks; the thread stays
    async with real_engine(ScriptedModel(), tmp_path) as the_engine:
        assert await listed(the_engine) == ["kept"]  # its own log does not call it ephemeral
        assert sorted(path.name for path in (tmp_path / "data" / "threads").iterdir()) == ["busy", "kept"]
    async with real_engine(ScriptedModel(), tmp_path):
        assert (tmp_path / "data" / "threads" / "busy").exists()
    for one in (killed, alive):
        await one.close()


async def test_a_mark_that_came_with_a_repository_deletes_nothing(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    async with real_engine(ScriptedModel(), tmp_path) as the_engine:
        kept = await the_engine.execute(CreateThread())
        assert isinstance(kept, ThreadState)
    for folder in (tmp_path / "data" / "ephemeral", tmp_path / "data" / "threads" / "ephemeral"):
        folder.mkdir()
        (folder / kept.id).write_text("")
    async with real_engine(ScriptedModel(), tmp_path) as the_engine:
        assert await listed(the_engine) == [kept.id]


def test_the_page_is_told_nothing_of_an_ephemeral_thread() -> None:
    encoder = ThreadListEncoder()
    for ephemeral in (True, False):
        record = _record("t1", ThreadCreated(settings=Settings(model="a/b", cwd="/"), ephemeral=ephemeral))
        before = blank(record.thread_id)
        assert encoder.observe(Change(record=record, before=before, after=apply(before, record))) is not ephemeral
    assert [row["id"] for row in json.loads(encoder.encode())["threads"]] == ["t1"]


def _record(name: str, event: Any) -> Any:
    from hames.domain.events import Record
    from hames.domain.ids import ThreadId

    return Record(seq=1, at_ms=1, thread_id=ThreadId(name), event=event)
