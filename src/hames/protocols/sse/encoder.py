"""The bytes of the stream: an event is one JSON object on one line, with its position as the event id.

The position is the number of the record. A record that makes several events numbers all but the last (`12.1`, `12.2`,
`12`), so that a client that was cut off between them comes back to exactly the next one.
"""

from collections.abc import Sequence

from hames.codecs import sse
from hames.codecs.jsontext import encode
from hames.domain.state import Change, ThreadState
from hames.domain.value import Value
from hames.protocols.broadcast import BroadcastRules
from hames.protocols.sse.messages import SseEvent
from hames.protocols.sse.outbound import pending, project

HEARTBEAT = sse.comment("heartbeat")
RETRY_MS = 1000


class Position(Value):
    """Behind record `seq`, or behind the first `told` events of it."""

    seq: int
    told: int = 0


def parse_position(text: str) -> Position | None:
    """What `Last-Event-ID` means. None: it is not one of ours.

    >>> parse_position("12"), parse_position("12.1"), parse_position("12.x")
    (Position(seq=12, told=0), Position(seq=12, told=1), None)
    """
    seq, _, told = text.strip().partition(".")
    parts = (seq, told) if "." in text else (seq,)
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        return None
    return Position(seq=int(seq), told=int(told or 0))


def stream_head(seq: int, told: int = 0) -> bytes:
    """The first bytes: where the client stands before any event, so that it can come back from here."""
    at = f"{seq}.{told}" if told else f"{seq}"
    return f"retry: {RETRY_MS}\nid: {at}\n\n".encode()


def without_position(events: Sequence[SseEvent]) -> bytes:
    """Events without a position: sent again to one client."""
    return b"".join(sse.event(encode(event)) for event in events)


class Block(Value):
    """All events of one record, ready to be sent."""

    seq: int
    lines: tuple[bytes, ...]

    def after(self, position: Position) -> bytes:
        """The part of it that a client at this position has not been sent."""
        if self.seq < position.seq or (self.seq == position.seq and not position.told):
            return b""
        return b"".join(self.lines[position.told :] if self.seq == position.seq else self.lines)


def block(change: Change) -> Block | None:
    """None: nothing is told of this change."""
    told, seq = project(change), change.record.seq
    if not told:
        return None
    last = len(told) - 1
    return Block(
        seq=seq,
        lines=tuple(
            sse.event(encode(event), event_id=f"{seq}" if n == last else f"{seq}.{n + 1}")
            for n, event in enumerate(told)
        ),
    )


class SseEncoder:
    """A thread's events for every client of its stream. Keeps those of the past once a client came back for them."""

    rules = BroadcastRules(when_behind="close", heartbeat_s=30.0, only_when_quiet=False)

    def __init__(self) -> None:
        self._blocks: list[Block] | None = None

    def needs_history(self, position: object, state: ThreadState) -> bool:
        return isinstance(position, Position) and position.seq <= state.seq and self._blocks is None

    def load(self, history: Sequence[Change]) -> None:
        self._blocks = [found for change in history if (found := block(change)) is not None]

    def begin(self, state: ThreadState, position: object = None) -> bytes:
        if not isinstance(position, Position):
            return stream_head(state.seq) + without_position(pending(state))
        if position.seq > state.seq:
            return stream_head(state.seq)
        missed = b"".join(found.after(position) for found in self._blocks or ())
        return stream_head(position.seq, position.told) + missed

    def encode(self, changes: Sequence[Change]) -> bytes:
        blocks = [found for change in changes if (found := block(change)) is not None]
        if self._blocks is not None:
            self._blocks += blocks
        return b"".join(line for found in blocks for line in found.lines)

    def heartbeat(self, _state: ThreadState) -> bytes:
        return HEARTBEAT
