"""What a thread's log says: its lines, what closes the gaps in it, and what was told but not yet written."""

from dataclasses import dataclass, field
from typing import Literal

from hames.domain.authority import Authority, authority_after, withdrawn
from hames.domain.damaged_logs import close_what_is_open
from hames.domain.events import Record, SettingsChanged, ThreadCreated
from hames.domain.ids import ThreadId
from hames.ports import Examined
from hames.private_files import descriptor
from hames.store.lines import merge_deltas, read_live_records
from hames.store.meta_copy import MetaCopy, read_copy
from hames.store.places import EVENTS, LIVE, Claim, live_digest
from hames.store.scan import ScannedLog, lines_of, scan_live_file, scan_log
from hames.store.system_calls import find_plain, open_plain

LINES_PROVE_THEMSELVES = 3
"""The first format whose lines do."""
CHOOSE_AGAIN = (
    "a lost line may have taken a permission back, so this thread asks about everything and writes nothing"
    " until you choose again"
)

EARLIER_FORMAT = (
    "this log of an earlier version cannot prove line by line that you wrote it, so it counts as somebody else's now:"
    " its settings and permissions are ignored, and your defaults apply"
)


@dataclass
class ReadLog:
    scanned: ScannedLog
    foreign: bool
    records: list[Record]
    """With what closes what damaged lines left open."""
    added: list[Record] = field(default_factory=list[Record])
    """What the log should have behind them: it is written when the log is opened for writing."""
    first: Literal["there", "copied", "missing"] = "there"
    """The record that makes it a thread: in the log, taken from `meta.json`, or lost."""
    settled: str = ""
    """What was decided about settings and permissions because lines are lost, for the user."""

    @property
    def everything(self) -> list[Record]:
        return self.records + self.added


def read_log(fd: int, thread_id: ThreadId, claim: Claim | None, *, at: int, live: str = LIVE) -> ReadLog:
    """Nothing is changed. `at` is the thread's directory, `live` the name of its live file."""
    copy = read_copy(thread_id, claim, at=at)  # first: another process may be writing, and the log has it before
    scanned = scan_log(fd, thread_id, claim)
    found = ReadLog(scanned, scanned.foreign, scanned.records)
    _restore_first_record(found, copy)
    last = found.everything[-1].seq if found.everything else 0
    if copy.authority is not None and not found.foreign:
        scanned.lost_at_end = max(0, copy.authority.seq - last)
    if scanned.damage:
        found.records = close_what_is_open(found.records, scanned.gaps)
    found.added += unsaved_records(found, thread_id, claim, at=at, name=live)
    if found.foreign and scanned.bad_lines and not scanned.damage_was_told and _is_of_earlier_format(found):
        found.settled = EARLIER_FORMAT
    if not found.foreign and found.everything and _lost_lines(scanned):
        _settle_authority(found, copy)
    return found


def _restore_first_record(found: ReadLog, copy: MetaCopy) -> None:
    """Without its first line a log would be no thread. What is not sealed is somebody else's word."""
    records = found.records
    if records and (records[0].seq == 1 or isinstance(records[0].event, ThreadCreated)):
        return
    if not records and not found.scanned.bytes_read and copy.authority is None:  # killed before it wrote anything
        return
    found.foreign = found.foreign or copy.authority is None
    found.first = "missing" if copy.first is None else "copied"
    if copy.first is not None:
        (records or found.added).insert(0, copy.first)


def _is_of_earlier_format(found: ReadLog) -> bool:
    first = found.everything[0].event if found.everything else None
    return isinstance(first, ThreadCreated) and first.format < LINES_PROVE_THEMSELVES


def _lost_lines(scanned: ScannedLog) -> bool:
    """Whether lines are missing, and no earlier opening has settled what that means."""
    if scanned.bad_at_end:
        return True
    return bool(scanned.gaps or scanned.lost_at_end) and not scanned.damage_was_told


def _settle_authority(found: ReadLog, copy: MetaCopy) -> None:
    """Settings and permissions are written down anew: as they were if that is known, else withdrawn."""
    scanned, everything = found.scanned, found.everything
    last_gap = max(scanned.gaps, default=1)
    needed = max(
        last_gap - 1, found.records[-1].seq + scanned.bad_at_end if found.records and scanned.bad_at_end else 0
    )
    known = copy.authority if copy.authority is not None and copy.authority.seq >= needed else None
    authority: Authority | None = known
    stated = known is not None
    for record in everything:
        if known is None or record.seq > known.seq:
            authority = authority_after(authority, record)
            stated = stated or (record.seq >= last_gap > 1 and isinstance(record.event, SettingsChanged))
    if authority is None:
        return
    event = SettingsChanged(settings=authority.settings, grants=authority.grants)
    if known is None and scanned.bad_at_end:
        event, stated = withdrawn(authority.settings), False
    found.settled = "" if stated else CHOOSE_AGAIN
    last = everything[-1]
    found.added.append(Record(seq=last.seq + 1, at_ms=last.at_ms, thread_id=last.thread_id, event=event))


def unsaved_records(found: ReadLog, thread_id: ThreadId, claim: Claim | None, *, at: int, name: str) -> list[Record]:
    """What was told and is not in the log yet. Beside a log of ours only what we jotted ourselves."""
    everything = found.everything
    live, after = find_plain(name, at=at), everything[-1].seq if everything else 0
    if live is None:
        return []
    with descriptor(live) as fd:
        if found.foreign or claim is None:
            records = scan_live_file(fd)
        elif found.scanned.adopted:
            adopted = claim.adopted.get(thread_id)
            known = adopted is not None and adopted.live and adopted.live == live_digest(at)
            records = scan_live_file(fd) if known else []
        else:
            running = claim.seals.live(thread_id, found.scanned.last_seal)
            records = list(read_live_records((data for data, _ in lines_of(fd)), running))
        return list(merge_deltas(each for each in records if each.seq > after))


def examine_log(thread_id: ThreadId, claim: Claim | None, *, at: int) -> Examined:
    """Nothing is changed."""
    with descriptor(open_plain(EVENTS, at=at)) as fd:
        found = read_log(fd, thread_id, claim, at=at)
    return Examined(records=found.everything, foreign=found.foreign)
