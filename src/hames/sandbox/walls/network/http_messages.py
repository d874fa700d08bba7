"""HTTP/1.1 heads as a proxy must read them: strictly, because the next reader may read a doubtful one differently.

Bytes in, values out; nothing here waits. A head that two programs could take for two different requests (two lengths,
a folded line, a bare line feed, a space before the colon) is `Malformed`.
"""

import re
from collections.abc import Iterable

from hames.domain.value import Value
from hames.sandbox.walls.network.destinations import Destination, Malformed, parse_authority

HEAD_BYTES = 64 * 1024
_CHUNK_LINE_BYTES = 256
_HEADERS = 256

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[\t\x20-\x7e\x80-\xff]*)?")

_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authentication-info proxy-authorization proxy-connection te "
    b"trailer upgrade".split()
)

Headers = tuple[tuple[bytes, bytes], ...]


class ProxyRequest(Value):
    method: bytes
    target: bytes
    version: bytes
    headers: Headers
    length: int | None
    """The bytes of the body; None: it comes in chunks."""


class ProxyResponse(Value):
    status: int
    line: bytes
    headers: Headers


def find_head(received: bytes) -> int:
    """Where a head ends in what was received, after its empty line; 0: not yet. Raises `Malformed`."""
    end = received.find(b"\r\n\r\n")
    head = received[:end] if end >= 0 else received
    if head.count(b"\n") != head.count(b"\r\n"):
        raise Malformed("a line of the head ends with a bare line feed")
    if end > HEAD_BYTES or (end < 0 and len(received) > HEAD_BYTES):
        raise Malformed(f"the head is longer than {HEAD_BYTES} bytes")
    return end + 4 if end >= 0 else 0


def parse_request(head: bytes) -> ProxyRequest:
    """A whole head, with its empty line. Raises `Malformed`."""
    line, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or not _TARGET.fullmatch(words[1]):
        raise Malformed("the first line is not a request")
    method, target, version = words
    if version not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise Malformed("the version is not HTTP/1.0 or HTTP/1.1")
    headers = _parse_headers(lines)
    if sum(name == b"host" for name, _ in headers) > 1:
        raise Malformed("there is more than one Host")
    length = _body_length(headers, version)
    return ProxyRequest(method=method, target=target, version=version, headers=headers, length=length)


def parse_response(head: bytes) -> ProxyResponse:
    """Raises `Malformed`."""
    line, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = re.fullmatch(rb"HTTP/1\.[01] ([1-9][0-9]{2})( [\t\x20-\x7e\x80-\xff]*)?", line)
    if found is None:
        raise Malformed("the answer does not begin with a status")
    return ProxyResponse(status=int(found[1]), line=line, headers=_parse_headers(lines))


def _parse_headers(lines: Iterable[bytes]) -> Headers:
    """Names in lower case."""
    headers: list[tuple[bytes, bytes]] = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(name):
            raise Malformed("a line of the head is not a header")
        if not _VALUE.fullmatch(value):
            raise Malformed("a header has a control character")
        headers.append((name.lower(), value.strip(b" \t")))
    if len(headers) > _HEADERS:
        raise Malformed(f"there are more than {_HEADERS} headers")
    return tuple(headers)


def _body_length(headers: Headers, version: bytes) -> int | None:
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if codings:
        if lengths or codings != [b"chunked"] or version == b"HTTP/1.0":
            raise Malformed("the length of the body is said in two ways, or in an unknown one")
        return None
    if len(lengths) > 1 or (lengths and not re.fullmatch(rb"[0-9]{1,15}", lengths[0])):
        raise Malformed("the length of the body is said twice, or is no number")
    return int(lengths[0]) if lengths else 0


def parse_url(target: bytes) -> tuple[Destination, bytes]:
    """The destination of an `http://` address and the path to ask it for. Raises `Malformed`."""
    scheme, separator, rest = target.decode("ascii").partition("://")
    if not separator or target.startswith(b"/"):
        raise Malformed("this is a proxy: a request names a whole address, http://host/path")
    if scheme.lower() != "http":
        raise Malformed("only http:// addresses are asked for directly; use CONNECT for others")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    path = rest[len(authority) :]
    if "@" in authority or "#" in path:
        raise Malformed("the address has a user name or a fragment")
    if not path.startswith("/"):
        path = f"/{path}"
    return parse_authority(authority, port=80), path.encode("ascii")


def forwarded_request(request: ProxyRequest, destination: Destination, target: bytes, *, extra: Headers = ()) -> bytes:
    """The head that goes on: our own `Host` and framing, nothing that was meant for a proxy, one request only."""
    host = str(destination).removesuffix(":80").encode("ascii")
    dropped = _named_by_connection(request.headers) | {b"host", b"content-length", b"transfer-encoding"}
    kept = [pair for pair in request.headers if pair[0] not in _HOP_BY_HOP | dropped]
    if request.length is None:
        kept.append((b"transfer-encoding", b"chunked"))
    elif request.length or any(name == b"content-length" for name, _ in request.headers):
        kept.append((b"content-length", b"%d" % request.length))
    return encode_head(
        b"%b %b %b" % (request.method, target, request.version),
        ((b"host", host), *kept, *extra, (b"connection", b"close")),
    )


def forwarded_response(response: ProxyResponse) -> bytes:
    """The head that goes back. A final one says that the connection ends with it; an interim one does not."""
    dropped = _named_by_connection(response.headers) - {b"content-length", b"transfer-encoding"}
    kept = [pair for pair in response.headers if pair[0] not in _HOP_BY_HOP | dropped]
    return encode_head(response.line, (*kept, *(() if response.status < 200 else ((b"connection", b"close"),))))


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    values = b",".join(value for name, value in headers if name == b"connection")
    return frozenset(word.strip(b" \t").lower() for word in values.split(b","))


def encode_head(line: bytes, headers: Headers) -> bytes:
    return line + b"\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in headers) + b"\r\n"


class ChunkedBody:
    """Follows a body that comes in chunks, to know where it ends.

    >>> body = ChunkedBody()
    >>> body.feed(b"3\\r\\nabc\\r\\n0\\r\\n"), body.ended
    (b'3\\r\\nabc\\r\\n', False)
    >>> body.feed(b"\\r\\nGET http://elsewhere/"), body.ended
    (b'0\\r\\n\\r\\n', True)
    """

    def __init__(self) -> None:
        self.ended = False
        self._left = 0
        """Bytes of this chunk that have not come yet, with the line break behind them."""
        self._line = b""
        self._last = False

    def feed(self, data: bytes) -> bytes:
        """What of it belongs to the body, in our own framing. Raises `Malformed`."""
        out: list[bytes] = []
        while data and not self.ended:
            if self._left:
                data = self._take_chunk(data, out)
                continue
            self._line += data
            line, found, data = self._line.partition(b"\n")
            if not found:
                if len(line) > _CHUNK_LINE_BYTES:
                    raise Malformed("the length of a chunk is too long a line")
                break
            self._line = b""
            if not line.endswith(b"\r"):
                raise Malformed("a line of the body ends with a bare line feed")
            self._take_line(line[:-1], out)
        return b"".join(out)

    def _take_chunk(self, data: bytes, out: list[bytes]) -> bytes:
        taken, rest = data[: self._left], data[self._left :]
        at_end = self._left - len(taken)
        # The last two bytes of what is left are the line break, which may be cut in two.
        for offset, expected in ((2, b"\r"), (1, b"\n")):
            place = self._left - offset
            if 0 <= place < len(taken) and taken[place : place + 1] != expected:
                raise Malformed("a chunk is not as long as it says")
        self._left = at_end
        out.append(taken)
        return rest

    def _take_line(self, line: bytes, out: list[bytes]) -> None:
        if self._last:
            if line:
                raise Malformed("headers after the body are not taken")
            self.ended = True
            out.append(b"0\r\n\r\n")
            return
        found = _CHUNK_LINE.fullmatch(line)
        if found is None:
            raise Malformed("the length of a chunk is not a number")
        size = int(found[1], 16)
        if size == 0:
            self._last = True
        else:
            self._left = size + 2
            out.append(b"%x\r\n" % size)
