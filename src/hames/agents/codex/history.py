"""Turns that Codex did not run, for its model to read: what was said, and what was done as a sentence. Pure."""

from collections.abc import Iterator, Sequence

from hames.domain import items
from hames.domain.json import Json
from hames.domain.state import Turn

RESULT_CHARS = 4000


def told(turns: Sequence[Turn]) -> list[Json]:
    return [message for turn in turns for item in turn.items for message in _message(item)]


def _message(item: items.Item) -> Iterator[Json]:
    match item:
        case items.UserMessage(content=content):
            if text := "\n\n".join(part.text for part in content if isinstance(part, items.TextInput)):
                yield _said("user", "input_text", text)
        case items.AgentMessage(text=text):
            if text:
                yield _said("assistant", "output_text", text)
        case items.Compaction(summary=text):
            if text:
                yield _said("user", "input_text", f"[summary of what came before: {text}]")
        case items.Reasoning() | items.WebSearch() | items.Artifact():
            return
        case items.CommandExecution():
            yield _did(f"ran {item.command!r} in {item.cwd}", item)
        case items.FileChange(changes=changes):
            yield _did("changed " + ", ".join(change.path for change in changes), item)
        case items.McpToolCall(server=server, tool=tool, arguments=given):
            yield _did(f"called {tool!r} of the MCP server {server!r} with {given}", item)
        case items.Plan(text=text):
            yield _said("assistant", "output_text", f"[planned: {text}]")
        case items.ToolCall(name=name, arguments=given):
            yield _did(f"used {name!r} with {given}", item)


Done = items.CommandExecution | items.FileChange | items.McpToolCall | items.ToolCall


def _did(what: str, item: Done) -> Json:
    result = item.result.text if item.result is not None else ""
    if len(result) > RESULT_CHARS:
        result = f"{result[:RESULT_CHARS]} … ({len(result) - RESULT_CHARS} more characters)"
    return _said("assistant", "output_text", f"[{what}; {item.status}{': ' + result if result else ''}]")


def _said(role: str, kind: str, text: str) -> Json:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
