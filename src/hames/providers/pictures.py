"""Pictures of a conversation, as model services can be shown them."""

import re

from hames.domain.items import Picture

SHOWN_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_DATA_URL = re.compile(r"data:(?P<type>[\w/+.-]+);base64,(?P<data>.*)", re.DOTALL)


def picture_url(picture: Picture | None, url: str = "") -> tuple[str, str]:
    """An address that shows the picture (`data:` for one that we have), or else the words to send in its place."""
    found = None if picture is not None else _DATA_URL.fullmatch(url)
    if found is not None:
        picture = Picture(media_type=found["type"], base64=found["data"])
    if picture is not None and picture.media_type not in SHOWN_TYPES:
        return "", f"(a picture of type {picture.media_type!r}, which cannot be shown)"
    if picture is not None:
        return f"data:{picture.media_type};base64,{picture.base64}", ""
    if url.startswith(("https://", "http://")):
        return url, ""
    return "", "(a picture at an address that cannot be read)"
