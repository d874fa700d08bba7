"""A thread: the only writer of its log.

Kept before seen: an event is in the log before any watcher hears of it, and
safe on disk where losing it would break a promise (`EventPolicy.synced`). Deltas are told at
once and kept in bundles; the deltas of one bundle share its number.

On a disk that is full or read-only a turn waits (`emit_when_possible`, `delta`) and goes on by itself. A client's
command does not wait: it is refused with the reason.
"""

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import anyio
from msgspec.structs import replace

from hames.core.watcher import Watcher
from hames.domain.errors import Fenced, HarnessError, StorageFailed
from hames.domain.events import (
    Event,
    ItemDelta,
    Noticed,
    PromptQueued,
    Record,
    SettingsChanged,
    ThreadCreated,
    TurnEnded,
    TurnStarted,
    is_synced,
)
from hames.domain.foreign import disarmed
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import Stream
from hames.domain.options import Settings
from hames.domain.state import Change, ThreadState, apply, blank, summary
from hames.ports import Clock, Log, ToolClient

log = logging.getLogger(__name__)

BUNDLE_SECONDS = 0.1
FIRST_LOOK_SECONDS, LOOK_SECONDS = 0.05, 2.0
"""How often a turn that waits for room on the disk tries again: first, and later."""
MOST_UNTOLD = 2_000
"""So many deltas may wait for the store; the next one waits until they are kept."""

CLOSE_SECONDS = 3.0
"""How long the end of a turn may take to write when the turn is being cancelled."""
STOPPED = "interrupted: the harness stopped while this turn ran"
"""What a turn says that nobody interrupted: whether the process went in peace or was killed."""

LOST = "is being taken over by another node"

Listener = Callable[[Change], None]


class Thread:
    def __init__(self, log: Log, state: ThreadState, clock: Clock) -> None:
        self.state = state
        self.log = log
        self.clock = clock
        self.failure: HarnessError | None = None
        self.observers: Sequence[Listener] = ()
        """Called at once with every change. They are no client, so they cannot answer an approval."""
        self.viewers: dict[object, bool] = {}
        """Other processes that watch this thread, and whether somebody there can decide an approval."""
        self.find_peer_clients: Callable[[], Awaitable[Sequence[ToolClient]]] | None = None
        """Finds clients of other processes that carry out tools of this thread."""
        self.opened_at = -math.inf
        """When this process began to write it (`anyio.current_time`), unless it is new."""
        self._beginning: list[Record] = []
        """The records that it was created with."""
        self.lost = False
        """Another node writes the thread, or may. Nothing is written or told here any more."""
        self.on_lost: Callable[[], None] | None = None
        self._watchers: list[Watcher] = []
        self._writing = anyio.Lock()
        self._summarizing = anyio.Lock()
        """Two summaries are never on their way at once: the older could come last, and stay in the list."""
        self._bundle: list[str] = []
        self._bundle_record: Record | None = None
        self._bundle_since = 0.0
        self._untold: deque[Change] = deque()
        """Deltas that the store has not kept yet, oldest first. The state has them already; nobody was told of them."""
        self._unstored: tuple[Record, ...] = ()
        self._look_seconds = 0.0
        """Until a turn that waits for room on the disk tries again; 0: nothing waits."""

    @classmethod
    async def opened(cls, log: Log, clock: Clock, defaults: Settings) -> "Thread":
        """From its log. A turn that the last process left running is left as it is: see `core/continuing.py`.

        `defaults` are what a foreign thread runs with.
        """
        records = await log.read()
        state = blank(log.thread_id, foreign=log.foreign)
        for record in [disarmed(record, defaults) for record in records] if log.foreign else records:
            state = apply(state, record)
        thread = cls(log, state, clock)
        thread.opened_at = anyio.current_time()
        # Looking at a thread is not using it: lists keep its time and its place.
        last_used = min(max(state.updated_at_ms, 0), clock.now_ms())
        if log.foreign:
            said = [one.event.settings for one in records if isinstance(one.event, ThreadCreated | SettingsChanged)]
            if said and said[-1] != defaults:  # for whoever reads the log
                await thread.emit(SettingsChanged(settings=defaults), at_ms=last_used)
        return thread

    @property
    def id(self) -> ThreadId:
        return self.log.thread_id

    @property
    def in_memory(self) -> list[Record]:
        """Its records while it is as it was created: its first watcher needs no file. Otherwise nothing."""
        is_whole = self._beginning and self._beginning[-1].seq == self.state.seq and not self.state.foreign
        return list(self._beginning) if is_whole else []

    async def emit(self, *events: Event, at_ms: int | None = None) -> None:
        """Writes these events to the log, then tells them to watchers. `at_ms`: when they happened, if not now."""
        async with self._writing:
            # What is in the log must be told: between the two there is no stopping.
            with anyio.CancelScope(shield=True):
                self.check_not_lost()
                bundle = self._unwritten()
                first, now = self.state.seq + 1, self.clock.now_ms() if at_ms is None else at_ms
                records = [
                    Record(seq=first + n, at_ms=now, thread_id=self.id, event=event) for n, event in enumerate(events)
                ]
                kinds = {type(event) for event in events}
                # A prompt may wait for a slot of its node: the thread needs a process from then on.
                if TurnStarted in kinds or (PromptQueued in kinds and self.state.running is None):
                    self.log.mark_running(running=True)
                await self._keep([*bundle, *records], sync=any(map(is_synced, events)))
                self.check_not_lost()
                self._beginning = records if first == 1 else []
                self._look_seconds = 0.0
                for record in records:
                    self._tell(record)
                if TurnEnded in kinds and self._is_at_rest():
                    self.log.mark_running(running=False)
        if any(event.policy.listed for event in events):
            try:
                async with self._summarizing:
                    await self.log.summarize(summary(self.state))
            except Exception:  # no list is worth a turn
                log.exception("thread.not_listed", extra={"thread_id": self.id})

    async def emit_when_possible(self, *events: Event) -> None:
        """For the turn itself: waits while the disk is full. Raises `StorageFailed` if the disk fails otherwise."""
        while True:
            try:
                return await self.emit(*events)
            except StorageFailed as failure:
                await self.wait_for_room(failure)

    async def wait_for_room(self, failure: StorageFailed) -> None:
        """Until what was told and not written is in the log. Raises what cannot get better by waiting."""
        if not failure.retryable:
            raise failure
        turn_id = self.state.running.id if self.state.running is not None else None
        if not self._look_seconds:
            self._look_seconds = FIRST_LOOK_SECONDS
            message = f"{failure}. The turn waits, and goes on by itself when the disk can be written"
            self.tell_unstored(
                Noticed(source="hames", name="disk_full", severity="warning", message=message, turn_id=turn_id)
            )
        while self.failure is not None:
            await self.clock.sleep(self._look_seconds)
            self._look_seconds = min(2 * self._look_seconds, LOOK_SECONDS)
            try:
                await self.write_unstored()
            except StorageFailed as again:
                if not again.retryable:
                    raise

    async def delta(self, turn_id: TurnId, item_id: ItemId, stream: Stream, text: str) -> None:
        """Tells a piece of text as soon as the store keeps it, which it does until its bundle is in the log."""
        if self.lost:
            self.check_not_lost()
        event = ItemDelta(turn_id=turn_id, item_id=item_id, stream=stream, text=text)
        if len(self._untold) >= MOST_UNTOLD:
            await self.settle()
        if self._writing.locked() or self._unstored or not self._fits(event):
            try:
                async with self._writing:
                    with anyio.CancelScope(shield=True):
                        if bundle := self._unwritten():
                            await self._keep(bundle, sync=False)
            except StorageFailed as failure:
                await self.wait_for_room(failure)
        open_bundle = self._bundle_record
        record = (
            replace(open_bundle, event=event)
            if open_bundle is not None
            else Record(seq=self.state.seq + 1, at_ms=self.clock.now_ms(), thread_id=self.id, event=event)
        )
        try:
            is_kept = self.log.jot(record, self._tell_delta)
        except StorageFailed as failure:
            self.fail(failure)
            await self.wait_for_room(failure)
            await self.delta(turn_id, item_id, stream, text)
            return
        if open_bundle is None:
            self._bundle_record, self._bundle_since = record, self.clock.monotonic()
        self._bundle.append(text)
        if is_kept:
            self._tell(record)
        else:
            before, self.state = self.state, apply(self.state, record)
            self._untold.append(Change(record=record, before=before, after=self.state))

    @property
    def told(self) -> ThreadState:
        """The state that watchers know: without deltas that are not kept yet."""
        return self._untold[0].before if self._untold else self.state

    async def settle(self) -> None:
        """Waits until every delta so far was told. Raises `StorageFailed`."""
        if self._untold:
            await self.log.append(())

    async def _keep(self, records: list[Record], *, sync: bool) -> None:
        """The open bundle is closed once it is kept, and stays for the next try if it was not."""
        try:
            await self.log.append(records, sync=sync)
        except StorageFailed as failure:
            self.fail(failure)
            raise
        self._bundle_record, self._bundle, self._unstored = None, [], ()

    def fail(self, failure: StorageFailed) -> None:
        """The log did not take a record."""
        self.failure = failure
        if isinstance(failure, Fenced):
            failure.seen = self.told.seq
            self.lose()

    def tell_waiting(self, message: str) -> None:
        """Says to watchers that the store cannot be reached. Nothing is kept of that."""
        for watcher in self._watchers:
            watcher.tell_waiting(self.told, message)

    def lose(self, why: str = LOST) -> None:
        """Stops writing and telling, because another node writes the thread, or may soon.

        Watchers are cut off and told no ending: they come back and follow whoever writes it.
        """
        if not self.lost:
            self.abandon(why)
            if self.on_lost is not None:
                self.on_lost()

    def abandon(self, why: str) -> None:
        """The same without a word to the engine, which is stopping."""
        self.lost, self.failure = True, self.failure or Fenced(why)
        for watcher in self._watchers:
            watcher.cut_off = why
            watcher.close()
        self._watchers = []
        self.log.abandon(Fenced(f"thread {self.id!r} {LOST}"))  # a write must not keep its turn from stopping

    def check_not_lost(self) -> None:
        """Raises `Fenced`."""
        if self.lost:
            error = Fenced(f"thread {self.id!r} {LOST}")
            error.seen = self.told.seq
            raise error

    def tell_unstored(self, *events: Event) -> None:
        """Tells watchers events that the failed disk could not take. `write_unstored` or the next start writes them."""
        for event in events:
            record = Record(seq=self.state.seq + 1, at_ms=self.clock.now_ms(), thread_id=self.id, event=event)
            self._unstored += (record,)
            self._tell(record)

    async def write_unstored(self) -> None:
        """Writes what was told and is not in the log, once the disk takes it again. Raises `StorageFailed`."""
        async with self._writing:
            with anyio.CancelScope(shield=True):
                await self._keep(self._unwritten(), sync=True)
                self.failure = None

    def _is_at_rest(self) -> bool:
        """Nothing runs, and nothing waits to run next."""
        return self.state.running is None and (not self.state.queue or self.state.queue_held)

    def watch(self, *, answers: bool = True) -> Watcher:
        """Attaches a watcher and takes its snapshot without an await in between, so that it misses nothing."""
        watcher = Watcher(self.told, answers=answers)
        self._watchers.append(watcher)
        return watcher

    def adopt(self, watchers: Sequence[Watcher]) -> None:
        """Attaches watchers that have heard of everything up to this state."""
        self._watchers += watchers

    def tool_clients(self) -> list[ToolClient]:
        """The connected clients that may carry out tools; those that came last are last."""
        return [watcher.client for watcher in self._watchers if watcher.client is not None and not watcher.closed]

    @property
    def answerable(self) -> bool:
        """Whether a client that can decide an approval is connected."""
        return any(watcher.answers and not watcher.closed for watcher in self._watchers) or any(self.viewers.values())

    @property
    def watched(self) -> bool:
        return any(not watcher.closed for watcher in self._watchers) or bool(self.viewers)

    async def close(self) -> None:
        for watcher in self._watchers:
            watcher.close()
        await self.log.close()

    def _fits(self, event: ItemDelta) -> bool:
        """Whether the delta can join the open bundle of deltas."""
        if self._bundle_record is None:
            return True
        last = self._bundle_record.event
        return (
            isinstance(last, ItemDelta)
            and last.item_id == event.item_id
            and last.stream == event.stream
            and self.clock.monotonic() - self._bundle_since < BUNDLE_SECONDS
        )

    def _unwritten(self) -> list[Record]:
        """What was told and is not in the log yet."""
        record = self._bundle_record
        bundle = [replace(record, event=replace(record.event, text="".join(self._bundle)))] if record else []
        return [*bundle, *self._unstored]

    def _tell(self, record: Record) -> None:
        if self.lost:
            return
        before, self.state = self.state, apply(self.state, record)
        if self._watchers or self.observers:
            self._tell_change(Change(record=record, before=before, after=self.state))

    def _tell_delta(self) -> None:
        """The oldest delta that was not told is kept by now."""
        change = self._untold.popleft()
        if not self.lost and (self._watchers or self.observers):
            self._tell_change(change)

    def _tell_change(self, change: Change) -> None:
        for listener in self.observers:
            listener(change)
        gone = False
        for watcher in self._watchers:
            watcher.put(change)
            gone = gone or watcher.closed
        if gone:
            self._watchers = [watcher for watcher in self._watchers if not watcher.closed]
