"""Searching threads by what was said in them, on both stores."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hames.domain.commands import ThreadSummary
from hames.domain.events import ItemCompleted, ItemDelta, Record
from hames.domain.ids import CallId, ItemId, ThreadId, TurnId
from hames.domain.items import AgentMessage, CommandExecution, Item, TextInput, UserMessage
from hames.ports import Store
from hames.store import search as search_module
from hames.store.jsonl import JsonlStore
from hames.store.memory import MemoryStore
from hames.store.places import Places

TURN = TurnId("turn_1")


@pytest.fixture(params=["jsonl", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = (
        MemoryStore()
        if request.param == "memory"
        else JsonlStore(tmp_path / ".harness", places=Places(tmp_path / "state"))
    )
    yield made
    await made.close()


def said(text: str) -> Item:
    return AgentMessage(id=ItemId("item_1"), step=1, text=text, status="completed")


def asked(text: str) -> Item:
    return UserMessage(id=ItemId("item_2"), step=0, content=(TextInput(text=text),))


def ran(command: str, output: str = "") -> Item:
    return CommandExecution(
        id=ItemId("item_3"),
        step=1,
        call_id=CallId("call_1"),
        command=command,
        cwd="/",
        status="completed",
        output=output,
    )


def summary(name: str, at_ms: int, *, title: str = "", archived: bool = False) -> ThreadSummary:
    return ThreadSummary(
        id=ThreadId(name),
        title=title,
        preview="",
        cwd="/",
        model="a/b",
        created_at_ms=at_ms,
        updated_at_ms=at_ms,
        archived=archived,
    )


async def thread(
    store: Store, name: str, *items: Item, at_ms: int = 1, title: str = "", archived: bool = False
) -> None:
    log = await store.create(ThreadId(name))
    await grow(log, name, 1, *items)
    await log.summarize(summary(name, at_ms, title=title, archived=archived))
    await log.close()


async def grow(log, name: str, first_seq: int, *items: Item) -> None:
    events = [ItemCompleted(turn_id=TURN, item=item) for item in items]
    await log.append(
        [
            Record(seq=first_seq + number, at_ms=1, thread_id=ThreadId(name), event=event)
            for number, event in enumerate(events)
        ]
    )


async def found(store: Store, search: str, *, archived: bool = False) -> dict[str, str]:
    page = await store.page(limit=None, cursor=None, archived=archived, search=search)
    assert not page.partial
    return {row.id: row.match for row in page.threads}


async def test_a_thread_is_found_by_a_word_of_a_reply(store: Store) -> None:
    await thread(store, "one", asked("Fix the parser"), said("Duly noted. The comma is kept now."))
    await thread(store, "two", asked("Something else"), said("Nothing of the kind."))
    assert await found(store, "noted") == {"one": "Duly noted. The comma is kept now."}
    assert list(await found(store, "COMMA")) == ["one"]
    assert list(await found(store, "parser")) == ["one"]
    assert list(await found(store, "kind")) == ["two"]
    assert await found(store, "absent") == {}


@pytest.mark.parametrize(
    ("search", "hit"),
    [
        ("tok", True),
        ("token comma", True),
        ("comma token", True),
        ("naive", True),
        ("naïve", True),
        ("oken", False),
        ("token absent", False),
        ("pytest -q", True),
        ("日本", True),
        ("本語", True),
        ("中文", False),
        ("100%", True),
        ('"quoted"', True),
        ("AND OR NOT NEAR", False),
        ('"', False),
        ("*", False),
        ("text:token", False),
        ("a' or 1=1 --", False),
        ("%", False),
    ],
)
async def test_words_are_found_by_their_beginning_and_signs_mean_nothing(store: Store, search: str, hit: bool) -> None:
    words = 'A naïve token, a comma and a "quoted" thing, 100% sure. これは日本語です。'
    await thread(store, "one", said(words), ran("pytest -q tests"))
    assert bool(await found(store, search)) is hit


async def test_what_a_command_printed_is_not_searched(store: Store) -> None:
    await thread(store, "one", ran("make", output="a line of output"))
    assert await found(store, "output") == {}
    assert list(await found(store, "make")) == ["one"]


async def test_titles_are_found_as_before_and_archived_threads_apart(store: Store) -> None:
    await thread(store, "one", said("words"), title="The parser", at_ms=1)
    await thread(store, "two", said("words"), title="Sandbox", at_ms=2)
    await thread(store, "gone", said("words"), title="Old", at_ms=3, archived=True)
    assert list(await found(store, "arse")) == ["one"]
    assert list(await found(store, "words")) == ["two", "one"]
    assert list(await found(store, "words", archived=True)) == ["gone"]


async def test_what_is_said_later_is_found_later_and_once(store: Store) -> None:
    await thread(store, "one", said("first words"), at_ms=1)
    assert await found(store, "later") == {}
    log = await store.open(ThreadId("one"))
    await grow(log, "one", 2, said("later words"))
    await log.summarize(summary("one", 2))
    assert await found(store, "later") == {"one": "later words"}
    assert await found(store, "words") == {"one": "later words"}
    await log.close()


async def test_pages_of_a_search_go_on_where_the_last_one_ended(store: Store) -> None:
    for number in range(7):
        await thread(store, f"t{number}", said("needle"), at_ms=number + 1)
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.page(limit=3, cursor=cursor, archived=False, search="needle")
        seen += [row.id for row in page.threads]
        if (cursor := page.next_cursor) is None:
            break
    assert seen == [f"t{number}" for number in reversed(range(7))]


async def test_a_deleted_thread_is_found_no_more(store: Store) -> None:
    await thread(store, "one", said("needle"))
    assert list(await found(store, "needle")) == ["one"]
    await store.delete(ThreadId("one"))
    assert await found(store, "needle") == {}


async def test_the_words_of_a_deleted_thread_are_gone_from_the_disk(tmp_path: Path) -> None:
    root = tmp_path / ".harness"
    store = JsonlStore(root, places=Places(tmp_path / "state"))
    await thread(store, "one", said("xylophonist plays"))
    await thread(store, "two", said("another one"))
    await store.page(limit=None, cursor=None, archived=False, search="xylo")
    await store.close()
    again = JsonlStore(root, places=Places(tmp_path / "state"))
    await again.delete(ThreadId("one"))
    await again.close()
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name.startswith("search.db") for path in kept)
    assert not [path.name for path in kept if b"xylophonist" in path.read_bytes()]


async def test_writing_costs_nothing_before_somebody_searches(tmp_path: Path) -> None:
    root = tmp_path / ".harness"
    store = JsonlStore(root, places=Places(tmp_path / "state"))
    await thread(store, "one", said("needle"))
    await store.page(limit=None, cursor=None, archived=False, search="")
    assert not list(tmp_path.rglob("search.db*"))
    await store.page(limit=None, cursor=None, archived=False, search="needle")
    (made,) = tmp_path.rglob("search.db")
    assert made.stat().st_mode & 0o777 == 0o600
    before = made.read_bytes()
    await thread(store, "two", said("needle"), at_ms=2)
    assert made.read_bytes() == before
    await store.close()


async def test_the_index_survives_a_restart_and_its_own_loss(tmp_path: Path) -> None:
    root = tmp_path / ".harness"
    for lose in (False, True):
        store = JsonlStore(root, places=Places(tmp_path / "state"))
        if lose:
            for path in list(tmp_path.rglob("search.db*")):
                path.unlink()
        else:
            await thread(store, "one", said("needle"))
        assert list(await found(store, "needle")) == ["one"]
        await store.close()


async def test_a_search_that_ran_out_of_time_says_so_and_the_next_one_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        await thread(store, f"t{number}", said("needle"), at_ms=number + 1)
    monkeypatch.setattr(search_module, "LEARN_SECONDS", -1.0)
    page = await store.page(limit=None, cursor=None, archived=False, search="needle")
    assert (page.threads, page.partial) == ((), True)
    monkeypatch.undo()
    assert list(await found(store, "needle")) == ["t2", "t1", "t0"]


async def test_pieces_of_a_reply_that_is_not_finished_are_not_searched_twice(store: Store) -> None:
    log = await store.create(ThreadId("one"))
    delta = ItemDelta(turn_id=TURN, item_id=ItemId("item_1"), stream="text", text="needle")
    await log.append([Record(seq=1, at_ms=1, thread_id=ThreadId("one"), event=delta)])
    await log.summarize(summary("one", 1))
    assert await found(store, "needle") == {}
    await grow(log, "one", 2, said("needle"))
    await log.summarize(summary("one", 2))
    assert await found(store, "needle") == {"one": "needle"}
    await log.close()
