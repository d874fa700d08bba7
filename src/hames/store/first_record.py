"""The second copy of what a log begins with, in `meta.json`: without its first line a log would be no thread."""

import msgspec

from hames.domain.events import Record, ThreadCreated
from hames.domain.ids import ThreadId
from hames.domain.value import Value
from hames.store.places import META
from hames.store.system_calls import read_small


class _Copy(Value):
    """What of `meta.json` it takes."""

    created: ThreadCreated | None = None
    created_at_ms: int = 0


_decode = msgspec.json.Decoder(_Copy).decode


def encode_first(first: ThreadCreated | None) -> bytes:
    """A further member of the object in `meta.json`."""
    return b',"created":' + msgspec.json.encode(first) if first is not None else b""


def read_first_record(thread_id: ThreadId, *, at: int) -> Record | None:
    """The log without its first line is foreign, so that nothing is granted by what somebody wrote here."""
    try:
        copy = _decode(read_small(META, at=at))
    except (OSError, msgspec.DecodeError, RecursionError):
        return None
    if copy.created is None:
        return None
    return Record(seq=1, at_ms=copy.created_at_ms, thread_id=thread_id, event=copy.created)
