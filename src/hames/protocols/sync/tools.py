"""An item of ours as a tool call of the state."""

from typing import assert_never

from hames.domain import items
from hames.domain.json import Json
from hames.protocols.describe import tool_name
from hames.protocols.sync.messages import ToolCall, ToolStatus
from hames.protocols.sync.tails import tail

SHORT_CHARS = 80

Shown = items.ToolItem | items.Compaction
"""Items that a message shows as tool calls."""

_STATUS: dict[items.ItemStatus, ToolStatus] = {
    "running": "running",
    "completed": "complete",
    "failed": "error",
    "declined": "error",
    "interrupted": "error",
    "skipped": "error",
}


NEVER_APPROVED = "not run: the agent was stopped before you answered"


def tool_call(item: Shown, cwd: str, *, asked_in_vain: bool = False) -> ToolCall:
    """`cwd`: paths inside it are shown relative to it. `asked_in_vain`: nobody approved it before the turn ended."""
    output, truncated = tail(output_of(item))
    never_ran = asked_in_vain and item.status == "interrupted"

    return ToolCall(
        id=item.id,
        name=tool_name(item),
        status=_STATUS[item.status],
        outcome="skipped" if never_ran else item.status,
        output=output,
        output_truncated=truncated,
        pictures=len(item.result.pictures) if not isinstance(item, items.Compaction) and item.result else 0,
        reason=NEVER_APPROVED if never_ran else items.reason_of(item),
        **_members(item, cwd),
    )


def _members(item: Shown, cwd: str) -> dict[str, Json]:
    match item:
        case items.CommandExecution(command=command, exit_code=code, duration_ms=took):
            given = {"command": command, "cwd": item.cwd}
            return {"kind": "command", "title": command, "input": given, "exit_code": code, "duration_ms": took}
        case items.FileChange(changes=changes):
            title = ", ".join(_relative(change.path, cwd) for change in changes)
            return {"kind": "file", "title": title, "input": None, "changes": changes}
        case items.McpToolCall(arguments=given):
            return {"kind": "mcp", "title": tool_name(item), "input": given}
        case items.WebSearch(query=query):
            return {"kind": "search", "title": query, "input": {"query": query}}
        case items.Plan():
            return {"kind": "plan", "title": "Plan", "input": None}
        case items.ToolCall(name=name, arguments=given):
            return {"kind": "tool", "title": _title(name, given), "input": given}
        case items.Artifact(path=path, title=title, media_type=media_type):
            given = {"path": path, "mediaType": media_type}
            return {"kind": "artifact", "title": title or path, "input": given}
        case items.Compaction():
            return {"kind": "compaction", "title": "Conversation summarised", "input": None}
        case _ as never:
            assert_never(never)


def output_of(item: items.Item) -> str:
    """All of it. What streamed nothing shows its result."""
    match item:
        case items.CommandExecution() | items.FileChange() | items.McpToolCall() | items.ToolCall():
            streamed = item.output
        case items.Plan(text=streamed):
            pass
        case items.Compaction(summary=summary):
            return summary
        case items.Artifact() | items.WebSearch():
            streamed = ""
        case items.UserMessage() | items.AgentMessage() | items.Reasoning():
            return ""
        case _ as never:
            assert_never(never)
    return streamed or (item.result.text if item.result else "")


def _title(name: str, arguments: Json) -> str:
    given = arguments.values() if isinstance(arguments, dict) else ()
    short = (text for text in given if isinstance(text, str) and 0 < len(text) <= SHORT_CHARS and text.isprintable())
    return f"{name} {first}" if (first := next(short, "")) else name


def _relative(path: str, cwd: str) -> str:
    root = cwd.rstrip("/") + "/"
    return path[len(root) :] if cwd and path.startswith(root) and len(path) > len(root) else path
