"""What every store promises. Give `check_store` an empty one."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio

from hames.domain.commands import ThreadSummary
from hames.domain.errors import InvalidCommand, ThreadInUse, ThreadNotFound
from hames.domain.events import ItemDelta, Noticed, Record
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.ports import Log, LogNews, Store

HERE, THERE = ThreadId("ses_here"), ThreadId("ses_there")


async def check_store(store: Store) -> None:
    """Raises `AssertionError` for a broken promise. The store is left with two threads in it."""
    await _check_unknown_threads(store)
    await _check_order_and_one_writer(store)
    await _check_live_deltas(store)
    await _check_following(store)
    await _check_pages(store)


def note(thread_id: ThreadId, seq: int) -> Record:
    return Record(seq=seq, at_ms=seq, thread_id=thread_id, event=Noticed(source="test", name=f"note {seq}"))


def piece(thread_id: ThreadId, seq: int, text: str) -> Record:
    event = ItemDelta(turn_id=TurnId("turn_1"), item_id=ItemId("item_1"), stream="text", text=text)
    return Record(seq=seq, at_ms=seq, thread_id=thread_id, event=event)


async def jot(log: Log, record: Record) -> None:
    """Returns when the delta is kept."""
    kept = anyio.Event()
    if not log.jot(record, kept.set):
        with anyio.fail_after(60):
            await kept.wait()


async def _check_unknown_threads(store: Store) -> None:
    for name in ("nope", "", ".", "..", "../x", "/etc", "a\0b", "a/b", "x" * 200):
        for look in (store.read, store.open, store.examine):
            try:
                await look(ThreadId(name))
            except ThreadNotFound:
                continue
            raise AssertionError(f"a thread {name!r} was found in an empty store")


async def _check_order_and_one_writer(store: Store) -> None:
    here, there = await store.create(HERE), await store.create(THERE)
    assert (here.thread_id, here.repaired, here.foreign) == (HERE, "", False)
    await here.append([note(HERE, 1), note(HERE, 2)])
    await here.append([note(HERE, 3)], sync=True)
    whole = [note(HERE, 1), note(HERE, 2), note(HERE, 3)]
    assert await store.read(HERE) == whole, "all of it, in order, while its writer has it open"
    assert await store.read(HERE, after=2) == whole[2:]
    assert (await store.examine(HERE)).records == whole
    assert await store.read(THERE) == [], "threads do not leak into each other"
    with anyio.fail_after(5):
        try:
            await store.open(HERE)
        except ThreadInUse:
            pass
        else:
            raise AssertionError("two writers have one log open")
    await here.close()
    await there.close()
    again = await store.open(HERE)
    assert await again.read() == whole
    assert again.repaired == "", "an intact log announces no repair"
    await again.close()


async def _check_live_deltas(store: Store) -> None:
    log = await store.open(THERE)
    await log.append([note(THERE, 1)])
    for text in ("he", "l", "lo"):
        await jot(log, piece(THERE, 2, text))
    assert await store.read(THERE) == [note(THERE, 1), piece(THERE, 2, "hello")]
    await log.close()  # before the bundle was appended
    log = await store.open(THERE)
    assert await log.read() == [note(THERE, 1), piece(THERE, 2, "hello")], "a live delta outlives its writer"
    told: list[str] = []
    if log.jot(piece(THERE, 3, "again"), lambda: told.append("again")):
        told.append("again")
    await log.append([piece(THERE, 3, "again"), note(THERE, 4)])
    assert told == ["again"], "a delta counts as kept before its bundle does"
    await log.close()
    kept = [note(THERE, 1), piece(THERE, 2, "hello"), piece(THERE, 3, "again"), note(THERE, 4)]
    assert await store.read(THERE) == kept, "a bundle that was appended is not counted twice"


async def _check_following(store: Store) -> None:
    log = await store.open(THERE)
    kept = await log.read()
    with anyio.fail_after(60):
        async with aclosing(store.follow(THERE)) as news:
            first = await anext(news)
            assert first.whole and first.records == kept, "a follower begins with the whole log"
            heard = _Heard(news)
            await log.append([note(THERE, 5)])
            assert await heard.next() == note(THERE, 5)
            for text in ("a", "bc"):
                log.jot(piece(THERE, 6, text))
            assert await heard.text(3) == "abc", "live deltas are told before their bundle is appended"
            log.jot(piece(THERE, 6, "d"))
            await log.append([piece(THERE, 6, "abcd"), note(THERE, 7)])
            assert await heard.text(1) == "d", "no text is told twice"
            assert await heard.next() == note(THERE, 7)
        async with aclosing(store.follow(THERE, after=6)) as news:
            assert (await anext(news)).records == [note(THERE, 7)]
    await log.close()


class _Heard:
    """What a follower is told, one record at a time."""

    def __init__(self, news: AsyncGenerator[LogNews]) -> None:
        self._news = news
        self._records: list[Record] = []

    async def next(self) -> Record:
        while not self._records:
            self._records += (await anext(self._news)).records
        return self._records.pop(0)

    async def text(self, length: int) -> str:
        text = ""
        while len(text) < length:
            event = (await self.next()).event
            assert isinstance(event, ItemDelta)
            text += event.text
        return text


async def _check_pages(store: Store) -> None:
    for at_ms, thread_id in enumerate((HERE, THERE)):
        log = await store.open(thread_id)
        await log.summarize(
            ThreadSummary(
                id=thread_id, title="", preview="", cwd="/", model="a/b", created_at_ms=at_ms, updated_at_ms=at_ms
            )
        )
        await log.close()
    first = await store.page(limit=1, cursor=None, archived=False, search="")
    second = await store.page(limit=1, cursor=first.next_cursor, archived=False, search="")
    assert [thread.id for thread in (*first.threads, *second.threads)] == [THERE, HERE], "newest first"
    assert second.next_cursor is None
    assert (await store.page(limit=None, cursor=None, archived=True, search="")).threads == ()
    try:
        await store.page(limit=1, cursor="never given", archived=False, search="")
    except InvalidCommand:
        return
    raise AssertionError("a cursor that it never gave was taken")
