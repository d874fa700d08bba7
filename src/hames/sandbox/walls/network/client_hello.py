"""The first message of a TLS connection: which server name the client asks for. Nothing is decrypted.

A tunnel to an allowed host must be used for that host. The name in the ClientHello is the one thing that says so
without opening the connection. It may arrive in any number of pieces.
"""

from collections.abc import Iterator

from hames.sandbox.walls.network.destinations import Malformed

HANDSHAKE = 22
LONGEST_HELLO = 64 * 1024
_CLIENT_HELLO = 1
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D
_LONGEST_RECORD = (1 << 14) + 256


class _Incomplete(Exception):
    """More bytes must come first."""


def asked_server_name(data: bytes) -> str | None:
    """The server name in lower case; None: more bytes are needed. Raises `Malformed` with the end of a sentence that
    begins with the destination."""
    try:
        return _server_name(_message(data))
    except _Incomplete:
        if len(data) > LONGEST_HELLO:
            raise Malformed("its first TLS message is too long") from None
        return None


def _message(data: bytes) -> bytes:
    """The body of the ClientHello, out of one or several records."""
    found = b""
    at = 0
    while True:
        if data[at : at + 1] not in (b"", bytes([HANDSHAKE])):
            raise Malformed("is used for something else than TLS")
        if len(data) < at + 5:
            raise _Incomplete
        size = int.from_bytes(data[at + 3 : at + 5], "big")
        if data[at + 1] != 3 or not 0 < size <= _LONGEST_RECORD:
            raise Malformed("is used for something else than TLS")
        found += data[at + 5 : at + 5 + size]
        if found[0:1] not in (b"", bytes([_CLIENT_HELLO])):
            raise Malformed("is used for something else than TLS")
        if len(found) >= 4 and len(found) >= 4 + int.from_bytes(found[1:4], "big"):
            return found[4 : 4 + int.from_bytes(found[1:4], "big")]
        if len(data) < at + 5 + size:
            raise _Incomplete
        at += 5 + size


def _server_name(hello: bytes) -> str:
    names: list[bytes] = []
    try:
        for kind, body in _extensions(hello):
            if kind == _ENCRYPTED_HELLO:
                raise Malformed("is asked for with an encrypted server name (ECH), which cannot be checked")
            if kind == _SERVER_NAME:
                names += list(_names(body))
    except IndexError:
        raise Malformed("has a broken first TLS message") from None
    if not names:
        raise Malformed("is asked for over TLS without a server name")
    if len(names) > 1:
        raise Malformed("is asked for over TLS with several server names")
    return names[0].decode("latin-1").lower().removesuffix(".")


def _extensions(hello: bytes) -> Iterator[tuple[int, bytes]]:
    """Raises `IndexError` where a length leads beyond the end."""
    _, rest = _cut(hello, 2 + 32)  # version, random
    for width in (1, 2, 1):  # session, ciphers, compression
        _, rest = _counted(rest, width)
    if not rest:
        return
    listed, rest = _counted(rest, 2)
    if rest:
        raise IndexError
    while listed:
        head, listed = _cut(listed, 2)
        body, listed = _counted(listed, 2)
        yield int.from_bytes(head, "big"), body


def _names(body: bytes) -> Iterator[bytes]:
    listed, rest = _counted(body, 2)
    if rest:
        raise IndexError
    while listed:
        _, listed = _cut(listed, 1)
        name, listed = _counted(listed, 2)
        yield name


def _counted(data: bytes, width: int) -> tuple[bytes, bytes]:
    head, rest = _cut(data, width)
    return _cut(rest, int.from_bytes(head, "big"))


def _cut(data: bytes, size: int) -> tuple[bytes, bytes]:
    if len(data) < size:
        raise IndexError
    return data[:size], data[size:]
