"""Turns that an agent did not run, for its model to read: what was said, and what was done as a sentence. Pure."""

from collections.abc import Iterator, Sequence

from hames.domain import items
from hames.domain.commands import PastMessage
from hames.domain.items import ImageInput, TextInput
from hames.domain.state import Turn

RESULT_CHARS = 4000


def past_messages(turns: Sequence[Turn]) -> list[PastMessage]:
    return [message for turn in turns for item in turn.items for message in _message(item)]


def shown_content(message: items.UserMessage) -> tuple[TextInput | ImageInput, ...]:
    """What a user said and attached, with nothing in it that has to be read from this machine's disk."""
    parts: list[TextInput | ImageInput] = []
    pictures, attachments = iter(message.pictures), iter(message.attachments)
    for part in message.content:
        match part:
            case TextInput(text=text):
                parts.append(TextInput(text=text))
            case ImageInput(url=url):
                parts.append(ImageInput(url=url))
            case items.LocalImageInput():
                if (picture := next(pictures, None)) is not None:
                    parts.append(ImageInput(url=f"data:{picture.media_type};base64,{picture.base64}"))
            case items.FileInput(path=path):
                parts.append(TextInput(text=f'<file path="{path}">\n{next(attachments, "")}\n</file>'))
    return tuple(parts)


def _message(item: items.Item) -> Iterator[PastMessage]:
    match item:
        case items.UserMessage():
            if content := shown_content(item):
                yield PastMessage(role="user", content=content)
        case items.AgentMessage(text=text):
            if text:
                yield _said("assistant", text)
        case items.Compaction(summary=text):
            if text:
                yield _said("user", f"[summary of what came before: {text}]")
        case items.Reasoning() | items.WebSearch() | items.Artifact():
            return
        case items.CommandExecution():
            yield _did(f"ran {item.command!r} in {item.cwd}", item)
        case items.FileChange(changes=changes):
            yield _did("changed " + ", ".join(change.path for change in changes), item)
        case items.McpToolCall(server=server, tool=tool, arguments=given):
            yield _did(f"called {tool!r} of the MCP server {server!r} with {given}", item)
        case items.Plan(text=text):
            yield _said("assistant", f"[planned: {text}]")
        case items.ToolCall(name=name, arguments=given):
            yield _did(f"used {name!r} with {given}", item)


Done = items.CommandExecution | items.FileChange | items.McpToolCall | items.ToolCall


def _did(what: str, item: Done) -> PastMessage:
    result = item.result.text if item.result is not None else ""
    if len(result) > RESULT_CHARS:
        result = f"{result[:RESULT_CHARS]} … ({len(result) - RESULT_CHARS} more characters)"
    return _said("assistant", f"[{what}; {item.status}{': ' + result if result else ''}]")


def _said(role: str, text: str) -> PastMessage:
    return PastMessage(role="user" if role == "user" else "assistant", content=(TextInput(text=text),))
