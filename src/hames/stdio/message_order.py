"""In which order the messages of one connection are carried out, and which threads' changes wait for them."""

import anyio

from hames.domain.ids import ThreadId
from hames.protocols.session import Action, Defer

PATIENCE_SECONDS = 0.1
"""How long a read waits for each message before it. Most commands take far less, so order is kept as a rule, however
many they are."""


class MessageWork:
    """A message that is to be carried out, or something else that the session does."""

    def __init__(self, action: Action | None = None) -> None:
        self.actions = [action] if action is not None else []
        self.finished = anyio.Event()
        self.holds: set[ThreadId] = set()
        """The threads whose changes wait until it is finished."""
        self._message = action if isinstance(action, Defer) else None

    @property
    def overtakes(self) -> bool:
        return self._message is not None and self._message.urgency != "change"

    def must_follow(self, earlier: "MessageWork") -> bool:
        """Whether it cannot be carried out before the earlier one."""
        ours, theirs = self._message, earlier._message
        if ours is None or theirs is None or theirs.urgency == "read":
            return False
        return ours.threads is None or theirs.threads is None or bool(ours.threads & theirs.threads)


class MessageOrder:
    def __init__(self) -> None:
        self._under_way: dict[MessageWork, None] = {}
        """Messages that were read and are not carried out yet, oldest first."""
        self._held: dict[ThreadId, int] = {}
        """Threads whose changes wait, and for how many messages."""
        self._released: anyio.Event | None = None

    @property
    def unfinished(self) -> list[MessageWork]:
        return list(self._under_way)

    @property
    def has_waiting_changes(self) -> bool:
        return self._released is not None

    def add(self, work: MessageWork) -> None:
        self._under_way[work] = None

    async def wait_for_earlier(self, work: MessageWork) -> None:
        earlier: list[MessageWork] = []
        for one in self._under_way:
            if one is work:
                break
            earlier.append(one)
        for one in earlier:
            if work.must_follow(one):
                await one.finished.wait()
        for one in earlier:
            with anyio.move_on_after(PATIENCE_SECONDS):
                await one.finished.wait()
            if not one.finished.is_set():
                break

    def hold(self, thread_id: ThreadId | None, work: MessageWork) -> None:
        """The thread's changes wait for this work."""
        if thread_id is not None and thread_id not in work.holds:
            work.holds.add(thread_id)
            self._held[thread_id] = self._held.get(thread_id, 0) + 1

    def finish(self, work: MessageWork) -> None:
        self._under_way.pop(work, None)
        work.finished.set()
        for thread_id in work.holds:
            self._held[thread_id] -= 1
            if not self._held[thread_id]:
                del self._held[thread_id]
        work.holds = set()
        if self._released is not None:
            self._released.set()
            self._released = None

    async def until_released(self, thread_id: ThreadId) -> None:
        while thread_id in self._held:
            self._released = self._released or anyio.Event()
            await self._released.wait()
