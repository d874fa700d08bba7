"""Which threads run a turn, so that a server finds those of a killed process without reading every log.

An empty file for each, in the user's state directory: a repository cannot put one there and so have a turn continued.
A mark is only a hint: the log decides.
"""

import os
from contextlib import suppress

from hames.domain.ids import ThreadId
from hames.store.places import THREAD_ID, Claim, claimed_directory

_DIRECTORY = "running"


def mark_running(claim: Claim, thread_id: ThreadId) -> None:
    """Where nothing can be kept, a cut-off turn goes on when somebody opens its thread."""
    folder = claimed_directory(claim, _DIRECTORY)
    if folder is not None:
        with suppress(OSError):
            os.close(os.open(folder / thread_id, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def running_threads(claim: Claim | None) -> list[ThreadId]:
    if claim is None or claim.home is None:
        return []
    try:
        names = sorted(entry.name for entry in os.scandir(claim.home / _DIRECTORY))
    except OSError:  # nearly always: there is none
        return []
    return [ThreadId(name) for name in names if THREAD_ID.fullmatch(name)]


def unmark_running(claim: Claim | None, thread_id: ThreadId) -> None:
    if claim is not None and claim.home is not None:
        with suppress(OSError):
            (claim.home / _DIRECTORY / thread_id).unlink()
