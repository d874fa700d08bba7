"""`meta.json`: the summary of a thread beside its log, sealed if the thread is ours."""

from contextlib import suppress

import msgspec
from msgspec.structs import replace

from hames.deferred import constant
from hames.domain.commands import ThreadSummary
from hames.domain.ids import ThreadId
from hames.domain.state import apply, blank, summary
from hames.domain.value import Value
from hames.private_files import descriptor
from hames.store.places import META, THREAD_ID, Claim
from hames.store.system_calls import directory, read_small

MOST_MS = 1 << 53
"""No clock shows a later time."""


class _Sealed(Value):
    """What `meta.json` says beside the summary. Without a valid seal it is somebody else's word."""

    seal: str = ""


_summaries = constant(lambda: msgspec.json.Decoder(ThreadSummary))
_seals = constant(lambda: msgspec.json.Decoder(_Sealed))


def encode_summary(summary: ThreadSummary, claim: Claim, copy: bytes) -> bytes:
    """What `meta.json` is to hold; sealed if the thread is ours. `copy`: further members, see `meta_copy`."""
    body = msgspec.json.encode(replace(summary, foreign=False, standing="away"))
    seal = b"" if summary.foreign else b',"seal":"%b"' % claim.seals.of(summary.id, body).encode()
    return body[:-1] + copy + seal + b"}"


def load_summary(name: str, claim: Claim | None, *, at: int) -> ThreadSummary | None:
    """From `meta.json`; where that is missing or damaged, from the log itself."""
    if not THREAD_ID.fullmatch(name):
        return None
    with suppress(OSError), descriptor(directory(name, at=at)) as thread:
        with suppress(OSError, msgspec.DecodeError, RecursionError):
            data = read_small(META, at=thread)
            found, sealed = _summaries.decode(data), _seals.decode(data)
            if found.id == name and all(0 <= ms <= MOST_MS for ms in (found.created_at_ms, found.updated_at_ms)):
                return _with_foreign(found, sealed.seal, claim)
        return _rebuild_summary(ThreadId(name), claim, at=thread)
    return None


def _with_foreign(found: ThreadSummary, seal: str, claim: Claim | None) -> ThreadSummary:
    """Whether it is foreign is for us to say. Only for lists: a log is looked at when it is opened."""
    from hmac import compare_digest

    found = replace(found, foreign=False, standing="away")
    if claim is None:
        ours = False
    elif seal:
        ours = compare_digest(seal.encode(), claim.seals.of(found.id, msgspec.json.encode(found)).encode())
    else:
        ours = found.id in claim.adopted
    return replace(found, foreign=not ours)


def _rebuild_summary(thread_id: ThreadId, claim: Claim | None, *, at: int) -> ThreadSummary | None:
    """Raises `OSError`."""
    from hames.store.reading import examine_log

    found = examine_log(thread_id, claim, at=at)
    state = blank(thread_id, foreign=found.foreign)
    for each in found.records:
        state = apply(state, each)
    return summary(state) if found.records else None
