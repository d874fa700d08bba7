"""What is wrong with a thread's log, in words. Nothing is changed."""

import os

from hames.domain.ids import ThreadId
from hames.domain.value import Value
from hames.private_files import descriptor
from hames.store.places import EVENTS, Claim
from hames.store.reading import read_log
from hames.store.system_calls import open_plain


class LogHealth(Value):
    """`problems` are empty for a log that is whole, or was mended: damaged lines stay where they are."""

    thread_id: ThreadId
    records: int = 0
    problems: tuple[str, ...] = ()
    foreign: bool = False
    """Not written by this user on this machine, all of it."""


def check_log(thread_id: ThreadId, claim: Claim | None, *, at: int) -> LogHealth:
    """`at` is the thread's directory."""
    try:
        log = open_plain(EVENTS, at=at)
    except OSError as failure:
        return LogHealth(thread_id=thread_id, problems=(f"there is no log: {failure.strerror}",))
    with descriptor(log) as fd:
        size = os.fstat(fd).st_size
        read = read_log(fd, thread_id, claim, at=at)
    found, problems = read.scanned, list[str]()
    told = bool(found.damage) and found.damage_was_told
    if read.first != "there" and not told:
        copied = "; meta.json has a copy" if read.first == "copied" else ", and there is no copy"
        problems.append("the first line is missing" + copied)
    if found.damage and not told:
        problems.append(found.damage)
    if found.good_bytes < size:
        problems.append(f"the last {size - found.good_bytes} bytes are not a whole line")
    if found.newer:
        problems.append("a newer version of hames wrote it: it can be read here, not continued")
    return LogHealth(thread_id=thread_id, records=len(found.records), problems=tuple(problems), foreign=read.foreign)
