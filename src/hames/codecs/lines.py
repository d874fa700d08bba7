"""Framing of JSON lines: splits bytes at LF, limits a line's length, and does no I/O.

Lines end at LF and only at LF. `str.splitlines` would also split on U+2028,
which is legal inside a JSON string; that bug has shipped in other harnesses.
"""

from hames.domain.value import Value

MAX_LINE_BYTES = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r"


HEAD_BYTES = 512


class TooLong(Value):
    """Stands where a line was that is over the limit. Its bytes are gone, except the first."""

    limit: int
    head: bytes = b""


Line = bytes | TooLong


class LineDecoder:
    """Feed it chunks, take out lines.

    Blank lines are skipped, and so is a byte order mark before the first one. A line over
    the limit is reported once, as soon as it is known, and never held in memory.

    >>> decoder = LineDecoder()
    >>> decoder.feed(b'{"a":')
    []
    >>> decoder.feed(b'1}\\n{"b":2}\\n')
    [b'{"a":1}', b'{"b":2}']
    >>> decoder.feed(b'{"c":3}')
    []
    >>> decoder.end()
    [b'{"c":3}']
    """

    def __init__(self, *, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._parts: list[
            bytes
        ] = []  # of the line under way; joined once, so a long line costs no more than its length
        self._size = 0
        self._skipping = False
        self._first = True

    def feed(self, chunk: bytes) -> list[Line]:
        lines: list[Line] = []
        head, *rest = chunk.split(b"\n")
        self._extend(head, lines)
        for part in rest:
            self._finish(lines)
            self._extend(part, lines)
        return lines

    def end(self) -> list[Line]:
        """What is left when no more bytes come: a last line needs no LF."""
        lines: list[Line] = []
        self._finish(lines)
        return lines

    def _extend(self, part: bytes, lines: list[Line]) -> None:
        if self._skipping or not part:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit:
            self._skipping = True
            kept = min(HEAD_BYTES, self._limit)  # so much has come, however it was cut
            head = b"".join(one[:kept] for one in self._parts[:kept])[:kept]
            self._parts.clear()
            lines.append(TooLong(limit=self._limit, head=head))

    def _finish(self, lines: list[Line]) -> None:
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self._first:
            line = line.removeprefix(_BOM)
        self._skipping = self._first = False
        if line.strip(_BLANK):
            lines.append(line.removesuffix(b"\r"))


def encode_line(text: bytes) -> bytes:
    """One JSON text as a line. JSON escapes LF inside strings, so a text never contains one."""
    return text + b"\n"
