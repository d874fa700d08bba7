"""What an MCP server answered, as the model and the log get it: bounded, and nothing left out silently."""

import base64
import json
from typing import TYPE_CHECKING

import msgspec

from hames.domain.items import Picture
from hames.domain.json import Json
from hames.domain.pictures import shape

if TYPE_CHECKING:
    from mcp.types import CallToolResult

RESULT_CHARS = 60_000

STRUCTURED_BYTES = 1 << 20

PICTURE_CHARS = 14 << 20
"""Of the pictures of an answer together, in base64."""


def read_result(answer: "CallToolResult") -> tuple[str, tuple[Picture, ...]]:
    """What the model reads. Content it cannot be shown is named, so that nothing disappears silently."""
    texts: list[str] = []
    pictures: list[Picture] = []
    for block in answer.content:
        match block.type:
            case "text":
                texts.append(block.text)
            case "image":
                held = sum(len(one.base64) for one in pictures)
                picture, complaint = _picture(block.data, held)
                if picture is not None:
                    pictures.append(picture)
                else:
                    texts.append(f"[a picture that cannot be shown: {complaint}]")
            case "resource":
                texts.append(getattr(block.resource, "text", "") or f"[resource {block.resource.uri}]")
            case "resource_link":
                texts.append(f"[link {block.uri}]")
            case kind:
                texts.append(f"[{kind}]")
    if not texts and answer.structured_content is not None:
        texts.append(json.dumps(answer.structured_content, ensure_ascii=False))
    text = "\n".join(texts)
    if len(text) > RESULT_CHARS:
        cut = len(text) - RESULT_CHARS
        text = f"{text[: RESULT_CHARS // 2]}\n[… {cut} characters omitted …]\n{text[-RESULT_CHARS // 2 :]}"
    return text or "(no output)", tuple(pictures)


def structured_content(answer: "CallToolResult") -> Json:
    """What it is worth keeping: the log has to be read again as a whole."""
    try:
        size = len(msgspec.json.encode(answer.structured_content))
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None
    return answer.structured_content if size <= STRUCTURED_BYTES else None


def _picture(data: str, held: int) -> tuple[Picture | None, str]:
    """A picture by what its bytes say: one that no service takes would be refused again with every later request.

    `held`: how much of the same answer is kept already.
    """
    if held + len(data) > PICTURE_CHARS:
        return None, "there is too much of it"
    try:
        found = shape(base64.b64decode(data, validate=True))
    except ValueError:
        found = None
    if found is None or found.complaint:
        return None, found.complaint if found else "it cannot be read"
    return Picture(media_type=found.media_type, base64=data), ""
