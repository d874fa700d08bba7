"""The copy in `meta.json` of what decides in a thread: how its log begins, its settings, what was allowed for good.

With it a damaged log is what it was, less the damaged lines. It is one JSON text with a seal, because its bytes must
stay what was sealed, also when a later version has more members.
"""

import msgspec

from hames.deferred import constant
from hames.domain.authority import Authority
from hames.domain.events import Record, ThreadCreated
from hames.domain.ids import ThreadId
from hames.domain.value import Value
from hames.store.places import META, Claim
from hames.store.seals import Seals
from hames.store.system_calls import read_small


class _Copy(Value):
    created: ThreadCreated
    created_at_ms: int
    authority: Authority


class _Members(Value):
    """What of `meta.json` it takes. `created` is there without a seal as well: it is data, and better than nothing."""

    created: ThreadCreated | None = None
    created_at_ms: int = 0
    copy: str = ""
    copy_seal: str = ""


class MetaCopy(Value):
    first: Record | None = None
    authority: Authority | None = None
    """None: there is no copy that we sealed, and the settings in `first` are not used."""


_members = constant(lambda: msgspec.json.Decoder(_Members))
_copies = constant(lambda: msgspec.json.Decoder(_Copy))


def encode_copy(first: Record | None, authority: Authority | None, seals: Seals | None) -> bytes:
    """Further members of the object in `meta.json`. `seals` is None for a log that is not ours."""
    if first is None or not isinstance(first.event, ThreadCreated):
        return b""
    members = b',"created":' + msgspec.json.encode(first.event)
    if authority is None or seals is None:
        return members
    copy = msgspec.json.encode(_Copy(created=first.event, created_at_ms=first.at_ms, authority=authority))
    seal = _seal(seals, first.thread_id, copy)
    return members + b',"copy":' + msgspec.json.encode(copy.decode()) + b',"copy_seal":"%b"' % seal.encode()


def read_copy(thread_id: ThreadId, claim: Claim | None, *, at: int) -> MetaCopy:
    """`at` is the thread's directory."""
    from hmac import compare_digest

    try:
        members = _members.decode(read_small(META, at=at))
        data = members.copy.encode()
        if claim is not None and compare_digest(
            members.copy_seal.encode(), _seal(claim.seals, thread_id, data).encode()
        ):
            copy = _copies.decode(data)
            first = Record(seq=1, at_ms=copy.created_at_ms, thread_id=thread_id, event=copy.created)
            return MetaCopy(first=first, authority=copy.authority)
    except (OSError, msgspec.DecodeError, RecursionError, UnicodeError):
        return MetaCopy()
    if members.created is None:
        return MetaCopy()
    return MetaCopy(first=Record(seq=1, at_ms=members.created_at_ms, thread_id=thread_id, event=members.created))


def _seal(seals: Seals, thread_id: ThreadId, data: bytes) -> str:
    return seals.of(thread_id, b"copy\0" + data)
