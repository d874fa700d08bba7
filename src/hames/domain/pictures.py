"""Detects the type and the size of an image from its first bytes.

Nothing is decoded: a file of ten kilobytes can unfold into gigabytes of pixels, so
it is judged by what it declares, before anybody is asked to unfold it.
"""

from hames.domain.value import Value

MAX_SIDE_PX = 8_000
"""More than that no model service takes."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})


class Shape(Value):
    media_type: str
    width: int
    height: int

    @property
    def complaint(self) -> str:
        """Why it cannot be shown to a model, or nothing."""
        if not self.width or not self.height:
            return "it declares no size"
        if max(self.width, self.height) > MAX_SIDE_PX:
            return f"it declares {self.width:,} × {self.height:,} pixels; the limit is {MAX_SIDE_PX:,} a side"
        return ""


def shape(data: bytes) -> Shape | None:
    """None: not a PNG, JPEG, GIF or WebP, or one that breaks off before its size.

    >>> shape(b"GIF89a" + bytes([64, 0, 32, 0]))
    Shape(media_type='image/gif', width=64, height=32)
    """
    if data.startswith(_PNG) and data[12:16] == b"IHDR" and len(data) >= 24:
        return Shape(media_type="image/png", width=_big(data[16:20]), height=_big(data[20:24]))
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return Shape(media_type="image/gif", width=_little(data[6:8]), height=_little(data[8:10]))
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return _webp(data)
    return None


def _jpeg(data: bytes) -> Shape | None:
    """Segment after segment up to the frame header. A few may claim any length; the walk only ever goes forward."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        elif marker in _JPEG_FRAMES and at + 9 <= len(data):
            return Shape(media_type="image/jpeg", width=_big(data[at + 7 : at + 9]), height=_big(data[at + 5 : at + 7]))
        elif (length := _big(data[at + 2 : at + 4])) < 2:
            return None
        else:
            at += 2 + length
    return None


def _webp(data: bytes) -> Shape | None:
    match data[12:16]:
        case b"VP8X":
            width, height = _little(data[24:27]) + 1, _little(data[27:30]) + 1
        case b"VP8L" if data[20] == 0x2F:
            bits = _little(data[21:25])
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
        case _:
            return None
    return Shape(media_type="image/webp", width=width, height=height)


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
