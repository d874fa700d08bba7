"""Threads whose directory is gone, brought back from their second names (see `second_names`)."""

import contextlib
import os
from collections.abc import Iterable
from functools import partial

from anyio import to_thread
from msgspec.structs import replace

from hames.domain.commands import ThreadSummary
from hames.domain.errors import StorageFailed, ThreadNotFound
from hames.domain.events import Record
from hames.domain.ids import ThreadId
from hames.domain.state import apply, blank, summary
from hames.ports import Examined
from hames.private_files import descriptor
from hames.store.jsonl import JsonlStore
from hames.store.reading import read_log
from hames.store.second_names import LIVE_END, RESTORED_END, MissingThread
from hames.store.system_calls import FILE, plain


def read_missing(missing: MissingThread) -> Examined:
    """What its log says, numbered without gaps: it is written anew. Raises `OSError`."""
    path = missing.kept.path
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    with descriptor(os.open(path.parent, flags)) as at, descriptor(plain(os.open(path, os.O_RDONLY | FILE))) as fd:
        live = path.with_suffix(LIVE_END).name
        found = read_log(fd, missing.thread_id, missing.claim, at=at, live=live)
    records = [replace(record, seq=number) for number, record in enumerate(found.everything, start=1)]
    return Examined(records=records, foreign=found.foreign)


def summarize_missing(missing: MissingThread) -> ThreadSummary | None:
    """How a list would show it; None where its log cannot be read."""
    with contextlib.suppress(OSError):
        found = read_missing(missing)
        return summarize_records(missing.thread_id, found.records, foreign=found.foreign)
    return None


def summarize_records(thread_id: ThreadId, records: Iterable[Record], *, foreign: bool) -> ThreadSummary:
    state = blank(thread_id, foreign=foreign)
    for record in records:
        state = apply(state, record)
    return summary(state)


async def restore_thread(store: JsonlStore, missing: MissingThread) -> ThreadSummary:
    """Brings a thread back into the data directory of the store. Raises `StorageFailed`."""
    try:
        found = await to_thread.run_sync(read_missing, missing)
    except OSError as failure:
        raise StorageFailed(f"cannot read {str(missing.kept.path)!r}: {failure.strerror}") from failure
    shown = summarize_records(missing.thread_id, found.records, foreign=found.foreign)
    kept = missing.kept.path.with_suffix(RESTORED_END)
    await to_thread.run_sync(missing.kept.path.replace, kept)  # the restored log gets this name, perhaps
    try:
        with contextlib.suppress(ThreadNotFound):
            await store.delete(missing.thread_id)  # what somebody left who was killed here
        log = await store.create(missing.thread_id, foreign=found.foreign)
        try:
            await log.append(found.records, sync=True)
            await log.summarize(shown)
        except BaseException:
            await log.close()
            await store.delete(missing.thread_id)
            raise
        await log.close()
    except BaseException:
        kept.replace(missing.kept.path)
        raise
    for path in (kept, missing.kept.path.with_suffix(LIVE_END)):
        await to_thread.run_sync(partial(path.unlink, missing_ok=True))
    return shown
