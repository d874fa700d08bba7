"""An item of ours as a tool call of the state."""

from collections.abc import Callable
from typing import assert_never

from hames.domain import items
from hames.domain.json import Json
from hames.protocols.sync.messages import ToolCall, ToolStatus
from hames.protocols.sync.tails import tail

SHORT_CHARS = 80

Shown = (
    items.CommandExecution
    | items.FileChange
    | items.McpToolCall
    | items.WebSearch
    | items.Plan
    | items.ToolCall
    | items.Artifact
    | items.Compaction
)
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

    def call(name: str, kind: Json, title: str, given: Json, **more: Json) -> ToolCall:
        return ToolCall(
            id=item.id,
            name=name,
            status=_STATUS[item.status],
            kind=kind,
            outcome="skipped" if never_ran else item.status,
            title=title,
            input=given,
            output=output,
            output_truncated=truncated,
            pictures=len(item.result.pictures) if not isinstance(item, items.Compaction) and item.result else 0,
            reason=NEVER_APPROVED if never_ran else items.reason_of(item),
            **more,
        )

    return _described(item, cwd, call)


def _described(item: Shown, cwd: str, call: Callable[..., ToolCall]) -> ToolCall:
    match item:
        case items.CommandExecution():
            given = {"command": item.command, "cwd": item.cwd}
            return call("shell", "command", item.command, given, exit_code=item.exit_code, duration_ms=item.duration_ms)
        case items.FileChange(changes=changes):
            title = ", ".join(_relative(change.path, cwd) for change in changes)
            return call("edit", "file", title, None, changes=changes)
        case items.McpToolCall(server=server, tool=tool):
            return call(f"{server}.{tool}", "mcp", f"{server}.{tool}", item.arguments)
        case items.WebSearch(query=query):
            return call("web_search", "search", query, {"query": query})
        case items.Plan():
            return call("plan", "plan", "Plan", None)
        case items.ToolCall(name=name):
            return call(name, "tool", _title(name, item.arguments), item.arguments)
        case items.Artifact(path=path):
            given = {"path": path, "mediaType": item.media_type}
            return call("artifact", "artifact", item.title or path, given)
        case items.Compaction():
            return call("compact", "compaction", "Conversation summarised", None)
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
