"""The contract between a protocol and a connection: one sans-I/O `Session` per client.

A session turns messages into actions and changes into messages. It never awaits, reads no clock, starts no task;
all its memory is in its fields. The connection runs its actions and sends its output. A session may rely on this:

1. Actions run one after the other, in the order given; actions returned by `resume`, `done`, `followed` or `failed`
   run next.
2. The outcome of a command is reported (`done`) before any change that the command caused is told.
3. After `followed(state)` come exactly the changes after `state`: no gap, no overlap, not even in a half-written delta.
4. `tell` gets each thread's changes in order. Deltas may be joined; nothing else is ever joined or dropped.
5. `receive` is called for every message at once, even while a command runs: answers to our own requests never wait.
   What must wait for earlier messages returns `Defer`.
"""

from collections.abc import Sequence
from typing import Protocol

from hames.codecs.lines import Line
from hames.domain.commands import Command, ThreadPage
from hames.domain.errors import HarnessError
from hames.domain.ids import ThreadId
from hames.domain.json import Json
from hames.domain.servers import ServerList
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn
from hames.domain.value import Value

Outcome = ThreadState | ThreadPage | Turn | QueuedPrompt | ServerList | None


class Defer(Value):
    """Come back with `resume` when every earlier action was carried out."""

    context: object


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
    """The client can decide approvals, so a question may wait for it."""
    context: object = None


class Unfollow(Value):
    thread_id: ThreadId


class ClientReply(Value):
    """The end of a request made with `Session.ask`: the client's result, or why there is none."""

    request_id: str
    result: Json = None
    error: str = ""


class Crashed(Value):
    """A bug in the session: its client was answered, and the connection logs it."""

    error: Exception
    method: str


Action = Defer | Execute | Follow | Unfollow | ClientReply | Crashed


class ReadClientFile(Value):
    """Read a text file as the client's editor shows it, unsaved changes included."""

    thread_id: ThreadId
    path: str


ClientRequest = ReadClientFile
"""What the program may ask of one client. Approvals and elicitation are changes, told to every follower."""


class Session(Protocol):
    """`now` is monotonic seconds."""

    def receive(self, message: Line, now: float, /) -> Sequence[Action]:
        """One whole message of the client's: a request, a notification, or the answer to a request of ours."""
        ...

    def resume(self, action: Defer, now: float, /) -> Sequence[Action]: ...

    def done(self, action: Execute, outcome: Outcome, /) -> Sequence[Action]: ...

    def followed(
        self, action: Follow, state: ThreadState, history: Sequence[Change], now: float, /
    ) -> Sequence[Action]:
        """`history` is empty unless `action.replay`."""
        ...

    def failed(self, action: Action, error: HarnessError, /) -> Sequence[Action]: ...

    def tell(self, changes: Sequence[Change], now: float, /) -> None: ...

    def lost(self, thread_id: ThreadId, why: str, /) -> None:
        """The thread tells nothing more. Requests that waited for its turn to end are answered now."""
        ...

    def ask(self, request_id: str, request: ClientRequest, deadline: float, /) -> bool:
        """False: this client cannot do it. Otherwise ends with one `ClientReply`."""
        ...

    def next_deadline(self) -> float | None: ...

    def expire(self, now: float, /) -> Sequence[Action]: ...

    def take_output(self) -> bytes:
        """Whole messages that were not taken yet, in order."""
        ...
