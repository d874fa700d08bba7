"""The lists of Codex's protocol: every filter, order and page that a client asks for is what it gets, or is refused."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flint_support import Talk, talking
from hames.testing.fakes.clock import FakeClock
from hames.testing.fakes.model import OneModel, ScriptedModel, say
from support import engine


@asynccontextmanager
async def three_threads(place: Path) -> AsyncGenerator[tuple[Talk, dict[str, str]]]:
    """One, two and three were made in this order; then there was something new in one. Two works elsewhere."""
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    clock = FakeClock()
    async with (
        engine(OneModel(ScriptedModel(*([say("Done.")] for _ in range(9)))), clock=clock) as the_engine,
        talking(the_engine, "codex_client") as talk,
    ):
        names: dict[str, str] = {}
        for name, cwd in (("one", place), ("two", elsewhere), ("three", place)):
            clock.advance(1)
            names[name] = await talk.start(cwd=str(cwd))
            await talk.prompt(names[name], text=name)
        clock.advance(1)
        await talk.prompt(names["one"], text="again")
        yield talk, names


async def listed(talk: Talk, names: dict[str, str], **asked: Any) -> list[str]:
    known = {thread_id: name for name, thread_id in names.items()}
    return [known[thread["id"]] for thread in (await talk.call("thread/list", **asked))["data"]]


async def test_a_list_of_threads_has_those_that_were_asked_for(tmp_path: Path) -> None:
    async with three_threads(tmp_path) as (talk, names):
        every = await listed(talk, names)
        assert every == ["one", "three", "two"]
        assert await listed(talk, names, cwd=str(tmp_path)) == ["one", "three"]
        assert await listed(talk, names, cwd=[str(tmp_path / "elsewhere"), "/nowhere"]) == ["two"]
        assert await listed(talk, names, cwd="/nowhere") == []
        assert await listed(talk, names, modelProviders=["openai"]) == []
        assert await listed(talk, names, modelProviders=["scripted"]) == every
        assert await listed(talk, names, modelProviders=[]) == every
        assert await listed(talk, names, excludedThreadIds=[names["one"]]) == ["three", "two"]
        assert await listed(talk, names, attachedToThreadId=names["one"]) == []
        assert await listed(talk, names, originators=[]) == every
        refused = await talk.answer("thread/list", originators=["somebody"])
        assert refused["error"]["message"].startswith("originators: ")


async def test_a_list_of_threads_has_the_order_that_was_asked_for(tmp_path: Path) -> None:
    async with three_threads(tmp_path) as (talk, names):
        assert await listed(talk, names, sortKey="created_at") == ["three", "two", "one"]
        assert await listed(talk, names, sortKey="created_at", sortDirection="asc") == ["one", "two", "three"]
        assert await listed(talk, names, sortDirection="asc") == ["two", "three", "one"]


@pytest.mark.parametrize("asked", [{"sortKey": "created_at"}, {"sortDirection": "asc"}, {}, {"excludedThreadIds": 1}])
async def test_pages_of_a_list_have_each_thread_once(tmp_path: Path, asked: dict[str, Any]) -> None:
    async with three_threads(tmp_path) as (talk, names):
        if asked.get("excludedThreadIds"):
            asked = {"excludedThreadIds": [names["three"]]}
        whole = await listed(talk, names, **asked)
        known = {thread_id: name for name, thread_id in names.items()}
        found: list[str] = []
        cursor = None
        while True:
            page = await talk.call("thread/list", **asked, limit=1, cursor=cursor)
            found += [known[thread["id"]] for thread in page["data"]]
            cursor = page["nextCursor"]
            if cursor is None:
                break
            assert len(page["data"]) == 1
        assert found == whole
        stale = await talk.answer("thread/list", **asked, cursor="never given")
        assert "cursor" in stale["error"]["message"]


async def test_turns_come_with_as_many_items_as_were_asked_for(tmp_path: Path) -> None:
    async with three_threads(tmp_path) as (talk, names):
        for view, kinds in (
            ("full", ["userMessage", "agentMessage"]),
            ("summary", ["userMessage", "agentMessage"]),
            ("notLoaded", []),
        ):
            data = (await talk.call("thread/turns/list", threadId=names["one"], itemsView=view))["data"]
            assert [turn["itemsView"] for turn in data] == [view, view]
            assert [item["type"] for item in data[0]["items"]] == kinds


async def test_items_are_those_of_the_turn_that_was_named_oldest_first(tmp_path: Path) -> None:
    async with three_threads(tmp_path) as (talk, names):
        newest, oldest = (turn["id"] for turn in (await talk.call("thread/turns/list", threadId=names["one"]))["data"])
        every = (await talk.call("thread/items/list", threadId=names["one"]))["data"]
        assert [entry["turnId"] for entry in every] == [oldest, oldest, newest, newest]
        some = (await talk.call("thread/items/list", threadId=names["one"], turnId=newest))["data"]
        assert some == every[2:]
        assert (await talk.call("thread/items/list", threadId=names["one"], turnId="turn_none"))["data"] == []


async def test_models_and_loaded_threads_come_in_pages(tmp_path: Path) -> None:
    async with three_threads(tmp_path) as (talk, names):
        assert (await talk.call("model/list", modelProvider="nobody"))["data"] == []
        models = (await talk.call("model/list"))["data"]
        first = await talk.call("model/list", limit=1)
        assert first["data"] == models[:1]
        assert (first["nextCursor"] is None) == (len(models) == 1)
        loaded = await talk.call("thread/loaded/list", limit=2)
        rest = await talk.call("thread/loaded/list", cursor=loaded["nextCursor"])
        assert [*loaded["data"], *rest["data"]] == list(names.values())
        for method in ("model/list", "thread/loaded/list"):
            assert "cursor" in (await talk.answer(method, cursor="never given"))["error"]["message"]


async def test_a_review_elsewhere_is_refused(tmp_path: Path) -> None:
    async with three_threads(tmp_path) as (talk, names):
        target = {"type": "custom", "instructions": "look"}
        for word in ("detached", "bogus"):
            answer = await talk.answer("review/start", threadId=names["one"], target=target, delivery=word)
            assert answer["error"]["message"].startswith("delivery: only 'inline'")
