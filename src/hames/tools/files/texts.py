"""A text file as bytes and back: encoding, byte order mark and line endings stay what they were.

Bytes that are no UTF-8 are read as Latin-1, which loses nothing: every byte is a
character, and what is not changed is written back as it was. What a new character
would be in a file of unknown encoding nobody knows, so none is ever added.
"""

import codecs
from typing import Literal

from hames.domain.value import Value
from hames.ports import ToolFailed

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "latin-1"]

_MARKS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SNIFFED_BYTES = 8192


class Text(Value):
    """`body` has `\\n` line ends when `crlf`; else it is exactly what the file says."""

    body: str
    encoding: Encoding = "utf-8"
    mark: bytes = b""
    crlf: bool = False

    def encoded(self, body: str, name: str) -> bytes:
        """`body` as this file would have it. Raises `ToolFailed` for a character it cannot hold."""
        if self.crlf:
            body = body.replace("\r\n", "\n").replace("\n", "\r\n")
        if self.encoding == "latin-1" and (strange := {c for c in body if not c.isascii()} - set(self.body)):
            raise ToolFailed(
                f"{name!r} is not UTF-8 and its encoding is unknown, so {min(strange)!r} cannot be written into it; "
                "use plain ASCII there, or convert the file first"
            )
        try:
            return self.mark + body.encode(self.encoding)
        except UnicodeEncodeError:
            raise ToolFailed(f"the new text for {name!r} has a lone surrogate, which is no character") from None

    @property
    def peculiarities(self) -> str:
        """What is unusual about the file, in words; mostly nothing."""
        words = {"utf-8": "", "latin-1": "not UTF-8, shown as Latin-1"}.get(self.encoding, self.encoding.upper()[:6])
        mark = "a byte order mark" if self.mark and self.encoding == "utf-8" else ""
        return ", ".join(word for word in (words, mark, "CRLF line ends" if self.crlf else "") if word)


def decoded(content: bytes) -> Text | None:
    """None for what is no text."""
    plain: tuple[bytes, Encoding] = (b"", "utf-8")
    mark, encoding = next((marked for marked in _MARKS if content.startswith(marked[0])), plain)
    if content.startswith(codecs.BOM_UTF32_LE) or (not mark and b"\0" in content[:_SNIFFED_BYTES]):
        return None
    try:
        body = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        if mark:
            return None
        body, encoding = content.decode("latin-1"), "latin-1"
    if encoding != "utf-8" and "\0" in body:
        return None
    crlf = _ends_in_crlf(body)
    return Text(body=body.replace("\r\n", "\n") if crlf else body, encoding=encoding, mark=mark, crlf=crlf)


def _ends_in_crlf(body: str) -> bool:
    """Every line, or else putting the line ends back would change some."""
    pairs = body.count("\r\n")
    return pairs > 0 and pairs == body.count("\n") == body.count("\r")


def lines_of(body: str) -> list[str]:
    """With their ends. Only `\\n` ends a line: `str.splitlines` knows seven more."""
    lines = body.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])
