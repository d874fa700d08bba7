"""Framing of the Language Server Protocol: a header with `Content-Length`, an empty line, then so many bytes."""

from hames.domain.errors import HarnessError

MAX_HEADER_BYTES = 4096
MAX_BODY_BYTES = 16 << 20


class BadFraming(HarnessError):
    """The other side does not keep to the framing, so nothing after this can be read."""


def encode_message(body: bytes) -> bytes:
    """
    >>> encode_message(b"{}")
    b'Content-Length: 2\\r\\n\\r\\n{}'
    """
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class ContentLengthDecoder:
    """Bytes in, whole bodies out, however the bytes were cut. It keeps one message at most.

    >>> decoder = ContentLengthDecoder()
    >>> decoder.feed(b"Content-Length: 2\\r\\n\\r\\n{"), decoder.feed(b"}")
    ([], [b'{}'])
    """

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._max_body_bytes = max_body_bytes
        self._buffer = bytearray()
        self._size: int | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Raises `BadFraming`."""
        self._buffer += data
        bodies: list[bytes] = []
        while self._size is not None or self._read_header():
            assert self._size is not None
            if len(self._buffer) < self._size:
                break
            bodies.append(bytes(self._buffer[: self._size]))
            del self._buffer[: self._size]
            self._size = None
        return bodies

    def _read_header(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", 0, MAX_HEADER_BYTES + 4)
        if end < 0:
            if len(self._buffer) > MAX_HEADER_BYTES:
                raise BadFraming(f"a header has at most {MAX_HEADER_BYTES} bytes")
            return False
        size = None
        for row in bytes(self._buffer[:end]).split(b"\r\n"):
            name, _, value = row.partition(b":")
            # isdigit of bytes is ASCII only. Ten digits are more than any limit, and int() of more is slow.
            if name.strip().lower() == b"content-length" and value.strip().isdigit() and len(value.strip()) <= 10:
                size = int(value)
        if size is None:
            raise BadFraming("a header names no Content-Length")
        if size > self._max_body_bytes:
            raise BadFraming(f"a message of {size:,} bytes is longer than {self._max_body_bytes:,}")
        del self._buffer[: end + 4]
        self._size = size
        return True
