"""What a node of a shared store does beside its clients: it renews its lease and takes up threads that need a writer.

The lease says when others may try to take over; the store's fence keeps two nodes from writing one thread. A node that
could not renew its lease for two thirds of its time stops its turns itself, because others may go on with them soon.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from hames.core.loaded import LoadedThread
from hames.core.lost_threads import LostThreads
from hames.core.thread import STOPPED, Thread
from hames.core.threads import Threads
from hames.domain.commands import Standing
from hames.domain.endings import endings
from hames.domain.errors import HarnessError, StorageFailed, ThreadInUse
from hames.domain.events import Event, Noticed, QueueHeld
from hames.domain.ids import ThreadId
from hames.domain.state import Change
from hames.ports import Nodes, Peer, Store, Viewing

log = logging.getLogger(__name__)

RENEWALS = 10 / 3
"""So often a lease is renewed before it would end."""
SAFE = 2 / 3
"""This part of the lease a node may work without having renewed it."""
CLAIM_SECONDS = 1.0
CLAIMED_AT_ONCE = 50
"""From one look: the other nodes get a share."""
PUT_BACK_SECONDS = 30.0
STANDING_SECONDS = 0.2
DISPLACED_EVERY = 3
"""So many looks lie between two for threads whose place is gone."""
WAITS = "The database cannot be reached. The thread waits, and goes on by itself when the database is back"
UNREACHABLE = "waits for the database, which cannot be reached"
LATE = "is left to other nodes, because this one was too slow to renew its lease"
RELEASE_SECONDS = 5.0
"""A thread at rest that nobody here watches is given back after this time, so that any node can take it up."""


class NodeWork:
    """`is_closing`: the engine is stopping, and takes up nothing more."""

    def __init__(
        self,
        nodes: Nodes,
        store: Store,
        threads: Threads,
        lost: LostThreads,
        here: Peer,
        *,
        is_closing: Callable[[], bool],
    ) -> None:
        self.nodes = nodes
        self._store = store
        self._threads = threads
        self._lost = lost
        self._here = here
        self._is_closing = is_closing
        self._clock = threads.clock
        self._renewed = 0.0
        self._opening: set[ThreadId] = set()
        self._viewers: set[tuple[str, ThreadId]] = set()
        self._lag_ms = 0
        self.claimed = 0
        """How many threads it has taken up so far."""
        self._standings: dict[ThreadId, Standing] = {}
        self._looks = 0
        self._unanswered = False
        """The last renewal has no answer: it is the database that is gone, not this process that is slow."""
        self._told_late = False
        self.tell_waiting: Callable[[str], None] = lambda _message: None
        """Says to all watchers on this node that threads wait for the database."""

    async def start(self, tasks: TaskGroup) -> None:
        """Raises `StorageFailed` and `Misconfigured`."""
        self._renewed = self._clock.monotonic()
        await self.nodes.register()
        tasks.start_soon(self._keep_lease)
        tasks.start_soon(self._watch_lease)
        self._threads.observers.append(self._observe)
        if self.nodes.slots:
            tasks.start_soon(self._take_up_threads, tasks)
            tasks.start_soon(self._tell_standings)

    # -- what lists of other nodes show

    def _observe(self, change: Change) -> None:
        if change.before.standing != change.after.standing and not change.after.ephemeral:
            self._standings[change.after.id] = change.after.standing

    async def _tell_standings(self) -> None:
        while True:
            await self._clock.sleep(STANDING_SECONDS)
            if standings := self._standings:
                self._standings = {}
                try:
                    await self.nodes.set_standings(standings)
                except StorageFailed:
                    self._standings = {**standings, **self._standings}

    # -- the lease

    async def _keep_lease(self) -> None:
        while True:
            await self._clock.sleep(self.nodes.lease_s / RENEWALS)
            began = self._clock.monotonic()
            self._stop_if_late(began)
            self._unanswered = True
            try:
                with anyio.fail_after(self.nodes.lease_s / 3):
                    viewing = await self.nodes.renew(lag_ms=self._lag_ms)
            except (StorageFailed, TimeoutError) as problem:
                log.warning("lease.not_renewed", extra={"node": self.nodes.name, "error": str(problem)})
                continue
            self._unanswered = False
            self._renewed, self._lag_ms = began, round((self._clock.monotonic() - began) * 1000)
            self._set_viewers(viewing)

    async def _watch_lease(self) -> None:
        """Beside the renewals, which may hang."""
        while True:
            await self._clock.sleep(self.nodes.lease_s / 12)
            self._stop_if_late(self._clock.monotonic())

    def _stop_if_late(self, now: float) -> None:
        late = now - self._renewed
        if late <= self.nodes.lease_s * SAFE / 2:
            self._told_late = False
        elif not self._told_late and self._unanswered:
            self._told_late = True
            self.tell_waiting(WAITS)
        if late > self.nodes.lease_s * SAFE and self._threads.loaded:
            log.error("lease.lost", extra={"node": self.nodes.name, "threads": len(self._threads.loaded)})
            self._lost.lose_all(UNREACHABLE if self._unanswered else LATE)

    def _set_viewers(self, viewing: Sequence[Viewing]) -> None:
        now = {(one.node, one.thread_id) for one in viewing}
        for node, thread_id in self._viewers - now:
            self._here.set_viewer(node, thread_id, answers=None)
        for one in viewing:
            self._here.set_viewer(one.node, one.thread_id, answers=one.answers)
        self._viewers = now

    # -- threads

    @property
    def busy(self) -> int:
        """How many turns run here, or are about to."""
        loaded = self._threads.loaded.values()
        return len(self._opening) + sum(one.turn is not None or one.claimed for one in loaded)

    async def _take_up_threads(self, tasks: TaskGroup) -> None:
        pause = min(CLAIM_SECONDS, self.nodes.lease_s / 3)
        while not self._is_closing():
            free = min(self.nodes.slots - self.busy, CLAIMED_AT_ONCE)
            found: list[ThreadId] = []
            if free > 0 and self._clock.monotonic() - self._renewed < self.nodes.lease_s * SAFE:
                try:
                    held = [*self._threads.loaded, *self._threads.opening, *self._opening]
                    found = await self.nodes.claim(free, held)
                except StorageFailed as problem:
                    log.warning("threads.not_claimed", extra={"node": self.nodes.name, "error": str(problem)})
            for thread_id in found:
                self._opening.add(thread_id)
                tasks.start_soon(self._open, thread_id)
            await self._release_idle()
            self._looks += 1
            if self._looks % DISPLACED_EVERY == 0:
                await self._look_after_displaced()
            if not found or len(found) < free:
                await self.nodes.wait_for_work(pause)

    async def _open(self, thread_id: ThreadId) -> None:
        """Opening a thread goes on with its turn, or starts the next prompt of its queue."""
        try:
            await self._threads.open(thread_id)
            self.claimed += 1
        except (ThreadInUse, StorageFailed) as problem:  # another node was faster, or the store cannot be reached
            log.info("thread.not_opened", extra={"thread_id": thread_id, "error": str(problem)})
        except Exception as problem:  # one thread must not keep the others from going on
            if not isinstance(problem, HarnessError):
                log.exception("thread.not_opened", extra={"thread_id": thread_id})
            try:
                await self.nodes.put_back(thread_id, seconds=PUT_BACK_SECONDS)
            except StorageFailed:
                log.warning("thread.not_put_back", extra={"thread_id": thread_id})
        finally:
            self._opening.discard(thread_id)

    async def _look_after_displaced(self) -> None:
        """Says, in the threads themselves, that a turn waits for a place that no node has; or ends it, by rule."""
        try:
            for thread_id in await self.nodes.claim_displaced():
                await self._tell_displaced(thread_id)
        except HarnessError as problem:
            log.warning("displaced.not_told", extra={"node": self.nodes.name, "error": str(problem)})

    async def _tell_displaced(self, thread_id: ThreadId) -> None:
        rules = self._threads.rules
        thread = await Thread.opened(await self._store.open(thread_id), self._clock, rules.defaults)
        try:
            turn, settings = thread.state.running, thread.state.settings
            if turn is None:
                return
            where = f"no node that is {settings.place!r} is there"
            if (settings.after_crash or rules.after_crash) == "end":
                held: list[Event] = [QueueHeld(held=True)] if thread.state.queue else []
                await thread.emit(*endings(thread.state, f"{STOPPED}, and {where} to continue it"), *held)
            else:
                message = f"This turn waits: {where}. It continues when one starts"
                notice = Noticed(source="hames", name="place_gone", severity="warning", message=message)
                await thread.emit(replace(notice, turn_id=turn.id))
        finally:
            await thread.close()

    async def _release_idle(self) -> None:
        since = self._clock.monotonic() - RELEASE_SECONDS
        for loaded in list(self._threads.loaded.values()):
            # A prompt that waits for a slot here may find one at another node.
            waits = loaded.waits and not loaded.busy and self.busy >= self.nodes.slots
            if (waits and _is_unwatched(loaded)) or (loaded.used_at <= since and _is_at_rest(loaded)):
                del self._threads.loaded[loaded.thread.id]
                loaded.closed.set()
                await loaded.thread.close()


def _is_at_rest(loaded: LoadedThread) -> bool:
    with _no_viewers(loaded):
        return loaded.can_unload


def _is_unwatched(loaded: LoadedThread) -> bool:
    with _no_viewers(loaded):
        return loaded.turn is None and not loaded.thread.watched and loaded.thread.failure is None


@contextmanager
def _no_viewers(loaded: LoadedThread) -> Generator[None]:
    """Those who watch on other nodes follow the log, whoever writes it."""
    viewers, loaded.thread.viewers = loaded.thread.viewers, {}
    try:
        yield
    finally:
        loaded.thread.viewers = viewers
