"""Where threads are kept."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from hames.domain.commands import ThreadPage, ThreadSummary
from hames.domain.errors import StorageFailed
from hames.domain.events import Record
from hames.domain.ids import ThreadId
from hames.domain.value import Value


class Log(Protocol):
    """One thread's log, held by its only writer.

    `append` returns when the records are kept (a killed process does not lose them) and, with
    `sync`, when they are safe (a power cut does not either). `jot` keeps a live delta until the bundle
    that contains it is appended. Both raise `StorageFailed`; after a failed sync the log is read-only for good.
    They raise `Fenced` once another process has taken the thread over: nothing was written then.
    """

    thread_id: ThreadId
    repaired: str
    """What opening it had to mend, or nothing."""
    damaged: bool
    """Lines in it cannot be read. An incomplete end is no damage: nobody was told of it, and nothing came of it."""
    deaths: int | None
    """How many writers died in the running turn since it last made progress. None: the store does not know."""

    @property
    def foreign(self) -> bool:
        """Not written by this user on this machine, all of it: its settings and approvals are data, not consent."""
        ...

    async def read(self) -> list[Record]:
        """All of it, with jotted deltas that never made it into a bundle as last records."""
        ...

    async def append(self, records: Sequence[Record], *, sync: bool = False) -> None:
        """With no records it only waits until what was jotted before is kept."""
        ...

    def jot(self, record: Record, kept: Callable[[], None] | None = None) -> bool:
        """Whether the delta is kept. If not, calls `kept` once it is: in order, before a later `append` returns.

        It is never called for a delta that could not be kept: the next call raises why.
        """
        ...

    async def summarize(self, summary: ThreadSummary) -> None:
        """What lists show of this thread from now on."""
        ...

    def mark_running(self, *, running: bool) -> None:
        """A hint for `Store.running`. Raises nothing."""
        ...

    def rest(self) -> None:
        """The turn is over: give back what only a running one needs."""
        ...

    def abandon(self, why: StorageFailed) -> None:
        """This process no longer writes the log. Whoever waits for a write gets this error at once; whether the records
        are kept is up to the store. Raises nothing."""
        ...

    async def close(self) -> None: ...


class Examined(Value):
    """What a log says, and whether it is foreign (see `Log.foreign`)."""

    records: list[Record]
    foreign: bool


class LogNews(Value):
    """What was written to a log since the last look, by whoever writes it.

    Deltas of one bundle share its number, as they do for watchers; together they are its text.
    """

    records: list[Record]
    foreign: bool
    whole: bool = False
    """These are all records: the first look, or what was told before is no longer what the log says."""


class Store(Protocol):
    """Where threads are kept. Append-only; one writer at a time; a torn tail is a shorter log."""

    async def create(self, thread_id: ThreadId, *, foreign: bool = False, ephemeral: bool = False) -> Log:
        """`foreign`: what will be written comes from a foreign thread, so this one is foreign, too.

        `ephemeral`: `sweep` deletes it when its writer has gone without doing so.
        """
        ...

    async def open(self, thread_id: ThreadId) -> Log:
        """For writing. Raises `ThreadNotFound`, `ThreadInUse`, `ThreadReadOnly`."""
        ...

    async def read(self, thread_id: ThreadId, *, after: int = 0) -> list[Record]:
        """For looking. Raises `ThreadNotFound`."""
        ...

    async def examine(self, thread_id: ThreadId) -> Examined:
        """For looking, and whose it is: of the very bytes that were read. Raises `ThreadNotFound`."""
        ...

    def follow(self, thread_id: ThreadId, *, after: int = 0) -> AsyncGenerator[LogNews]:
        """All records numbered higher than `after`, then what is written, as it is written: live deltas, too.

        For looking: whoever writes the thread, this process or another, is not disturbed. Each record comes once and
        in order. It ends when the thread is deleted. Raises `ThreadNotFound`.
        """
        ...

    async def page(self, *, limit: int | None, cursor: str | None, archived: bool | None, search: str) -> ThreadPage:
        """Newest first, without ephemeral threads; opens no log. Raises `InvalidCommand` for a cursor it never gave."""
        ...

    async def delete(self, thread_id: ThreadId) -> None: ...

    async def running(self) -> list[ThreadId]:
        """The threads that `Log.mark_running` marked. A mark is only a hint: the log decides. Opens no log."""
        ...

    async def unmark(self, thread_id: ThreadId) -> None:
        """Removes the mark of a thread that is no longer there."""
        ...

    async def sweep(self) -> None:
        """Deletes the ephemeral threads of processes that were killed. Raises nothing."""
        ...

    async def close(self) -> None: ...
