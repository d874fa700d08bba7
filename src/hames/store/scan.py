"""Reading a thread's log: whole lines, a torn tail, whether it is ours, and what was told but not yet written."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from hmac import compare_digest

from hames.domain.damaged_logs import close_what_is_open
from hames.domain.events import FORMAT, REPAIRED, Noticed, Record, ThreadCreated
from hames.domain.ids import ThreadId
from hames.ports import Examined
from hames.private_files import descriptor
from hames.store.first_record import read_first_record
from hames.store.lines import LINE_BYTES, SEALED_END, merge_deltas, read_live_records, record, seal_of, unknown
from hames.store.places import EVENTS, LIVE, Claim, live_digest
from hames.store.seals import Running, chunks
from hames.store.system_calls import find_plain, open_plain


@dataclass
class ScannedLog:
    records: list[Record] = field(default_factory=list[Record])
    good_bytes: int = 0
    bytes_read: int = 0
    last_line: bytes = b""
    bad_lines: int = 0
    repeated: int = 0
    """Lines with a number that was there before: somebody copied or moved them."""
    missing: int = 0
    """Numbers that no line has."""
    newer: bool = False

    @property
    def damage(self) -> str:
        """In words; nothing where all is well."""
        counts = (
            (self.bad_lines, "damaged line was skipped", "damaged lines were skipped"),
            (self.repeated, "repeated line was skipped", "repeated lines were skipped"),
            (self.missing - self.bad_lines, "record is missing", "records are missing"),
        )
        return ", ".join(f"{count} {one if count == 1 else more}" for count, one, more in counts if count > 0)

    @property
    def damage_was_told(self) -> bool:
        """Whether an earlier opening has said so: damaged lines stay where they are."""
        notices = [one.event for one in self.records if isinstance(one.event, Noticed)]
        return any(notice.name == REPAIRED and self.damage in notice.message for notice in notices)


def scan_log(fd: int, *, live: bool = False) -> ScannedLog:
    """Every good record, and where the last one ends. Damaged lines in the middle are passed over.

    The deltas of a `live` file share the number of their bundle; in a log every number is there once.
    """
    found = ScannedLog()
    position = pending_bad = last = 0
    for data, size in _lines(fd):
        position += size
        good = record(data) if data else None
        if good is None:
            pending_bad += 1
            found.newer = found.newer or unknown(data)
            continue
        if found.records and good.seq <= last and not live:
            found.repeated += 1
            found.good_bytes, found.last_line = position, data
            continue
        found.missing += good.seq - last - 1
        last = good.seq
        found.newer = found.newer or (isinstance(good.event, ThreadCreated) and good.event.format > FORMAT)
        found.records.append(good)
        found.good_bytes, found.last_line = position, data
        found.bad_lines += pending_bad
        pending_bad = 0
    found.bytes_read = position
    if found.damage and not live:
        found.records = close_what_is_open(found.records)
    return found


def restore_first_record(found: ScannedLog, thread_id: ThreadId, *, at: int) -> Record | None:
    """Puts the first record back where its line is damaged. Returns it if nothing else is left of the log."""
    if found.records and isinstance(found.records[0].event, ThreadCreated):
        return None
    if not found.records and not found.bytes_read:  # killed before it wrote anything
        return None
    if (first := read_first_record(thread_id, at=at)) is None:
        return None
    found.records.insert(0, first)
    return first if len(found.records) == 1 else None


def verify_seal(fd: int, found: ScannedLog, thread_id: ThreadId, claim: Claim | None) -> Running | None:
    """The hash of a log that is ours, up to its last whole line. None: it is foreign.

    What comes after the last whole line is a torn tail, whoever tore it: it is not read.
    """
    if claim is None:
        return None
    running, seal = claim.seals.log(thread_id), seal_of(found.last_line)
    sealed = found.good_bytes - SEALED_END if seal else found.good_bytes
    for chunk in chunks(fd, 0, sealed):
        running.update(chunk)
    if seal:
        ours = compare_digest(seal, running.hexdigest().encode())
        running.update(found.last_line[-SEALED_END + 1 :] + b"\n")
    else:
        adopted = claim.adopted.get(thread_id)
        ours = not found.good_bytes or (
            adopted is not None
            and adopted.size == found.good_bytes
            and compare_digest(adopted.seal, running.hexdigest())
        )
    return running if ours else None


def _lines(fd: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines with their size on disk; one that is too long counts, and is not kept."""
    parts: list[bytes] = []
    size = offset = 0
    while chunk := os.pread(fd, 1 << 20, offset):
        offset += len(chunk)
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            size += len(end) + 1
            yield (b"".join([*parts, end]) if size <= LINE_BYTES else b"", size)
            parts, size = [], 0
        size += len(rest)
        parts = [*parts, rest] if size <= LINE_BYTES else []


def unsaved_records(
    found: ScannedLog, thread_id: ThreadId, claim: Claim | None, running: Running | None, *, at: int
) -> list[Record]:
    """What was told and is not in the log yet. Beside a log of ours only what we jotted ourselves."""
    live, after = find_plain(LIVE, at=at), found.records[-1].seq if found.records else 0
    if live is None:
        return []
    with descriptor(live) as fd:
        if running is None or claim is None:
            records = scan_log(fd, live=True).records
        elif (adopted := claim.adopted.get(thread_id)) is not None and not seal_of(found.last_line):
            records = scan_log(fd, live=True).records if adopted.live and adopted.live == live_digest(at) else []
        else:
            records = list(read_live_records((data for data, _ in _lines(fd)), claim.seals.live(thread_id, running)))
        return list(merge_deltas(each for each in records if each.seq > after))


def examine_log(thread_id: ThreadId, claim: Claim | None, *, at: int) -> Examined:
    """Nothing is changed."""
    with descriptor(open_plain(EVENTS, at=at)) as fd:
        found = scan_log(fd)
        running = verify_seal(fd, found, thread_id, claim)
    restore_first_record(found, thread_id, at=at)
    records = found.records + unsaved_records(found, thread_id, claim, running, at=at)
    return Examined(records=records, foreign=running is None)
