"""Codex's items as ours, and its questions as intents. Pure."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from hames.domain import items
from hames.domain.approvals import CallMcp, ChangeFiles, Elicit, Intent, RunCommand
from hames.domain.ids import CallId, ItemId
from hames.domain.json import Json

STATUSES: dict[str, items.ItemStatus] = {
    "inProgress": "running",
    "completed": "completed",
    "failed": "failed",
    "declined": "declined",
}
DELTAS: dict[str, items.Stream] = {
    "item/agentMessage/delta": "text",
    "item/reasoning/textDelta": "text",
    "item/reasoning/summaryTextDelta": "summary",
    "item/commandExecution/outputDelta": "output",
    "item/fileChange/outputDelta": "output",
    "item/plan/delta": "text",
    "item/mcpToolCall/progress": "output",
}
SILENT = frozenset({"enteredReviewMode", "exitedReviewMode"})
"""Items that show nothing: the text of a review comes as a message as well."""
PART = "item/reasoning/summaryPartAdded"
ELICITATION = "mcpServer/elicitation/request"


def streamed(method: str, params: dict[str, Json]) -> tuple[items.Stream, str] | None:
    """Which stream of the item grew, and by what."""
    stream = DELTAS.get(method)
    if method == PART:
        return ("summary", "\n\n") if params.get("summaryIndex") else None
    if method == "item/mcpToolCall/progress":
        return "output", f"{_text(params, 'message')}\n"
    delta = params.get("delta")
    return (stream, delta) if stream is not None and isinstance(delta, str) else None


def opened_item(theirs: dict[str, Json], item_id: ItemId, cwd: str = "") -> items.Item | None:
    """Our item for one of theirs that begins, in a thread that works in `cwd`.

    A kind of tomorrow is a tool call with everything in it.
    """
    call_id = CallId(str(theirs.get("id", "")))
    match theirs.get("type"):
        case "userMessage":
            return items.UserMessage(id=item_id, step=0, content=(items.TextInput(text=""),))
        case "agentMessage":
            return items.AgentMessage(id=item_id, step=1)
        case "reasoning":
            return items.Reasoning(id=item_id, step=1, provider="codex")
        case "commandExecution":
            return items.CommandExecution(
                id=item_id, step=1, call_id=call_id, command=_text(theirs, "command"), cwd=_text(theirs, "cwd")
            )
        case "fileChange":
            return items.FileChange(id=item_id, step=1, call_id=call_id, changes=changes(theirs, cwd))
        case "mcpToolCall":
            return items.McpToolCall(
                id=item_id,
                step=1,
                call_id=call_id,
                server=_text(theirs, "server"),
                tool=_text(theirs, "tool"),
                arguments=theirs.get("arguments"),
            )
        case "webSearch":
            return items.WebSearch(id=item_id, step=1, query=_text(theirs, "query"))
        case "contextCompaction":
            return items.Compaction(id=item_id, step=1)
        case "plan":
            return items.Plan(id=item_id, step=1, call_id=call_id)
        case kind if kind in SILENT:
            return None
        case kind:
            arguments = {name: value for name, value in theirs.items() if name not in ("id", "type")}
            return items.ToolCall(id=item_id, step=1, call_id=call_id, name=f"codex:{kind}", arguments=arguments)


def completed_item(
    theirs: dict[str, Json], item: items.Item, cwd: str = ""
) -> tuple[items.Item, items.Stream | Literal[""], str]:
    """How it ended, and what its stream holds in all: whoever heard less is told the rest."""
    status = STATUSES.get(_text(theirs, "status"), "completed")
    if status == "running":
        status = "interrupted"
    match item:
        case items.AgentMessage():
            return replace(item, status="completed"), "text", _text(theirs, "text")
        case items.Reasoning():
            summary, content = _lines(theirs.get("summary")), _lines(theirs.get("content"))
            return replace(item, status="completed"), ("text" if content else "summary"), content or summary
        case items.CommandExecution():
            output = _text(theirs, "aggregatedOutput")
            code = theirs.get("exitCode")
            duration = theirs.get("durationMs")
            done = replace(
                item,
                status=status,
                exit_code=code if isinstance(code, int) else None,
                duration_ms=duration if isinstance(duration, int) else None,
                result=items.ToolResult(text=output or f"[exit code {code}]", failed=status != "completed"),
            )
            return done, "output", output
        case items.FileChange():
            made = changes(theirs, cwd)
            result = items.ToolResult(text=f"{len(made)} files", failed=status != "completed")
            whole = "".join(change.diff for change in made)
            return replace(item, status=status, changes=made, result=result), "output", whole
        case items.McpToolCall():
            text, structured = _mcp_result(theirs)
            result = items.ToolResult(text=text, failed=status != "completed")
            return replace(item, status=status, structured=structured, result=result), "", ""
        case items.Compaction():
            return replace(item, status="completed"), "", ""
        case items.WebSearch():
            return replace(item, status="completed", query=_text(theirs, "query") or item.query), "", ""
        case items.Plan():
            return replace(item, status="completed", result=items.ToolResult(text="ok")), "text", _text(theirs, "text")
        case items.ToolCall():
            return replace(item, status=status, result=items.ToolResult(text="", failed=status != "completed")), "", ""
        case _:
            return item, "", ""


def intent(method: str, params: dict[str, Json], item: items.Item | None, cwd: str = "") -> Intent | None:
    """What one of Codex's questions is about."""
    if method == "item/commandExecution/requestApproval" and isinstance(item, items.CommandExecution):
        command = params.get("command")
        return RunCommand(
            command=command if isinstance(command, str) else item.command,
            cwd=_text(params, "cwd") or item.cwd,
            why=_text(params, "reason"),
        )
    if method == "item/fileChange/requestApproval" and isinstance(item, items.FileChange):
        return ChangeFiles(changes=changes(params, cwd) or item.changes)
    if isinstance(item, items.McpToolCall) and asks_for_mcp(method, params):
        return CallMcp(server=item.server, tool=item.tool, arguments=item.arguments)
    return None


def asks_for_mcp(method: str, params: dict[str, Json]) -> bool:
    """Codex asks whether a tool may be called in the form in which servers ask their own questions."""
    meta = params.get("_meta")
    return method == ELICITATION and isinstance(meta, dict) and meta.get("codex_approval_kind") == "mcp_tool_call"


def elicited(params: dict[str, Json]) -> Elicit | None:
    """What an MCP server of Codex's asks a person; None for what nobody here can show."""
    server, message, url = _text(params, "serverName"), _text(params, "message"), _text(params, "url")
    schema = params.get("requestedSchema")
    if url:
        return Elicit(server=server, message=message, url=url)
    return Elicit(server=server, message=message, schema=schema) if isinstance(schema, dict) else None


def changes(theirs: dict[str, Json], cwd: str = "") -> tuple[items.FileUpdate, ...]:
    found = theirs.get("changes")
    if not isinstance(found, list):
        return ()
    return tuple(_change(one, cwd) for one in found if isinstance(one, dict))


def _change(theirs: dict[str, Json], cwd: str) -> items.FileUpdate:
    """Of a file that comes or goes Codex tells the text, and of one that changes the hunks alone."""
    path, kind, told = _text(theirs, "path"), _kind(theirs.get("kind")), _text(theirs, "diff")
    name = path.removeprefix(f"{cwd.rstrip('/')}/").removeprefix("/")
    match kind:
        case "add":
            diff = f"--- /dev/null\n+++ b/{name}\n{_whole('+', told)}"
        case "delete":
            diff = f"--- a/{name}\n+++ /dev/null\n{_whole('-', told)}"
        case "modify":
            diff = f"--- a/{name}\n+++ b/{name}\n{told}"
    return items.FileUpdate(path=path, kind=kind, diff=diff)


def _whole(sign: Literal["+", "-"], text: str) -> str:
    """The one hunk of a file that is all new or all gone."""
    lines = text.split("\n")
    ends = lines.pop() if text.endswith("\n") or not text else None
    if not lines:
        return ""
    span = f"1,{len(lines)}" if len(lines) > 1 else "1"
    place = f"-0,0 +{span}" if sign == "+" else f"-{span} +0,0"
    body = "".join(f"{sign}{line}\n" for line in lines)
    return f"@@ {place} @@\n{body}" + ("\\ No newline at end of file\n" if ends is None else "")


def _mcp_result(theirs: dict[str, Json]) -> tuple[str, Json]:
    """The words of a result, and its structured form where it has one."""
    result, error = theirs.get("result"), theirs.get("error")
    if not isinstance(result, dict):
        return _text(error, "message"), None
    found = result.get("content")
    parts: list[Json] = found if isinstance(found, list) else []
    texts = [_text(part, "text") or f"[{_text(part, 'type') or 'something else'}]" for part in parts]
    structured = result.get("structuredContent")
    text = "\n".join(texts)
    return text or (msgspec.json.encode(structured).decode() if structured is not None else ""), structured


def _kind(theirs: Json) -> Literal["add", "modify", "delete"]:
    word = theirs.get("type") if isinstance(theirs, dict) else theirs
    return "add" if word == "add" else "delete" if word == "delete" else "modify"


def _text(theirs: Json, name: str) -> str:
    value = theirs.get(name) if isinstance(theirs, dict) else None
    return value if isinstance(value, str) else ""


def _lines(value: Json) -> str:
    if isinstance(value, str):
        return value
    return "\n\n".join(one for one in value if isinstance(one, str)) if isinstance(value, list) else ""
