"""Scans the lines of a thread's log: damaged, repeated, missing and torn lines, and which lines are sealed by us."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from hmac import compare_digest

import msgspec

from hames.domain.events import FORMAT, REPAIRED, Noticed, Record, ThreadCreated
from hames.domain.ids import ThreadId
from hames.store.lines import (
    FIRST,
    LINE_BYTES,
    LINK,
    SEALED_END,
    joined_lines,
    next_line,
    proven_line,
    record,
    seal_of,
    unknown,
)
from hames.store.places import Claim
from hames.store.seals import Running


@dataclass
class ScannedLog:
    """The records are in the order of their numbers."""

    records: list[Record] = field(default_factory=list[Record])
    foreign: bool = False
    """A whole line in it is not proven to be ours."""
    last_seal: bytes = FIRST
    """Of the last record of a log of ours: the next line repeats its beginning."""
    adopted: bool = False
    """The last line is from before there were seals."""
    gaps: set[int] = field(default_factory=set[int])
    """The numbers of the records before which lines are missing."""
    good_bytes: int = 0
    bytes_read: int = 0
    bad_lines: int = 0
    bad_at_end: int = 0
    """Whole lines behind the last good one. They are cut off with it."""
    repeated: int = 0
    """Lines that were there before: somebody copied them."""
    moved: int = 0
    """Lines that were not where their number says. They are put back."""
    replaced: int = 0
    """Lines of ours that do not follow the one before them, though no number is missing."""
    missing: int = 0
    """Numbers that no line has."""
    lost_at_end: int = 0
    """Records that were there when `meta.json` was written."""
    newer: bool = False

    @property
    def damage(self) -> str:
        """In words; nothing where all is well."""
        counts = (
            (self.bad_lines, "damaged line was skipped", "damaged lines were skipped"),
            (self.repeated, "repeated line was skipped", "repeated lines were skipped"),
            (self.moved, "line was put back in its place", "lines were put back in their places"),
            (self.replaced, "line was replaced by an earlier one", "lines were replaced by earlier ones"),
            (self.missing - self.bad_lines, "record is missing", "records are missing"),
            (self.lost_at_end, "record is missing at the end", "records are missing at the end"),
        )
        return ", ".join(f"{count} {one if count == 1 else more}" for count, one, more in counts if count > 0)

    @property
    def damage_was_told(self) -> bool:
        """Whether an earlier opening has said so: damaged lines stay where they are."""
        notices = [one.event for one in self.records if isinstance(one.event, Noticed)]
        return any(notice.name == REPAIRED and self.damage in notice.message for notice in notices)


@dataclass
class _Line:
    """A whole line. `after` is empty where it does not say what it follows."""

    record: Record
    proven: bool
    after: bytes = b""
    seal: bytes = b""
    adopted: bool = False


def scan_log(fd: int, thread_id: ThreadId, claim: Claim | None) -> ScannedLog:
    """Every good record, and where the last one ends. Whatever is damaged is passed over."""
    found = _scan_whole_log(fd, claim.seals.line(thread_id)) if claim is not None else None
    return found or _scan_any_log(fd, thread_id, claim)


def _scan_whole_log(fd: int, base: Running) -> ScannedLog | None:
    """A log of which every whole line is ours and follows the one before, as nearly all of them are. None: another."""
    found = ScannedLog()
    records, last_seal, position = found.records, FIRST, 0
    for data, size in lines_of(fd):
        try:
            following = next_line(data, base, last_seal)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        if following is None:
            return None
        each, last_seal = following
        records.append(each)
        position += size
    found.good_bytes = found.bytes_read = position
    found.last_seal = last_seal
    first = records[0].event if records else None
    found.newer = isinstance(first, ThreadCreated) and first.format > FORMAT
    # Who has the key could have written any number.
    return found if all(each.seq == number for number, each in enumerate(records, start=1)) else None


def _scan_any_log(fd: int, thread_id: ThreadId, claim: Claim | None) -> ScannedLog:
    found = ScannedLog()
    base = claim.seals.line(thread_id) if claim is not None else None
    earlier = _EarlierSeals(thread_id, claim)
    whole: list[_Line] = []
    pending_bad = 0
    for data, size in lines_of(fd):
        good = earlier.check(data, size, _read_line(data, base, found))
        pieces = () if good is not None else joined_lines(data)
        read = [good] if good is not None else [one for piece in pieces if (one := _read_line(piece, base, found))]
        found.bytes_read += size
        pending_bad += max(len(pieces), 1) - len(read)
        if read:
            found.good_bytes = found.bytes_read
            found.bad_lines, pending_bad = found.bad_lines + pending_bad, 0
        whole += read
    found.bad_at_end = pending_bad
    found.foreign = claim is None or not all(each.proven for each in whole)
    found.newer = found.newer or any(
        isinstance(each.record.event, ThreadCreated) and each.record.event.format > FORMAT for each in whole
    )
    ordered = _in_order(whole, found)
    _find_gaps(ordered, found)
    found.records = [each.record for each in ordered]
    if ordered:
        found.adopted, found.last_seal = ordered[-1].adopted, ordered[-1].seal
    return found


def _read_line(data: bytes, base: Running | None, found: ScannedLog) -> _Line | None:
    """Notes in `found` if a newer version wrote it."""
    if base is not None:
        try:
            if (proven := proven_line(data, base)) is not None:
                return _Line(proven.record, proven=True, after=proven.after, seal=proven.seal)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            found.newer = True
            return None
    if (good := record(data) if data else None) is None:
        found.newer = found.newer or unknown(data)
        return None
    return _Line(good, proven=False, seal=seal_of(data))


class _EarlierSeals:
    """The part of a log that an earlier version wrote: one seal vouches for everything before it."""

    def __init__(self, thread_id: ThreadId, claim: Claim | None) -> None:
        self._running = claim.seals.log(thread_id) if claim is not None else None
        self._adopted = claim.adopted.get(thread_id) if claim is not None else None
        self._unproven: list[_Line] = []
        self._position = 0

    def check(self, data: bytes, size: int, good: _Line | None) -> _Line | None:
        """Proves this line and those before it, if their seal fits."""
        running = self._running
        if running is None or (good is not None and good.proven):
            return good
        if good is not None:
            self._unproven.append(good)
        whole = data + b"\n"
        end = SEALED_END if good is not None and good.seal else 0
        running.update(whole[: len(whole) - end])
        self._position += size
        if good is not None and (compare_digest(good.seal, _digest(running)) if end else self._is_adopted()):
            for each in self._unproven:
                each.proven = True
            self._unproven.clear()
            if not end:
                good.adopted, good.seal = True, _digest(running)
        running.update(whole[len(whole) - end :])
        return good

    def _is_adopted(self) -> bool:
        adopted = self._adopted
        if adopted is None or self._running is None or adopted.size != self._position:
            return False
        return compare_digest(adopted.seal, self._running.hexdigest())


def _digest(running: Running) -> bytes:
    return running.hexdigest().encode()


def _in_order(whole: list[_Line], found: ScannedLog) -> list[_Line]:
    """By number, each number once. Of two lines with one number that counts which the chain knows."""
    ordered = sorted(whole, key=lambda each: each.record.seq)
    highest = 0
    for each in whole:
        found.moved += each.record.seq < highest
        highest = max(highest, each.record.seq)
    known = {each.after for each in whole}
    kept: list[_Line] = []
    for each in ordered:
        if kept and kept[-1].record.seq == each.record.seq:
            found.repeated += 1
            found.moved -= found.moved > 0
            if kept[-1].seal[:LINK] not in known and each.seal[:LINK] in known:
                kept[-1] = each
        else:
            kept.append(each)
    return kept


def _find_gaps(ordered: list[_Line], found: ScannedLog) -> None:
    last, seal = 0, FIRST
    for each in ordered:
        seq = each.record.seq
        skipped = seq - last - 1
        found.missing += skipped
        follows = not each.after or seal[:LINK] == each.after
        if skipped or not follows:
            found.gaps.add(seq)
            found.replaced += not skipped
        last, seal = seq, each.seal


def scan_live_file(fd: int) -> list[Record]:
    """The deltas of a live file share the number of their bundle."""
    return [good for data, _ in lines_of(fd) if (good := record(data)) is not None]


def lines_of(fd: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines with their size on disk; one that is too long counts, and is not kept."""
    parts: list[bytes] = []
    size = offset = 0
    while chunk := os.pread(fd, 1 << 20, offset):
        offset += len(chunk)
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            size += len(end) + 1
            whole = b"".join([*parts, end]) if parts else end
            yield (whole if size <= LINE_BYTES else b"", size)
            parts, size = [], 0
        size += len(rest)
        parts = [*parts, rest] if size <= LINE_BYTES else []
