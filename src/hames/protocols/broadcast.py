"""How a protocol writes for many clients at once: each change of a thread is encoded once per format.

An encoder is sans-I/O like a session, and shared by all clients that follow a thread in its format. The fan-out
(`server/fanout.py`) calls it and knows no protocol: what a slow client costs is a value that the encoder gives.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from hames.domain.state import Change, ThreadState
from hames.domain.value import Value


class BroadcastRules(Value):
    """When something is sent, and what happens to a client that reads too slowly."""

    when_behind: Literal["restart", "close"]
    """`restart`: what waits is forgotten, and the client is sent the state again. `close`: it can come back."""
    heartbeat_s: float
    only_when_quiet: bool
    """A heartbeat is sent only when nothing else was sent for so long."""
    frame_s: float = 0.025
    """After a message, changes are collected for so long: the first leaves at once, a flood becomes few messages."""
    outbox_bytes: int = 1 << 20
    """The most that may wait for a client."""
    patience_s: float = 30.0
    """A client that takes nothing for so long is disconnected."""


class Encoder(Protocol):
    """One thread in one format. `encode` gets every change after the first `begin`, in order."""

    rules: BroadcastRules

    def needs_history(self, position: object, state: ThreadState, /) -> bool:
        """Whether `load` must come before a client at this position can be told what it missed."""
        ...

    def load(self, history: Sequence[Change], /) -> None: ...

    def begin(self, state: ThreadState, position: object = None, /) -> bytes:
        """What a client that joins at this state is sent first."""
        ...

    def encode(self, changes: Sequence[Change], /) -> bytes:
        """Nothing: these changes mean nothing in this format."""
        ...

    def heartbeat(self, state: ThreadState, /) -> bytes: ...


class ListEncoder(Protocol):
    """Changes of the thread list in one format."""

    frame_s: float

    def begin(self) -> bytes:
        """What a client that joins is sent first, and every client when a thread was deleted."""
        ...

    def observe(self, change: Change, /) -> bool:
        """A change of any thread. True: there is something to send."""
        ...

    def encode(self) -> bytes:
        """What was observed since the last call."""
        ...
