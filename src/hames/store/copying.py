"""Copies threads from one store into another, record by record."""

from collections.abc import AsyncGenerator

from hames.domain.commands import ThreadSummary
from hames.domain.errors import HarnessError, StorageFailed, ThreadNotFound
from hames.domain.ids import ThreadId
from hames.domain.state import apply, blank
from hames.domain.state import summary as summary_of
from hames.domain.value import Value
from hames.ports import Store

BATCH = 500
PAGE = 200


class CopiedThread(Value):
    thread_id: ThreadId
    records: int
    problem: str = ""
    """Why it was not copied."""


async def copy_threads(source: Store, target: Store) -> AsyncGenerator[CopiedThread]:
    """Every thread that the target does not have. One with a running turn stays: it would run twice."""
    async for listed in all_threads(source):
        try:
            count = await _copy(source, target, listed.id)
            yield CopiedThread(thread_id=listed.id, records=count)
        except HarnessError as problem:
            yield CopiedThread(thread_id=listed.id, records=0, problem=str(problem))


async def all_threads(store: Store) -> AsyncGenerator[ThreadSummary]:
    cursor = None
    while True:
        page = await store.page(limit=PAGE, cursor=cursor, archived=None, search="")
        for one in page.threads:
            yield one
        cursor = page.next_cursor
        if cursor is None:
            return


async def _copy(source: Store, target: Store, thread_id: ThreadId) -> int:
    """How many records; 0: it was there. Raises `HarnessError`."""
    found = await source.examine(thread_id)
    state = blank(thread_id, foreign=found.foreign)
    for record in found.records:
        state = apply(state, record)
    if state.running is not None:
        raise StorageFailed("a turn is running: end it, or let it finish, and copy again")
    try:
        known = await target.read(thread_id)
    except ThreadNotFound:
        known = None
    if known is not None:
        if known == found.records:
            return 0
        raise StorageFailed("the target has a thread of this name with other records")
    log = await target.create(thread_id, foreign=found.foreign)
    try:
        for start in range(0, len(found.records), BATCH):
            part = found.records[start : start + BATCH]
            await log.append(part, sync=start + BATCH >= len(found.records))
        await log.summarize(summary_of(state))
    except BaseException:
        await log.close()
        await target.delete(thread_id)
        raise
    await log.close()
    return len(found.records)
