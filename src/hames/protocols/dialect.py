"""What a protocol on JSON-RPC must say of itself. All of it is pure.

A connection takes a `Dialect` and an engine and needs nothing else: names of methods, shapes of
parameters, error numbers and what a change means to a client are all the dialect's. One object per connection.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from hames.codecs.jsonrpc import Params, Response, Rules
from hames.domain.commands import Command, ThreadPage
from hames.domain.errors import HarnessError
from hames.domain.ids import ApprovalId, ThreadId
from hames.domain.json import Json
from hames.domain.servers import ServerList
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn
from hames.domain.value import Value
from hames.ports import Models

Outcome = ThreadState | ThreadPage | Turn | QueuedPrompt | ServerList | None


class Notify(Value):
    method: str
    params: Json


class Ask(Value):
    """A request of ours. Its answer decides about the approval."""

    method: str
    params: Json
    approval_id: ApprovalId


class Settled(Value):
    """The approval is decided: a late answer to our request means nothing."""

    approval_id: ApprovalId


Outgoing = Notify | Ask | Settled


class Local(Value):
    """A request that is answered without the engine. Dialects derive theirs from it."""


class Unfollow(Local):
    """The client wants to hear no more of this thread."""

    thread_id: ThreadId


Follow = Literal["no", "now", "start", "history", "outcome"]
"""What a client hears of a thread after a command: nothing more than before, everything from the moment of
the command, everything from the thread's first record, everything after the history in the answer, or
everything after the state in the answer."""


class Dialect(Protocol):
    """`HarnessError` is all its functions raise."""

    rules: Rules
    methods: frozenset[str]
    """The requests it offers. `decode` is called with no other name."""

    def decode(self, method: str, params: Params, /) -> Command | Local:
        """Raises `InvalidCommand` and nothing else."""
        ...

    def local(self, request: Local, models: Models, /) -> Json: ...

    def follow(self, command: Command, /) -> Follow: ...

    def answer(self, command: Command, outcome: Outcome, history: Sequence[Change], /) -> Json:
        """`history` is every kept record of the thread when `follow` said `history`, else empty."""
        ...

    def greet(self, command: Command, state: ThreadState, history: Sequence[Change], /) -> Sequence[Outgoing]:
        """What is said right after the answer to a command that opened a thread: pending approvals, for one.

        `state` is the thread at the point from which changes follow.
        """
        ...

    def project(self, change: Change, /) -> Sequence[Outgoing]: ...

    def decide(self, response: Response, /) -> Sequence[Command]:
        """What the answer to an `Ask` means. Whatever is not understood is a rejection."""
        ...

    def code(self, error: HarnessError, /) -> int: ...
