"""A thread that is loaded into memory: its running turn, agents, project notes and background processes."""

from typing import TYPE_CHECKING

import anyio

from hames.core.engine_rules import ThreadBudget
from hames.core.thread import Thread
from hames.domain.events import Noticed
from hames.domain.project_notes import Note
from hames.domain.value import Value
from hames.ports import AgentThread, ProcessTable

if TYPE_CHECKING:
    from hames.core.turn import RunningTurn


class NotesOf(Value):
    """The project notes of a working directory, as they were when this thread first needed them.

    They stay as they are while the thread is loaded: the beginning of its requests must not change.
    """

    cwd: str
    notes: tuple[Note, ...]


class LoadedThread:
    """A thread in memory, and the turn that runs on it."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.claimed = False
        """A turn is about to start."""
        self.turn: RunningTurn | None = None
        self.agents: dict[str, AgentThread] = {}
        """The agents that have been opened for this thread, by the provider's part of the model's name."""
        self.opening_agent = anyio.Lock(fast_acquire=True)
        self.notes: NotesOf | None = None
        self.notes_checked: NotesOf | None = None
        """Those whose problems have been reported."""
        self.warned = False
        """Whether this thread has been told what is wrong with the configuration."""
        self.rules_told = False
        """Whether this thread has been told how far rules hold for another agent."""
        self.notices: list[Noticed] = []
        """To be told with the first turn: nobody follows a thread that is being created."""
        self.processes: ProcessTable | None = None
        """What its tools started in the background, while they are open."""
        self.budget = ThreadBudget()
        self.closed = anyio.Event()
        self.used_at = 0.0

    @property
    def can_unload(self) -> bool:
        """Nothing runs, also not in the background, nobody watches, nothing is about to start: it is on the disk as it
        is here."""
        works = self.processes is not None and self.processes.is_any_running()
        return not (works or self.busy or self.turn or self.waits or self.thread.watched or self.thread.failure)

    @property
    def waits(self) -> bool:
        """A prompt waits for its turn."""
        return bool(self.thread.state.queue) and not self.thread.state.queue_held

    @property
    def busy(self) -> bool:
        """Free as soon as watchers hear that the turn has ended: a client that hears it may start the next."""
        return self.claimed or (self.thread.state.running is not None and self.turn is not None)

    @property
    def abandoned(self) -> bool:
        """The log says that a turn runs, and nothing runs it."""
        return self.thread.state.running is not None and self.turn is None
