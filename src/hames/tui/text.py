"""What items say, as plain text: shared by the screen and the command line. Not yet safe to print."""

from pathlib import PurePath
from typing import assert_never

import msgspec

from hames.domain.json import Json
from hames.protocols.flint import items as wire


def shown_input(content: list[wire.UserInput]) -> str:
    """A prompt as one text, attachments named."""
    parts: list[str] = []
    for part in content:
        match part:
            case wire.TextInput(text=text):
                parts.append(text)
            case wire.ImageInput(url=url):
                parts.append(f"[image {url[:40]}]")
            case wire.LocalImageInput(path=path):
                parts.append(f"[image {PurePath(path).name}]")
            case wire.FileInput(path=path):
                parts.append(f"[file {path}]")
            case _ as never:
                assert_never(never)
    return "\n".join(parts)


def said(value: Json) -> str:
    """Arguments and results on one line."""
    if value is msgspec.UNSET or value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "  ".join(f"{name}={inner if isinstance(inner, str) else _json(inner)}" for name, inner in value.items())
    return _json(value)


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()
