"""A thread's past: its records as changes, what lies between two of its states, where a fork begins. Pure."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import overload

from hames.domain.commands import TURN_NAME, ForkThread, PastTurn
from hames.domain.errors import InvalidCommand
from hames.domain.events import Event, ItemCompleted, ItemDelta, ItemStarted, Record, TurnEnded, TurnStarted
from hames.domain.ids import ItemId, TurnId
from hames.domain.items import STREAMS, AgentMessage, Item, TextInput, UserMessage
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn, apply, blank


class History(Sequence[Change]):
    """Records of a thread as changes, folded as they are read: a state per record would be too much to keep."""

    def __init__(self, start: ThreadState, records: Sequence[Record]) -> None:
        """`start` is the state before the first record."""
        self._start = start
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


def changes_between(records: Sequence[Record], since: ThreadState, until: ThreadState) -> Sequence[Change]:
    """What leads from one state of a thread to a later one, to the character. `records` is its whole log.

    The deltas of one bundle share a number, so either state may end inside a bundle, and the last bundle may not be
    written yet. What is missing of a bundle is what its text has grown by.
    """
    if since.seq == until.seq:
        return History(since, _missing_delta(since, until))
    between = [record for record in records if since.seq < record.seq < until.seq]
    start, head = since, list[Record]()
    if since.running is not None and isinstance(_record(records, since.seq), ItemDelta):
        earlier = [record for record in records if record.seq <= since.seq]
        head = _missing_delta(since, History(blank(since.id, foreign=since.foreign), earlier)[-1].after)
    last = [record for record in records if record.seq == until.seq and not isinstance(record.event, ItemDelta)]
    if not last:
        before = History(start, [*head, *between])[-1].after if head or between else start
        last = _missing_delta(before, until)
    return History(start, [*head, *between, *last])


def _record(records: Sequence[Record], seq: int) -> Event | None:
    """The event with this number. A log has no gaps, but its first records may be cut off."""
    position = seq - records[0].seq if records else -1
    return records[position].event if 0 <= position < len(records) else None


def _missing_delta(before: ThreadState, after: ThreadState) -> list[Record]:
    """The text by which the one stream grew that lies between the two states."""
    turn = after.running
    for item in reversed(turn.items if turn else ()):
        known = before.item(item.id)
        for stream in STREAMS[type(item)]:
            there: str = getattr(item, stream)
            here: str = getattr(known, stream) if known is not None else ""
            if turn is not None and len(there) > len(here):
                delta = ItemDelta(turn_id=turn.id, item_id=item.id, stream=stream, text=there[len(here) :])
                return [Record(seq=after.seq, at_ms=after.updated_at_ms, thread_id=after.id, event=delta)]
    return []


def find_duplicate_submit(state: ThreadState, client_id: str) -> Turn | QueuedPrompt | None:
    """The prompt or turn that this `client_id` already made: a submit that is sent again must not run again."""
    for prompt in state.queue:
        if prompt.id == client_id:
            return prompt
    for turn in reversed(state.turns):
        if any(isinstance(item, UserMessage) and item.client_id == client_id for item in turn.items):
            return turn
    return None


def past_events(turn: PastTurn, new_id: Callable[[str], str]) -> Iterator[Event]:
    """A turn that ran elsewhere, as it is written into the log of a thread here."""
    turn_id, step = TurnId(new_id("turn")), 0
    yield TurnStarted(turn_id=turn_id, meta={TURN_NAME: turn.id})
    for message in turn.messages:
        if message.role == "user":
            item: Item = UserMessage(id=ItemId(new_id("item")), step=step, content=message.content)
        else:
            step += 1
            text = "\n\n".join(part.text for part in message.content if isinstance(part, TextInput))
            item = AgentMessage(id=ItemId(new_id("item")), step=step, text=text, status="completed")
        yield ItemStarted(turn_id=turn_id, item=item)
        yield ItemCompleted(turn_id=turn_id, item=item)
    yield TurnEnded(turn_id=turn_id, status="completed")
