"""Server-sent events, read and written, with no idea where the bytes come from.

An event is its name and its data, both as bytes: cutting never falls into a UTF-8
character that way. Lines end with LF, CR or CRLF, even mixed, as the standard says.
"""

Event = tuple[bytes, bytes]
"""Name (empty when the stream gave none) and data."""

EVENT_BYTES = 10 * 1024 * 1024
BOM = b"\xef\xbb\xbf"


class EventTooLong(ValueError):
    """One event is longer than the limit."""


class SseDecoder:
    """Feed it chunks, take out events.

    >>> decoder = SseDecoder()
    >>> decoder.feed(b"event: ping\\ndata: {")
    []
    >>> decoder.feed(b"}\\n\\n: a comment\\n\\ndata: 1\\ndata: 2\\n")
    [(b'ping', b'{}')]
    >>> decoder.finish()
    [(b'', b'1\\n2')]
    """

    def __init__(self, *, event_bytes: int = EVENT_BYTES) -> None:
        self._event_bytes = event_bytes
        self._rest = bytearray()
        self._begun = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Raises `EventTooLong`."""
        rest = self._rest
        if not self._begun:
            rest += chunk
            if len(rest) < len(BOM) and BOM.startswith(rest):
                return []
            chunk, self._begun = bytes(rest).removeprefix(BOM), True
            rest.clear()
        if b"\r" in chunk or rest.endswith(b"\r"):
            chunk = self._with_plain_ends(chunk)
        if rest:
            seen = len(rest)
            rest += chunk
            end = rest.rfind(b"\n\n", seen - 1)
            whole = bytes(rest[:end]) if end >= 0 else b""
            del rest[: end + 2 if end >= 0 else 0]
        else:  # most chunks hold whole events
            end = chunk.rfind(b"\n\n")
            whole = chunk[:end] if end >= 0 else b""
            rest += chunk[end + 2 if end >= 0 else 0 :]
        if len(rest) > self._event_bytes:
            raise EventTooLong(f"an event of more than {self._event_bytes} bytes")
        return [event for block in whole.split(b"\n\n") if (event := _event(block))] if whole else []

    def finish(self) -> list[Event]:
        """What was left without a blank line after it. The stream is over."""
        block = bytes(self._rest).replace(b"\r", b"\n")
        self._rest.clear()
        event = _event(block)
        return [event] if event else []

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        # A CR at the end may be half of a CRLF, so it waits for what follows.
        if self._rest.endswith(b"\r"):
            del self._rest[-1]
            chunk = b"\r" + chunk
        waits = b"\r" if chunk.endswith(b"\r") else b""
        return chunk[: len(chunk) - len(waits)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + waits


def _event(block: bytes) -> Event | None:
    head, mark, data = block.partition(b"\ndata: ")
    if mark and b"\n" not in data and head.startswith(b"event: ") and b"\n" not in head:
        return head[7:], data  # by far the most frequent shape
    name, lines = b"", list[bytes]()
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value
    return (name, b"\n".join(lines)) if lines else None


def event(data: bytes, *, name: str = "", event_id: str = "") -> bytes:
    """One event. `data` is a JSON text, which contains no line break.

    >>> event(b"{}", name="ping", event_id="7")
    b'id: 7\\nevent: ping\\ndata: {}\\n\\n'
    """
    head = f"id: {event_id}\n" if event_id else ""
    if name:
        head += f"event: {name}\n"
    return head.encode() + b"data: " + data + b"\n\n"


def comment(text: str) -> bytes:
    """Bytes that no client takes for an event: a heartbeat, or the reason why the stream ends."""
    return f": {text}\n\n".encode()
