"""One contract, three stores."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from hames.domain.commands import ThreadSummary
from hames.domain.errors import InvalidCommand, ThreadInUse, ThreadNotFound
from hames.domain.events import ItemDelta, Noticed, Record
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.ports import Store
from hames.store.jsonl import JsonlStore
from hames.store.memory import MemoryStore
from hames.store.places import Places
from hames.testing.checks.store import check_store, jot

HERE, THERE = ThreadId("ses_here"), ThreadId("ses_there")
Again = Callable[[], Store]


@pytest.fixture(params=["jsonl", "memory", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store
    if request.param == "postgres":
        from hames.store.postgres.store import PostgresStore

        made = PostgresStore(request.getfixturevalue("database"))
    elif request.param == "memory":
        made = MemoryStore()
    else:
        made = JsonlStore(tmp_path / ".harness", places=Places(tmp_path / "state"))
    yield made
    await made.close()


def note(thread_id: ThreadId, seq: int, text: str = "") -> Record:
    return Record(seq=seq, at_ms=seq, thread_id=thread_id, event=Noticed(source="test", name="n", message=text))


def piece(thread_id: ThreadId, seq: int, text: str, *, item: str = "item_1") -> Record:
    event = ItemDelta(turn_id=TurnId("turn_1"), item_id=ItemId(item), stream="text", text=text)
    return Record(seq=seq, at_ms=seq, thread_id=thread_id, event=event)


def listed(thread_id: ThreadId, at_ms: int, *, archived: bool = False, title: str = "") -> ThreadSummary:
    return ThreadSummary(
        id=thread_id,
        title=title,
        preview="",
        cwd="/",
        model="a/b",
        created_at_ms=at_ms,
        updated_at_ms=at_ms,
        archived=archived,
    )


async def test_what_is_appended_is_read_back_in_order(store: Store) -> None:
    log = await store.create(HERE)
    await log.append([note(HERE, 1), note(HERE, 2)])
    await log.append([note(HERE, 3)], sync=True)
    assert await store.read(HERE) == [note(HERE, 1), note(HERE, 2), note(HERE, 3)]
    assert await store.read(HERE, after=2) == [note(HERE, 3)]
    await log.close()
    again = await store.open(HERE)
    assert await again.read() == [note(HERE, 1), note(HERE, 2), note(HERE, 3)]
    await again.close()


async def test_threads_do_not_leak_into_each_other(store: Store) -> None:
    here, there = await store.create(HERE), await store.create(THERE)
    await here.append([note(HERE, 1)])
    assert await store.read(THERE) == []
    await here.close()
    await there.close()


async def test_a_thread_that_was_never_made_is_not_found(store: Store) -> None:
    for name in ("nope", "", ".", "..", "../x", "/etc", "a\0b", "a/b", "x" * 200):
        with pytest.raises(ThreadNotFound):
            await store.read(ThreadId(name))
        with pytest.raises(ThreadNotFound):
            await store.open(ThreadId(name))


async def test_there_is_one_writer_at_a_time(store: Store) -> None:
    log = await store.create(HERE)
    with anyio.fail_after(60), pytest.raises(ThreadInUse):
        await store.open(HERE)
    await log.append([note(HERE, 1)])
    await log.close()
    again = await store.open(HERE)
    await again.append([note(HERE, 2)])
    assert len(await store.read(HERE)) == 2
    await again.close()


async def test_jotted_deltas_outlive_their_writer_as_one_bundle(store: Store) -> None:
    log = await store.create(HERE)
    await log.append([note(HERE, 1)])
    for text in ("he", "l", "lo"):
        await jot(log, piece(HERE, 2, text))
    assert await store.read(HERE) == [note(HERE, 1), piece(HERE, 2, "hello")]
    await log.close()  # nobody appended the bundle
    again = await store.open(HERE)
    assert await again.read() == [note(HERE, 1), piece(HERE, 2, "hello")]
    await again.append([note(HERE, 3)])
    assert await store.read(HERE) == [note(HERE, 1), piece(HERE, 2, "hello"), note(HERE, 3)]
    await again.close()


async def test_a_bundle_that_was_appended_is_not_counted_twice(store: Store) -> None:
    log = await store.create(HERE)
    log.jot(piece(HERE, 1, "he"))
    log.jot(piece(HERE, 1, "llo"))
    await log.append([piece(HERE, 1, "hello"), note(HERE, 2)])
    await log.close()
    again = await store.open(HERE)
    assert await again.read() == [piece(HERE, 1, "hello"), note(HERE, 2)]
    await again.close()


async def test_pages_are_newest_first_and_end(store: Store) -> None:
    logs = []
    for number in range(5):
        log = await store.create(ThreadId(f"ses_{number}"))
        await log.summarize(listed(ThreadId(f"ses_{number}"), number))
        logs.append(log)
    first = await store.page(limit=2, cursor=None, archived=False, search="")
    assert [thread.id for thread in first.threads] == ["ses_4", "ses_3"]
    second = await store.page(limit=2, cursor=first.next_cursor, archived=False, search="")
    third = await store.page(limit=2, cursor=second.next_cursor, archived=False, search="")
    assert [thread.id for thread in (*second.threads, *third.threads)] == ["ses_2", "ses_1", "ses_0"]
    assert third.next_cursor is None
    for log in logs:
        await log.close()


@pytest.mark.parametrize("limit", [1 << 31, (1 << 63) - 1, 1 << 63, 10**30])
async def test_a_page_may_be_asked_to_hold_any_number_of_threads(store: Store, limit: int) -> None:
    log = await store.create(HERE)
    await log.summarize(listed(HERE, 1))
    page = await store.page(limit=limit, cursor=None, archived=False, search="")
    assert [thread.id for thread in page.threads] == [HERE]
    assert page.next_cursor is None
    await log.close()


async def test_archived_threads_have_a_list_of_their_own_and_search_finds_titles(store: Store) -> None:
    here, there = await store.create(HERE), await store.create(THERE)
    await here.summarize(listed(HERE, 1, title="100% sure"))
    await there.summarize(listed(THERE, 2, archived=True))
    assert [t.id for t in (await store.page(limit=None, cursor=None, archived=False, search="")).threads] == [HERE]
    assert [t.id for t in (await store.page(limit=None, cursor=None, archived=True, search="")).threads] == [THERE]
    assert (await store.page(limit=None, cursor=None, archived=False, search="0%")).threads
    assert not (await store.page(limit=None, cursor=None, archived=False, search="0_")).threads
    await here.close()
    await there.close()


FAR_TOO_LATE = "MTAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMCBzZXNfaGVyZQ"


@pytest.mark.parametrize("cursor", ["", "nope", "bm9wZQ", "MQ==", "é", FAR_TOO_LATE])
async def test_a_cursor_nobody_gave_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidCommand):
        await store.page(limit=2, cursor=cursor, archived=False, search="")


async def test_a_deleted_thread_is_gone(store: Store) -> None:
    log = await store.create(HERE)
    await log.append([note(HERE, 1)])
    await log.summarize(listed(HERE, 1))
    await log.close()
    await store.delete(HERE)
    with pytest.raises(ThreadNotFound):
        await store.read(HERE)
    assert not (await store.page(limit=None, cursor=None, archived=False, search="")).threads


async def test_the_process_keeps_no_descriptor_of_a_closed_log(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path / ".harness", places=Places(tmp_path / "state"))
    log = await store.create(HERE)
    await log.close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        log = await store.open(HERE)
        log.jot(piece(HERE, 1, "x"))
        await log.append([piece(HERE, 1, "x")], sync=True)
        await log.close()
        store_again = await store.read(HERE)
        assert store_again
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    await store.close()


async def test_a_store_keeps_every_promise_of_the_published_check(store: Store) -> None:
    await check_store(store)
