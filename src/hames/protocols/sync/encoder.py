"""What every client of a thread is sent, encoded once: a state, then deltas. And the same for the thread list."""

from collections.abc import Callable, Iterator, Sequence

from hames.codecs.jsontext import encode
from hames.domain import events
from hames.domain.ids import ThreadId
from hames.domain.state import Change, ThreadState, summary
from hames.protocols.broadcast import BroadcastRules
from hames.protocols.sync.messages import AppendText, DeltaMessage, ErrorMessage, Operation
from hames.protocols.sync.outbound import Projector, snapshot
from hames.protocols.sync.pages import ThreadRow, ThreadsMessage, row
from hames.protocols.sync.view import Offer

LIST_CHANGED = encode(ThreadsMessage(threads=()))
"""Says that the list changed, and not how: a client asks for it again."""

_NOT_LISTED = (events.ItemDelta, events.ItemCompleted, events.ToolCalled, events.UsageReported)
"""The most frequent ones by far, and none of them shows in a list."""


class SyncEncoder:
    rules = BroadcastRules(when_behind="restart", heartbeat_s=20.0, only_when_quiet=True)

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._projector = Projector(offer)
        self._state: ThreadState | None = None
        self._snapshot = b""

    def needs_history(self, _position: object, _state: ThreadState) -> bool:
        return False

    def load(self, history: Sequence[Change]) -> None: ...

    def begin(self, state: ThreadState, _position: object = None) -> bytes:
        if self._state is not state:
            self._state, self._snapshot = state, encode(snapshot(state, self._offer))
        return self._snapshot

    def encode(self, changes: Sequence[Change]) -> bytes:
        self._state, self._snapshot = None, b""
        operations = [operation for change in changes for operation in self._projector.project(change)]
        if not operations:
            return _passing_notice(changes)
        return encode(DeltaMessage(operations=tuple(_join_appends(operations)), rev=changes[-1].after.seq))

    def heartbeat(self, state: ThreadState) -> bytes:
        return b'{"type":"delta","operations":[],"rev":%d}' % state.seq


def _passing_notice(changes: Sequence[Change]) -> bytes:
    """What a warning says that is in no log, and so in no state: a page shows it for a while."""
    said = [change.record.event for change in changes if change.is_passing]
    words = [event.message for event in said if isinstance(event, events.Noticed)]
    return encode(ErrorMessage(message=words[-1])) if words else b""


def sync_encoder(offer: Offer) -> Callable[[], SyncEncoder]:
    """What all clients of a server share: they must name the same function."""
    return lambda: SyncEncoder(offer)


def _join_appends(operations: list[Operation]) -> Iterator[Operation]:
    """Neighbours that append to the same text, as one."""
    path: tuple[str, ...] | None = None
    pieces: list[str] = []
    for operation in operations:
        if isinstance(operation, AppendText) and operation.path == path:
            pieces.append(operation.value)
            continue
        if path is not None:
            yield AppendText(path=path, value="".join(pieces))
            path = None
        if isinstance(operation, AppendText):
            path, pieces = operation.path, [operation.value]
        else:
            yield operation
    if path is not None:
        yield AppendText(path=path, value="".join(pieces))


class ThreadListEncoder:
    frame_s = 0.1

    def __init__(self) -> None:
        self._changed: dict[ThreadId, ThreadRow] = {}

    def begin(self) -> bytes:
        return LIST_CHANGED

    def observe(self, change: Change) -> bool:
        if change.after.ephemeral or isinstance(change.record.event, _NOT_LISTED):
            return False
        now = row(summary(change.after), change.after)
        if _listed_members(now) == _listed_members(row(summary(change.before), change.before)):
            return False
        self._changed[change.after.id] = now
        return True

    def encode(self) -> bytes:
        rows, self._changed = tuple(self._changed.values()), {}
        return encode(ThreadsMessage(threads=rows))


def _listed_members(one: ThreadRow) -> tuple[object, ...]:
    """Everything but the time of the last change."""
    return one.id, one.title, one.preview, one.cwd, one.model, one.archived, one.status
