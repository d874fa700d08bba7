"""Truncates long output: keeps the beginning and the end, and says how much is missing between.

The beginning can be told as it comes; the end is known only at the end. What `feed`
and `finish` return, put together, is the whole text that is kept.
"""

import codecs
from collections import deque

_CONTINUATION = range(0x80, 0xC0)


class HeadTail:
    """Feed it bytes, get text.

    >>> kept = HeadTail(limit=8)
    >>> kept.feed(b"abcdefgh") + kept.feed(b"ijklmnop") + kept.finish()
    'abcd\\n[… 8 bytes omitted …]\\nmnop'
    """

    def __init__(self, *, limit: int) -> None:
        self._head_left = limit // 2
        self._tail_limit = limit - limit // 2
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.omitted_bytes = 0

    def feed(self, chunk: bytes) -> str:
        """What can be told now."""
        head, rest = chunk[: self._head_left], chunk[self._head_left :]
        self._head_left -= len(head)
        if rest:
            self._keep(rest)
        return self._decoder.decode(head) if head else ""

    def finish(self) -> str:
        """What is told last: the end of it, after a note of what is missing."""
        tail = b"".join(self._tail)
        surplus = max(0, len(tail) - self._tail_limit)
        if not self.omitted_bytes and not surplus:
            return self._decoder.decode(tail, final=True)
        # Neither end of the gap shows half a character.
        unfinished = len(self._decoder.getstate()[0])
        while surplus < len(tail) and tail[surplus] in _CONTINUATION:
            surplus += 1
        self.omitted_bytes += surplus + unfinished
        self._decoder.reset()
        return f"\n[… {self.omitted_bytes:,} bytes omitted …]\n" + self._decoder.decode(tail[surplus:], final=True)

    def _keep(self, chunk: bytes) -> None:
        self._tail.append(chunk)
        self._tail_bytes += len(chunk)
        while self._tail_bytes - len(self._tail[0]) >= self._tail_limit:
            gone = len(self._tail.popleft())
            self._tail_bytes -= gone
            self.omitted_bytes += gone
