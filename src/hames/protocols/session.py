"""The contract between a protocol and a connection: one sans-I/O `Session` per client.

A session turns messages into actions and changes into messages. It never awaits, reads no clock, starts no task;
all its memory is in its fields. The connection runs its actions and sends its output. A session may rely on this:

1. Actions run one after the other, in the order given; actions returned by `resume`, `done`, `followed` or `failed`
   run next. A `Defer` that says so may overtake messages that take long and are not about the same thread, so a
   session must bear the outcome of one message between two actions of another.
2. The outcome of a command is reported (`done`) before any change that the command caused is told.
3. After `followed(state)` come exactly the changes after `state`: no gap, no overlap, not even in a half-written delta.
4. `tell` gets each thread's changes in order. Deltas may be joined; nothing else is ever joined or dropped.
5. `receive` is called for every message at once, even while a command runs: answers to our own requests never wait.
   What must wait for earlier messages returns `Defer`.
6. A `Follow` with an `encoder` is not told with `tell`: its changes are encoded once for all clients that follow the
   thread with the same encoder (`protocols/broadcast.py`), and sent to this one beside the session's own output.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from hames.codecs.lines import Line
from hames.domain.commands import Command, ProgramEnded, ThreadPage
from hames.domain.context_report import ContextReport
from hames.domain.errors import HarnessError
from hames.domain.ids import ItemId, ThreadId
from hames.domain.json import Json
from hames.domain.processes import ProcessList
from hames.domain.servers import ServerList
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn
from hames.domain.undo import UndoReport
from hames.domain.value import Value
from hames.domain.worktrees import WorktreeList, WorktreeReport
from hames.ports import ClientToolCall
from hames.protocols.broadcast import Encoder, ListEncoder

Outcome = (
    ThreadState
    | ThreadPage
    | Turn
    | QueuedPrompt
    | ServerList
    | ProcessList
    | ContextReport
    | UndoReport
    | WorktreeList
    | WorktreeReport
    | ProgramEnded
    | None
)


Urgency = Literal["change", "read", "urgent"]
"""`change`: in its order. `read`: only looks. `urgent`: an interrupt, or an answer that something waits for."""


class Defer(Value):
    """Come back with `resume` when every earlier action was carried out.

    A read or something urgent waits only a moment for earlier messages, unless one of them changes the same thread.
    """

    context: object
    urgency: Urgency = "change"
    threads: frozenset[str] | None = frozenset()
    """The threads that the message is about, in the client's own words. None: nobody knows, so nothing overtakes it."""


class Execute(Value):
    """Run a command. `context` is the session's own note, usually the request; it comes back with the outcome."""

    command: Command
    context: object = None


class Follow(Value):
    """Tell this thread's changes from now on. `replay`: `followed` gets the history as well, from the first record.

    Following a followed thread starts nothing new; `followed` then gets the state that was told last.
    """

    thread_id: ThreadId
    replay: bool = False
    can_answer: bool = True
    """The client can decide approvals, so a question may wait for it. Follow again to change it."""
    encoder: Callable[[], Encoder] | None = None
    """Makes the encoder that all clients which name the same one share."""
    position: object = None
    """For the encoder: how far the client was told before it came back."""
    context: object = None


class Unfollow(Value):
    thread_id: ThreadId


class FollowList(Value):
    """Send changes of the thread list from now on, encoded once for all clients that name the same encoder."""

    encoder: Callable[[], ListEncoder]


class Close(Value):
    """End the connection when the output so far was sent. `error`: because a request cannot be served."""

    reason: str
    code: int = 0
    """The protocol's own number for it, where the connection can carry one."""
    error: HarnessError | None = None


class ClientReply(Value):
    """The end of a request made with `Session.ask`: the client's result, or why there is none."""

    request_id: str
    result: Json = None
    error: str = ""


class Crashed(Value):
    """A bug in the session: its client was answered, and the connection logs it."""

    error: Exception
    method: str


Action = Defer | Execute | Follow | Unfollow | FollowList | Close | ClientReply | Crashed


class ReadClientFile(Value):
    """Read a text file as the client's editor shows it, unsaved changes included: `{"content": text}`."""

    thread_id: ThreadId
    path: str


class WriteClientFile(Value):
    """Tell the client's editor the new text of a file, which it saves."""

    thread_id: ThreadId
    path: str
    text: str


class UseClientTerminal(Value):
    """Something about a terminal of the client's in which the command of an item runs."""

    thread_id: ThreadId
    item_id: ItemId
    action: str
    about: dict[str, Json]


ClientRequest = ReadClientFile | WriteClientFile | UseClientTerminal | ClientToolCall
"""What the program may ask of one client. Approvals and elicitation are changes, told to every follower."""


class Session(Protocol):
    """`now` is monotonic seconds. Derive from it: what a protocol does not need has a default."""

    protocol: str = ""
    """Its name, for the log."""
    client_name: str = ""
    """What the client calls itself."""
    can_answer: bool = True
    """Set by the connection before anything else: whether the client may decide approvals."""

    def open(self, _now: float, /) -> Sequence[Action]:
        """The connection is there: what happens before the client says anything."""
        return ()

    def receive(self, _message: Line, _now: float, /) -> Sequence[Action]:
        """One whole message of the client's: a request, a notification, or the answer to a request of ours."""
        return ()

    def resume(self, _action: Defer, _now: float, /) -> Sequence[Action]:
        return ()

    def done(self, _action: Execute, _outcome: Outcome, /) -> Sequence[Action]:
        return ()

    def followed(
        self, _action: Follow, _state: ThreadState, _history: Sequence[Change], _now: float, /
    ) -> Sequence[Action]:
        """`history` is empty unless `action.replay`."""
        return ()

    def restarted(self) -> None:
        """The client fell behind and was sent the state of its threads again, in place of what it missed."""

    def failed(self, action: Action, error: HarnessError, /) -> Sequence[Action]: ...

    def tell(self, _changes: Sequence[Change], _now: float, /) -> Close | None:
        return None

    def lost(self, _thread_id: ThreadId, _why: str, /) -> Close | None:
        """The thread tells nothing more. Requests that waited for its turn to end are answered now."""
        return None

    def ask(self, _request_id: str, _request: ClientRequest, _deadline: float, /) -> bool:
        """False: this client cannot do it. Otherwise ends with one `ClientReply`."""
        return False

    def withdraw(self, _request_id: str, /) -> None:
        """Nobody waits for the reply to this request of `ask` any more."""

    def tool_rank(self, _thread_id: ThreadId, /) -> int:
        """See `ports.ToolClient`."""
        return 0

    def editor_rank(self, _thread_id: ThreadId, /) -> int:
        """See `ports.EditorClient`."""
        return 0

    def terminal_rank(self, _thread_id: ThreadId, /) -> int:
        """See `ports.EditorClient`."""
        return 0

    def next_deadline(self) -> float | None:
        return None

    def expire(self, _now: float, /) -> Sequence[Action]:
        return ()

    def closed(self) -> Sequence[Action]:
        """The connection has ended. Only commands are carried out now, for a few seconds at most."""
        return ()

    def take_output(self) -> bytes:
        """Whole messages that were not taken yet, in order. Lines, where the connection sends messages."""
        ...
