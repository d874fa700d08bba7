"""What is wrong with a thread's log, in words. Nothing is changed."""

import os

from hames.domain.events import ThreadCreated
from hames.domain.ids import ThreadId
from hames.domain.value import Value
from hames.private_files import descriptor
from hames.store.first_record import read_first_record
from hames.store.places import EVENTS, Claim
from hames.store.scan import scan_log, verify_seal
from hames.store.system_calls import open_plain


class LogHealth(Value):
    """`problems` are empty for a log that is whole, or was mended: damaged lines stay where they are."""

    thread_id: ThreadId
    records: int = 0
    problems: tuple[str, ...] = ()
    foreign: bool = False
    """Not written by this user on this machine, all of it; a damaged log of one's own counts as such."""


def check_log(thread_id: ThreadId, claim: Claim | None, *, at: int) -> LogHealth:
    """`at` is the thread's directory."""
    try:
        log = open_plain(EVENTS, at=at)
    except OSError as failure:
        return LogHealth(thread_id=thread_id, problems=(f"there is no log: {failure.strerror}",))
    with descriptor(log) as fd:
        size = os.fstat(fd).st_size
        found = scan_log(fd)
        foreign = verify_seal(fd, found, thread_id, claim) is None
    problems: list[str] = []
    told = bool(found.damage) and found.damage_was_told
    if not told and (not found.records or not isinstance(found.records[0].event, ThreadCreated)):
        copy = read_first_record(thread_id, at=at)
        problems.append("the first line is missing" + ("; meta.json has a copy" if copy else ", and there is no copy"))
    if found.damage and not told:
        problems.append(found.damage)
    if found.good_bytes < size:
        problems.append(f"the last {size - found.good_bytes} bytes are not a whole line")
    if found.newer:
        problems.append("a newer version of hames wrote it: it can be read here, not continued")
    return LogHealth(thread_id=thread_id, records=len(found.records), problems=tuple(problems), foreign=foreign)
