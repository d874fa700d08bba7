"""A record as a line of the log, and lines as records.

A line counts only with its newline and its checksum: plain JSON would accept
most flipped bits. The checksum is the last member, over everything before it. In a log of ours the
seal stands before it (see `seals`).
"""

from collections.abc import Iterable, Iterator
from zlib import crc32

import msgspec
from msgspec.structs import replace

from hames.domain.events import ItemDelta, Record
from hames.store.seals import Running

LINE_BYTES = 64 << 20
"""A longer line is not ours."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode
_CRC = len(b',"crc":"00000000"}')
_SEAL = len(b',"seal":"0123456789abcdef0123456789abcdef"')
SEALED_END = _SEAL + _CRC + 1
"""How many bytes of a sealed line its own seal is not about."""


def line(record: Record) -> bytes:
    """A line without a seal."""
    body = _encode(record)[:-1]
    return body + f',"crc":"{crc32(body):08x}"}}\n'.encode()


def sealed_line(record: Record, running: Running) -> bytes:
    """A line of a log of ours. `running` has seen the log so far, and this line as well afterwards."""
    body = _encode(record)[:-1]
    running.update(body)
    seal = f',"seal":"{running.hexdigest()}"'.encode()
    end = seal + f',"crc":"{crc32(seal, crc32(body)):08x}"}}\n'.encode()
    running.update(end)
    return body + end


def live_line(record: Record, running: Running) -> bytes:
    """A line of a live file of ours: sealed, and without a checksum because there are many of them."""
    body = _encode(record)[:-1]
    running.update(body)
    return body + f',"seal":"{running.hexdigest()}"}}\n'.encode()


def read_live_records(lines: Iterable[bytes], running: Running) -> Iterator[Record]:
    """The records of a live file that were jotted by us, in the order in which we did. The rest is passed over."""
    for data in lines:
        running, found = live_record(data, running)
        if found is not None:
            yield found


def live_record(data: bytes, running: Running) -> tuple[Running, Record | None]:
    """One line of a live file, and the hash behind it. None: it was not jotted by us behind what `running` has seen."""
    body, seal = data[: -_SEAL - 1], data[-_SEAL - 1 : -1]
    further = running.copy()
    further.update(body)
    if seal == b',"seal":"%b"' % further.hexdigest().encode() and (found := _decode_record(data)) is not None:
        return further, found
    return running, None


def record(data: bytes) -> Record | None:
    """None for a line that is damaged, or says something this version does not know."""
    return _decode_record(data) if _is_whole(data) else None


def unknown(data: bytes) -> bool:
    """A whole line of ours that says something this version does not know."""
    return _is_whole(data) and record(data) is None


def seal_of(data: bytes) -> bytes:
    """The seal of a whole line; nothing where it has none."""
    end = data[-_SEAL - _CRC : -_CRC]
    return end[9:-1] if end.startswith(b',"seal":"') and end.endswith(b'"') else b""


def _is_whole(data: bytes) -> bool:
    return data[-_CRC:] == b',"crc":"%08x"}' % crc32(data[:-_CRC])


def _decode_record(data: bytes) -> Record | None:
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def merge_deltas(records: Iterable[Record]) -> Iterator[Record]:
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
