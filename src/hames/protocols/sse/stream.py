"""The bytes of the stream: an event is one JSON object on one line, with the place it stands at.

The place is the log position. A record that makes several events numbers all but the last (`12.1`, `12.2`, `12`),
so that a client that was cut off between them comes back to exactly the next one.
"""

from collections.abc import Sequence

from hames.codecs import sse
from hames.codecs.jsontext import encode
from hames.domain.state import Change
from hames.domain.value import Value
from hames.protocols.sse.messages import SseEvent
from hames.protocols.sse.outbound import project

HEARTBEAT = sse.comment("heartbeat")
RETRY_MS = 1000


class Place(Value):
    """Behind record `seq`, or behind the first `told` events of it."""

    seq: int
    told: int = 0


def place(text: str) -> Place | None:
    """What `Last-Event-ID` means. None: it is not one of ours.

    >>> place("12"), place("12.1"), place("12.x")
    (Place(seq=12, told=0), Place(seq=12, told=1), None)
    """
    seq, _, told = text.strip().partition(".")
    parts = (seq, told) if "." in text else (seq,)
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        return None
    return Place(seq=int(seq), told=int(told or 0))


def opening(seq: int, told: int = 0) -> bytes:
    """The first bytes: where the client stands before any event, so that it can come back from here."""
    at = f"{seq}.{told}" if told else f"{seq}"
    return f"retry: {RETRY_MS}\nid: {at}\n\n".encode()


def ending(why: str) -> bytes:
    """The last ones. A comment, because no client has an event for it."""
    return sse.comment(why)


def unplaced(events: Sequence[SseEvent]) -> bytes:
    """Events that stand at no place: told again to one client."""
    return b"".join(sse.event(encode(event)) for event in events)


class Block(Value):
    """All events of one record, ready to be sent."""

    seq: int
    lines: tuple[bytes, ...]

    def behind(self, where: Place) -> bytes:
        """What of it a client at this place has not been told."""
        if self.seq < where.seq or (self.seq == where.seq and not where.told):
            return b""
        return b"".join(self.lines[where.told :] if self.seq == where.seq else self.lines)


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
