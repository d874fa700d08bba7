"""Content blocks and plan entries of ACP, and what they are in a prompt of ours."""

from collections.abc import Iterator, Sequence

import msgspec

from hames.domain import items
from hames.domain.errors import InvalidCommand
from hames.domain.json import Json
from hames.protocols.acp.messages import v1 as m

MAX_BLOCKS = 1_000
LINK = "acp"
"""The member of an input's `meta` that has the block which the client sent, so that it is replayed as it came."""


def read_prompt(blocks: Sequence[m.ContentBlock]) -> tuple[items.UserInput, ...]:
    """Raises `InvalidCommand`."""
    if len(blocks) > MAX_BLOCKS:
        raise InvalidCommand(f"prompt: has more than {MAX_BLOCKS} blocks")
    inputs = tuple(_read_block(block, f"prompt[{index}]") for index, block in enumerate(blocks))
    said = tuple(part for part in inputs if not (isinstance(part, items.TextInput) and not part.text.strip()))
    if not said:
        raise InvalidCommand("prompt: is empty")
    return said


def _read_block(block: m.ContentBlock, where: str) -> items.UserInput:
    match block:
        case m.TextContent(text=text):
            return items.TextInput(text=text)
        case m.ImageContent(data=data, mime_type=kind):
            return _image(data, kind, where)
        case m.ResourceLink(uri=uri, name=name):
            # The model reads it with its tools if it wants to: a link may lead to a directory, or nowhere.
            return items.TextInput(text=f"[@{name}]({uri})", meta={LINK: msgspec.to_builtins(block)})
        case m.EmbeddedResource(resource=resource):
            return _embedded(resource, where)
        case m.AudioContent():
            raise InvalidCommand(f"{where}: audio is not supported")


def _image(data: str, kind: str, where: str) -> items.ImageInput:
    if not kind.lower().startswith("image/") or any(char.isspace() or char in ",;" for char in kind):
        raise InvalidCommand(f"{where}.mimeType: must be a type of image")
    return items.ImageInput(url=f"data:{kind};base64,{data}")


def _embedded(resource: Json, where: str) -> items.UserInput:
    match resource:
        case {"uri": str(uri), "text": str(text)}:
            return items.TextInput(text=f'<context ref="{uri}">\n{text}\n</context>')
        case {"uri": str(uri), "blob": str(blob)}:
            kind = resource.get("mimeType")
            if isinstance(kind, str) and kind.lower().startswith("image/"):
                return _image(blob, kind, f"{where}.resource")
            return items.TextInput(text=f"[@{uri.rpartition('/')[2] or uri}]({uri})")
        case _:
            raise InvalidCommand(f"{where}.resource: needs a uri, and a text or a blob")


def user_blocks(message: items.UserMessage) -> list[m.ContentBlock]:
    return [_user_block(part) for part in message.content]


def _user_block(part: items.UserInput) -> m.ContentBlock:
    match part:
        case items.TextInput(text=text, meta=meta):
            return _link(meta) or m.TextContent(text=text)
        case items.ImageInput(url=url) if url.startswith("data:") and ";base64," in url:
            kind, _, data = url.removeprefix("data:").partition(";base64,")
            return m.ImageContent(data=data, mime_type=kind)
        case items.ImageInput(url=url):
            return m.ResourceLink(name=url.rpartition("/")[2] or url, uri=url)
        case items.LocalImageInput(path=path) | items.FileInput(path=path):
            return file_link(path)


def _link(meta: Json) -> m.ResourceLink | None:
    if not isinstance(meta, dict) or LINK not in meta:
        return None
    try:
        return msgspec.convert(meta[LINK], m.ResourceLink)
    except msgspec.ValidationError:  # another program wrote this log
        return None


def file_link(path: str, name: str = "") -> m.ResourceLink:
    return m.ResourceLink(name=name or path.rpartition("/")[2] or path, uri=f"file://{path}")


def result_blocks(result: items.ToolResult | None) -> Iterator[m.ContentBlock]:
    if result is None:
        return
    if result.text:
        yield m.TextContent(text=result.text)
    for picture in result.pictures:
        yield picture_block(picture)


def picture_block(picture: items.Picture) -> m.ImageContent:
    return m.ImageContent(data=picture.base64, mime_type=picture.media_type)


def text_content(text: str) -> m.Content:
    return m.Content(content=m.TextContent(text=text))


def plan_entries(item: items.Plan) -> tuple[items.PlanEntry, ...]:
    """A plan that is only text is one entry."""
    if item.entries or not item.text.strip():
        return item.entries
    return (items.PlanEntry(step=item.text.strip(), status="completed" if item.status == "completed" else "pending"),)
