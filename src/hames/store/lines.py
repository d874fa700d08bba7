"""A record as a line of the log, and lines as records.

A line counts only with its newline and its checksum: plain JSON would accept
most flipped bits. The checksum is the last member, over everything before it.
"""

from collections.abc import Iterable, Iterator
from zlib import crc32

import msgspec
from msgspec.structs import replace

from hames.domain.events import ItemDelta, Record

LINE_BYTES = 64 << 20
"""A longer line is not ours."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode
_SEAL = len(b',"crc":"00000000"}')


def line(record: Record) -> bytes:
    body = _encode(record)[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def record(data: bytes) -> Record | None:
    """None for a line that is damaged, or says something this version does not know."""
    if not _sealed(data):
        return None
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def unknown(data: bytes) -> bool:
    """A whole line of ours that says something this version does not know."""
    return _sealed(data) and record(data) is None


def _sealed(data: bytes) -> bool:
    return data[-_SEAL:-10] == b',"crc":"' and data[-10:-2] == b"%08x" % crc32(data[:-_SEAL])


def merged(records: Iterable[Record]) -> Iterator[Record]:
    """Neighbouring deltas of one stream as one, under the number the bundle has."""
    last: Record | None = None
    parts: list[str] = []

    def bundle(whole: Record) -> Record:
        return replace(whole, event=replace(whole.event, text="".join(parts))) if parts else whole

    for each in records:
        if last is not None and same_stream(last, each):
            parts.append(each.event.text)  # type: ignore[union-attr] - both are deltas
            continue
        if last is not None:
            yield bundle(last)
        last, parts = each, [each.event.text] if isinstance(each.event, ItemDelta) else []
    if last is not None:
        yield bundle(last)


def same_stream(one: Record, other: Record) -> bool:
    a, b = one.event, other.event
    return isinstance(a, ItemDelta) and isinstance(b, ItemDelta) and (a.item_id, a.stream) == (b.item_id, b.stream)
