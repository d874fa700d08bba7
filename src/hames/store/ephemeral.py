"""Which threads are ephemeral, so that those of a killed process are found without reading every log.

An empty file for each, in the user's state directory: a repository cannot put one there and so have a thread deleted.
"""

from contextlib import suppress

from hames.domain.ids import ThreadId
from hames.private_files import write_private
from hames.store.places import THREAD_ID, Claim, claimed_directory

_DIRECTORY = "ephemeral"


def mark_ephemeral(claim: Claim, thread_id: ThreadId) -> None:
    """Where nothing can be kept, a thread of a killed process stays until it is deleted by hand."""
    folder = claimed_directory(claim, _DIRECTORY)
    if folder is not None:
        with suppress(OSError):
            write_private(folder / thread_id, b"")


def marked_ephemeral(claim: Claim | None) -> list[ThreadId]:
    if claim is None or claim.home is None:
        return []
    try:
        names = [path.name for path in (claim.home / _DIRECTORY).iterdir()]
    except OSError:  # nearly always: there is none
        return []
    return [ThreadId(name) for name in names if THREAD_ID.fullmatch(name)]


def remove_mark(claim: Claim | None, thread_id: ThreadId) -> None:
    if claim is not None and claim.home is not None:
        with suppress(OSError):
            (claim.home / _DIRECTORY / thread_id).unlink()
