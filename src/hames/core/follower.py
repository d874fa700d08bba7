"""A thread that another process writes, as it is seen from here: its state, and watchers that hear every change."""

from collections.abc import Sequence

import anyio

from hames.core.watcher import Watcher
from hames.domain.foreign import disarmed
from hames.domain.ids import ThreadId
from hames.domain.options import Settings
from hames.domain.state import Change, apply, blank
from hames.ports import LogNews, PeerLink, ToolClient


class Follower:
    """Fed with what the other process writes (`Store.follow`). `defaults` are what a foreign thread runs with."""

    def __init__(self, thread_id: ThreadId, defaults: Settings) -> None:
        self.id = thread_id
        self.state = blank(thread_id)
        self.scope = anyio.CancelScope()
        """Of the task that feeds it."""
        self.ended = False
        """It hears nothing more: the thread was deleted, or is written here now."""
        self.paused = False
        """It is about to be handed over, and must not hear more."""
        self.link: PeerLink | None = None
        """To the process that writes the thread, as far as it is known."""
        self.told: tuple[bool, int] | None = None
        """What that process was told: whether somebody here can decide approvals, and the highest rank of those who
        carry out tools. None: nothing."""
        self.unwatched_looks = 0
        self.lonely_looks = 0
        """How often nobody was found who writes it."""
        self._defaults = defaults
        self._watchers: list[Watcher] = []
        self._moved = anyio.Event()

    def watch(self, *, answers: bool) -> Watcher:
        watcher = Watcher(self.state, answers=answers)
        self._watchers.append(watcher)
        return watcher

    @property
    def watched(self) -> bool:
        return any(not watcher.closed for watcher in self._watchers)

    @property
    def answerable(self) -> bool:
        """Whether a client that can decide an approval is connected here."""
        return any(watcher.answers and not watcher.closed for watcher in self._watchers)

    def tool_clients(self) -> list[ToolClient]:
        """The clients that are connected here and may carry out tools; those that came last are last."""
        return [watcher.client for watcher in self._watchers if watcher.client is not None and not watcher.closed]

    def take(self, news: LogNews) -> None:
        """Applies what was written, and tells the watchers."""
        if self.ended or self.paused:
            return
        if news.whole:
            self._begin(news)
        else:
            for one in news.records:
                before, record = self.state, disarmed(one, self._defaults) if news.foreign else one
                self.state = apply(before, record)
                self._tell(Change(record=record, before=before, after=self.state))
        self._moved.set()
        self._moved = anyio.Event()

    def tell_waiting(self, message: str) -> None:
        """Says to watchers that the store cannot be reached."""
        for watcher in self._watchers:
            watcher.tell_waiting(self.state, message)

    def _begin(self, news: LogNews) -> None:
        state = blank(self.id, foreign=news.foreign)
        for record in news.records:
            state = apply(state, disarmed(record, self._defaults) if news.foreign else record)
        self.state = state
        for watcher in self._watchers:  # the log is not what it was: they come back for a new snapshot
            watcher.cut_off = "has to start again: the log of the thread was replaced or repaired"
            watcher.close()

    def _tell(self, change: Change) -> None:
        for watcher in self._watchers:
            watcher.put(change)
        if any(watcher.closed for watcher in self._watchers):
            self._watchers = [watcher for watcher in self._watchers if not watcher.closed]

    async def reach(self, seq: int, seconds: float) -> bool:
        """Waits until the state is that far. False: it is not, and the time is over, or nothing more will come."""
        with anyio.move_on_after(seconds):
            while self.state.seq < seq and not self.ended:
                await self._moved.wait()
        return self.state.seq >= seq

    def hand_over(self, changes: Sequence[Change]) -> list[Watcher]:
        """The watchers, to somebody who tells them the rest: these changes are what they have not heard yet."""
        watchers = [watcher for watcher in self._watchers if not watcher.closed]
        for watcher in watchers:
            for change in changes:
                watcher.put(change)
        self._watchers = []
        self.end()
        return watchers

    def end(self) -> None:
        self.ended = True
        self.scope.cancel()
        self._moved.set()
        for watcher in self._watchers:
            watcher.close()
