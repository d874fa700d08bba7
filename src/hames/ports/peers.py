"""Other processes of the same user that work on the same threads.

A thread has one writer. Any other process follows the log (`Store.follow`) and sends commands to the writer through a
link. A link is only ever between processes of one user outside sandboxes: whoever implements this port sees to it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from hames.domain.commands import Command, Standing
from hames.domain.context_report import ContextReport
from hames.domain.ids import ThreadId
from hames.domain.items import ToolResult
from hames.domain.processes import ProcessList
from hames.domain.servers import ServerList
from hames.domain.state import QueuedPrompt, Turn
from hames.domain.undo import UndoReport
from hames.domain.value import Value
from hames.domain.worktrees import WorktreeReport
from hames.ports.tool import ClientToolCall, ToolClient


class PeerLost(Exception):
    """The other process has gone or does not answer. Whether it carried out the command is not known."""


class NobodyThere(PeerLost):
    """No other process took the command, so it was not carried out. The sentence is for people."""


class CommandPending(PeerLost):
    """The command may be carried out later, by whichever process takes it."""


class PeerAnswer(Value):
    """What a command gave in another process. The state of a thread is not sent: the log has it."""

    thread_id: ThreadId | None = None
    """The answer is the state of this thread, at `seq` or later."""
    seq: int = 0
    turn: Turn | None = None
    prompt: QueuedPrompt | None = None
    servers: ServerList | None = None
    processes: ProcessList | None = None
    context: ContextReport | None = None
    undo: UndoReport | None = None
    worktree: WorktreeReport | None = None


class Peer(Protocol):
    """What this process does for the others."""

    def owns(self, thread_id: ThreadId) -> bool:
        """Whether this process is the thread's writer."""
        ...

    def standings(self) -> Mapping[ThreadId, Standing]:
        """Of the threads that this process writes."""
        ...

    async def execute_for_peer(
        self, command: Command, key: str, *, seen: int, repeated: bool = False, thread_id: ThreadId | None = None
    ) -> PeerAnswer:
        """Carries it out here, once per key, when the thread is as far as the asker has `seen` it.

        `repeated`: another process may have carried it out since, and then it is not done twice. `thread_id`: for a
        command that does not name its thread.

        Raises `HarnessError`, and `ThreadInUse` where it is not the writer.
        """
        ...

    def set_viewer(self, viewer: object, thread_id: ThreadId, *, answers: bool | None) -> None:
        """Another process watches a thread of ours; `answers`: somebody there can decide approvals. None: no more."""
        ...

    def remove_viewer(self, viewer: object) -> None:
        """The other process has gone."""
        ...

    def start_news(self) -> None:
        """Another process wants to hear of changes of our list."""
        ...

    def tool_rank(self, thread_id: ThreadId) -> int:
        """The highest rank of the clients here that carry out tools of a thread of another process (`ToolClient`)."""
        ...

    async def call_tool_for_peer(self, call: ClientToolCall) -> ToolResult:
        """Has a client of this process carry out a tool of a thread of another process. Raises nothing."""
        ...

    def hear_news(self) -> None:
        """The list of threads of another process has changed, or that process has gone."""
        ...


class PeerLink(Protocol):
    """A connection to another process."""

    name: str
    """Which process it is, in words."""
    gone: bool
    """The other process has ended, or closed the connection."""

    async def owns(self, thread_id: ThreadId, *, patient: bool = False) -> bool:
        """`patient`: gives a process time that is slow to answer. Raises `PeerLost`."""
        ...

    async def standings(self) -> Mapping[ThreadId, Standing]:
        """Raises `PeerLost`."""
        ...

    async def execute(self, command: Command, key: str, *, seen: int, repeated: bool = False) -> PeerAnswer:
        """`seen`: the last record that the asker knows of. `repeated`: it may have been carried out since.

        Raises what the other process raised, and `PeerLost`.
        """
        ...

    def tell_viewing(self, thread_id: ThreadId, *, answers: bool | None, tools: int) -> None:
        """`tools`: the highest rank of the clients here that carry out tools of the thread (`ToolClient`)."""
        ...

    def ask_for_news(self) -> None:
        """From now on `Peer.hear_news` is called when its list changes."""
        ...


class Peers(Protocol):
    def attach(self, start_task: Callable[..., object], here: Peer) -> None:
        """`start_task` runs a function with its arguments until this process ends. Called before everything else."""
        ...

    async def start(self) -> None:
        """Takes connections from now on, if it can and does not yet. Raises nothing."""
        ...

    async def links(self, *, patient: bool = False) -> Sequence[PeerLink]:
        """To every other process that can be reached now. Raises nothing.

        `patient`: also to those that did not answer lately.
        """
        ...

    def send_news(self) -> None:
        """Tells whoever asked for it that the list of our threads has changed."""
        ...

    async def tool_clients(self, thread_id: ThreadId) -> Sequence[ToolClient]:
        """One for each other process with a client that carries out tools of this thread of ours. Raises nothing.

        Those that came last are last. A process that does not answer soon is left out.
        """
        ...

    async def close(self) -> None: ...
