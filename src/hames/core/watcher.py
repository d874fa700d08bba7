"""Watchers: subscribers of a thread, who get a snapshot and then every change, with no gap between.

The engine never waits for a watcher. One that falls behind first gets its
deltas joined, and is cut off when even that is too much: coming back is cheap.
"""

from collections.abc import Sequence

import anyio
from msgspec.structs import replace

from hames.domain.events import ItemDelta, Noticed, Record
from hames.domain.state import Change, ThreadState
from hames.ports import ToolClient

PENDING_CHANGES = 20_000
PENDING_CHARS = 4 << 20
STORE_GONE = "store_unreachable"
"""The name of the notice that a turn waits for the database."""


class Watcher:
    """`answers`: somebody there can decide approvals."""

    def __init__(self, state: ThreadState, *, answers: bool = True) -> None:
        self.state = state
        self.answers = answers
        self.cut_off = ""
        self.client: ToolClient | None = None
        """Who watches, if it may carry out tools."""
        self._pending: list[Change] = []
        self._chars = 0
        self._closed = False
        self._wake = anyio.Event()

    async def next(self) -> list[Change]:
        """At least one change; nothing at all once closed or cut off."""
        while not self._pending:
            if self._closed:
                return []
            self._wake = anyio.Event()
            await self._wake.wait()
        changes, self._pending = self._pending, []
        self._chars = 0
        return changes

    def drain(self) -> list[Change]:
        """What waits now, without waiting for more."""
        changes, self._pending, self._chars = self._pending, [], 0
        return changes

    def precede(self, changes: Sequence[Change]) -> None:
        """Put what came before the snapshot in front: this watcher begins further back."""
        changes = list(changes)
        if changes:
            self.state = changes[0].before
            self._pending[:0] = changes
            self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    @property
    def closed(self) -> bool:
        return self._closed

    def tell_waiting(self, state: ThreadState, message: str) -> None:
        """Says something about the thread that is in no log, because the store cannot take it.

        The record has the number of the last one and changes nothing, so the next one goes on from the same state.
        """
        notice = Noticed(source="hames", name=STORE_GONE, message=message)
        record = Record(seq=state.seq, at_ms=state.updated_at_ms, thread_id=state.id, event=notice)
        self.put(Change(record=record, before=state, after=state))

    def put(self, change: Change) -> None:
        event = change.record.event
        if isinstance(event, ItemDelta):
            self._chars += len(event.text)
            if self._pending and (joined := _joined(self._pending[-1], change, event)):
                self._pending[-1] = joined
                return
        self._pending.append(change)
        if len(self._pending) > PENDING_CHANGES or self._chars > PENDING_CHARS:
            self.cut_off = f"fell behind by {len(self._pending)} changes"
            self._pending = []
            self.close()
        self._wake.set()


def _joined(last: Change, change: Change, event: ItemDelta) -> Change | None:
    """Two deltas of one stream as one change: a stalled watcher must not keep a state per token."""
    before = last.record.event
    if not isinstance(before, ItemDelta) or (before.item_id, before.stream) != (event.item_id, event.stream):
        return None
    record = replace(change.record, event=replace(event, text=before.text + event.text))
    return Change(record=record, before=last.before, after=change.after)
