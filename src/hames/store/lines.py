"""Encodes a record as a line of the log, with checksum and seal, and decodes and checks lines.

A line counts only with its newline and its checksum: plain JSON would accept
most flipped bits. The checksum is the last member, over everything before it. In a log of ours two members
stand before it: `after`, the beginning of the seal of the line before, and `seal` (see `seals`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec
from msgspec.structs import replace

from hames.deferred import constant, pattern
from hames.domain.events import ItemDelta, Record
from hames.store.seals import Running

LINE_BYTES = 64 << 20
"""A longer line is not ours."""
FIRST = b"0" * 32
"""What stands for the seal before the first line."""
LINK = 16
"""How much of a seal the next line repeats."""

_encode = msgspec.json.Encoder().encode
_records = constant(lambda: msgspec.json.Decoder(Record))
_CRC = len(b',"crc":"00000000"}')
_SEAL = len(b',"seal":"0123456789abcdef0123456789abcdef"')
_AFTER = len(b',"after":"0123456789abcdef"')
SEALED_END = _SEAL + _CRC + 1
"""How many bytes of a sealed line its own seal is not about."""
_PROVEN = _SEAL + _CRC
_BODY = _AFTER + _PROVEN
_JOINED = pattern(rb',"crc":"[0-9a-f]{8}"\}(.)(?=\{"seq":)', re.DOTALL)
"""Where two lines meet whose newline was damaged. A quote inside a text is escaped, so no text looks like this."""


class ProvenLine(NamedTuple):
    """A line of ours."""

    record: Record
    after: bytes
    seal: bytes


def line(record: Record) -> bytes:
    """A line without a seal."""
    body = _encode(record)[:-1]
    return body + f',"crc":"{crc32(body):08x}"}}\n'.encode()


def sealed_lines(records: Iterable[Record], base: Running, last_seal: bytes) -> tuple[bytes, bytes]:
    """Lines of a log of ours, behind the line with this seal; and the seal of the last of them."""
    lines: list[bytes] = []
    for each in records:
        body = b'%b,"after":"%b"' % (_encode(each)[:-1], last_seal[:LINK])
        running = base.copy()
        running.update(body)
        last_seal = running.hexdigest().encode()
        sealed = b'%b,"seal":"%b"' % (body, last_seal)
        lines.append(b'%b,"crc":"%08x"}\n' % (sealed, crc32(sealed)))
    return b"".join(lines), last_seal


def proven_line(data: bytes, base: Running) -> ProvenLine | None:
    """None: not ours, damaged, or of an earlier version. The checksum is not looked at: the seal says more.

    Raises `msgspec.DecodeError` for a line of ours that says something this version does not know.
    """
    if not data.startswith(b',"after":"', len(data) - _BODY):
        return None
    if (seal := _own_seal(data, base)) is None:
        return None
    return ProvenLine(_records.decode(data[:-_BODY] + b"}"), data[-_BODY + 10 : -_PROVEN - 1], seal)


def next_line(data: bytes, base: Running, last_seal: bytes) -> tuple[Record, bytes] | None:
    """The record and the seal of a line of ours that follows the one with this seal. None: it is not one.

    Raises as `proven_line` does.
    """
    if not data.startswith(b',"after":"%b"' % last_seal[:LINK], len(data) - _BODY):
        return None
    seal = _own_seal(data, base)
    return (_records.decode(data), seal) if seal is not None else None


def _own_seal(data: bytes, base: Running) -> bytes | None:
    running = base.copy()
    running.update(data[:-_PROVEN])
    seal = data[-_PROVEN + 9 : -_CRC - 1]
    return seal if seal == running.hexdigest().encode() else None


def joined_lines(data: bytes) -> Sequence[bytes]:
    """What a damaged line consists of, if it is several whose newlines were damaged."""
    parts: list[bytes] = []
    start = 0
    for found in _JOINED.finditer(data):
        parts.append(data[start : found.start(1)])
        start = found.end(1)
    return [*parts, data[start:]] if parts else ()


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
    """The seal of a whole line, of whatever kind; nothing where it has none."""
    end = data[-_SEAL - _CRC : -_CRC]
    return end[9:-1] if end.startswith(b',"seal":"') and end.endswith(b'"') else b""


def _is_whole(data: bytes) -> bool:
    return data[-_CRC:] == b',"crc":"%08x"}' % crc32(data[:-_CRC])


def _decode_record(data: bytes) -> Record | None:
    try:
        return _records.decode(data)
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
