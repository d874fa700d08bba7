"""A thread in memory, and the turn that runs on it."""

import anyio

from hames.core.context import Memory
from hames.core.thread import Thread
from hames.core.turn import TurnWork
from hames.domain.notes import Note
from hames.domain.servers import ServerStatus
from hames.domain.value import Value
from hames.ports import Tool


class Run:
    """A turn under way. It may still be tidying up when the next one starts."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.work: TurnWork | None = None
        self.over = anyio.Event()
        self.ending = ""
        """Why it was stopped, if nobody asked for that."""


class NotesOf(Value):
    """The project notes of a working directory, as they were when this thread first asked for them.

    They stay as they are while the thread is loaded: the beginning of its requests must not change.
    """

    cwd: str
    notes: tuple[Note, ...]


class Live:
    """A loaded thread and what runs on it."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.claimed = False
        self.run: Run | None = None
        self.memory = Memory()
        self.tools: list[Tool] | None = None
        self.opening = anyio.Lock(fast_acquire=True)
        """Held while the tools are opened."""
        self.notes: NotesOf | None = None
        self.notes_told: NotesOf | None = None
        """Those whose problems people have been told of."""
        self.servers: dict[str, ServerStatus] = {}
        self.warned = False
        """Whether this thread has been told what is wrong with the configuration."""
        self.closed = anyio.Event()
        self.used_at = 0.0

    @property
    def resting(self) -> bool:
        """Nothing runs, nobody watches, nothing is about to start: it is on the disk as it is here."""
        state = self.thread.state
        waits = bool(state.queue) and not state.queue_held
        return not (self.busy or self.run or waits or self.thread.watched or self.thread.failure)

    @property
    def busy(self) -> bool:
        """Free the moment watchers hear that the turn has ended: whoever hears it may start the next."""
        return self.claimed or self.thread.state.running is not None
