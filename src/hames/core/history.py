"""The history of a thread: its records as changes, what a late watcher missed, where a fork begins. Pure."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload

from hames.domain.commands import ForkThread
from hames.domain.errors import InvalidCommand
from hames.domain.events import ItemDelta, Record
from hames.domain.ids import ThreadId
from hames.domain.items import STREAMS, UserMessage
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn, apply, blank


class History(Sequence[Change]):
    """Every record of a thread as a change, folded as it is read: a state per record would be too much to keep."""

    def __init__(self, thread_id: ThreadId, records: Sequence[Record], *, foreign: bool = False) -> None:
        self._start = blank(thread_id, foreign=foreign)
        self._records = records
        self._last: Change | None = None

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Change]:
        state = self._start
        for record in self._records:
            before, state = state, apply(state, record)
            yield Change(record=record, before=before, after=state)

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Change]: ...
    def __getitem__(self, index: int | slice) -> Change | Sequence[Change]:
        if isinstance(index, slice):
            return list(self)[index]
        if index in (-1, len(self) - 1) and self._records:
            if self._last is None:
                self._last = deque(self, maxlen=1)[0]
            return self._last
        return next(islice(self, index % len(self._records), None))


def fork_point(records: list[Record], command: ForkThread) -> int:
    if command.last_turn_id is None:
        return records[-1].seq if command.last_seq is None else command.last_seq
    turn = [record.seq for record in records if getattr(record.event, "turn_id", None) == command.last_turn_id]
    if not turn:
        raise InvalidCommand(f"thread {command.thread_id!r} has no turn {command.last_turn_id!r}")
    return turn[-1]


def missed_changes(records: list[Record], *, after: int, until: ThreadState) -> list[Change]:
    """What a watcher missed that begins behind record `after`, up to its own snapshot and not a letter further.

    The last record may be a bundle that has grown since, or has not been written yet.
    """
    whole = [record for record in records if record.seq <= until.seq]
    if whole and isinstance(whole[-1].event, ItemDelta) and whole[-1].seq == until.seq:
        whole.pop()
    missed = list(History(until.id, whole, foreign=until.foreign))
    before = missed[-1].after if missed else blank(until.id, foreign=until.foreign)
    if before.seq < until.seq and (delta := _unwritten_delta(before, until)) is not None:
        at = Record(seq=until.seq, at_ms=until.updated_at_ms, thread_id=until.id, event=delta)
        missed.append(Change(record=at, before=before, after=until))
    return [change for change in missed if change.record.seq > after]


def _unwritten_delta(before: ThreadState, after: ThreadState) -> ItemDelta | None:
    """The text that one stream has more in `after` than in `before`."""
    turn = after.running
    for item in reversed(turn.items if turn else ()):
        known = before.item(item.id)
        for stream in STREAMS[type(item)]:
            there: str = getattr(item, stream)
            here: str = getattr(known, stream) if known is not None else ""
            if turn is not None and len(there) > len(here):
                return ItemDelta(turn_id=turn.id, item_id=item.id, stream=stream, text=there[len(here) :])
    return None


def find_duplicate_submit(state: ThreadState, client_id: str) -> Turn | QueuedPrompt | None:
    """The prompt or turn that this `client_id` already made: a submit that is sent again must not run again."""
    for prompt in state.queue:
        if prompt.id == client_id:
            return prompt
    for turn in reversed(state.turns):
        if any(isinstance(item, UserMessage) and item.client_id == client_id for item in turn.items):
            return turn
    return None
