"""The engine's items as this protocol shows them: six types, every tool a `tool_exec`."""

from typing import Any, assert_never

from msgspec import UNSET, UnsetType

from hames.domain import items
from hames.domain.approvals import Approval, CallMcp, ChangeFiles, Elicit, RunCommand, UseTool
from hames.domain.events import ApprovalResolved
from hames.domain.forms import members
from hames.domain.grants import always_covers, project_covers
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.json import Json
from hames.protocols.bootstrap import messages

Streaming = items.CommandExecution | items.FileChange | items.McpToolCall | items.ToolCall
"""Tools with output that streams."""


def item(thread_id: ThreadId, turn_id: TurnId, shown: items.Item) -> messages.Item:
    ids = {"item_id": shown.id, "thread_id": thread_id, "turn_id": turn_id}
    match shown:
        case items.UserMessage(content=content, by=by):
            text = "\n\n".join(part.text for part in content if isinstance(part, items.TextInput))
            data = messages.UserMessageData(content=tuple(map(_part, content)), text=text, by=by or UNSET)
            return messages.UserMessage(**ids, data=data)
        case items.AgentMessage(text=text, status=status, citations=cited):
            data = messages.AssistantMessageData(kind="text", text=text, status=status, citations=cited or UNSET)
            return messages.AssistantMessage(**ids, data=data)
        case items.Reasoning(text=text, status=status, summary=summary):
            data = messages.AssistantMessageData(kind="reasoning", text=text, status=status, summary=summary or UNSET)
            return messages.AssistantMessage(**ids, data=data)
        case items.Compaction(summary=summary, status=status):
            data = messages.AssistantMessageData(kind="compaction", text=summary, status=status)
            return messages.AssistantMessage(**ids, data=data)
        case items.Artifact(path=path, title=title, media_type=media_type, status=status):
            why = items.reason_of(shown) or UNSET
            data = messages.ArtifactData(path=path, title=title, media_type=media_type, status=status, reason=why)
            return messages.Artifact(**ids, data=data)
        case _:
            return messages.ToolExec(**ids, data=_tool(shown))


Tool = items.CommandExecution | items.FileChange | items.McpToolCall | items.WebSearch | items.Plan | items.ToolCall


def _tool(tool: Tool) -> messages.ToolExecData:
    return messages.ToolExecData(status=tool.status, reason=items.reason_of(tool) or UNSET, **_tool_members(tool))


def _tool_members(tool: Tool) -> dict[str, Json]:
    match tool:
        case items.CommandExecution(command=command, cwd=cwd):
            return {
                "tool": "bash",
                "input": {"command": command, "cwd": cwd},
                "exit_code": _or_unset(tool.exit_code),
                "duration_ms": _or_unset(tool.duration_ms),
                "result": _result(tool.result, streamed=tool.output),
            }
        case items.FileChange(changes=changes):
            return {
                "tool": "edit",
                "input": {"paths": [change.path for change in changes]},
                "changes": _changes(changes),
                "result": _result(tool.result, streamed=tool.output),
            }
        case items.McpToolCall(server=server, tool=name, arguments=given):
            result = _result(tool.result, streamed=tool.output)
            return {"tool": f"{server}/{name}", "input": _input(given), "result": result}
        case items.ToolCall(name=name, arguments=given):
            return {"tool": name, "input": _input(given), "result": _result(tool.result, streamed=tool.output)}
        case items.WebSearch(query=query):
            return {"tool": "web_search", "input": {"query": query}, "result": _result(tool.result, streamed="")}
        case items.Plan(text=text, entries=entries):
            return {"tool": "plan", "input": {}, "text": text, "entries": entries}
        case _ as never:
            assert_never(never)


def log(thread_id: ThreadId, turn_id: TurnId, tool: Streaming, output: str) -> messages.ToolLog:
    """The output of a tool as an item of its own."""
    return messages.ToolLog(
        item_id=log_id(tool.id),
        thread_id=thread_id,
        turn_id=turn_id,
        data=messages.ToolLogData(tool_item_id=tool.id, tool=_tool(tool).tool, output=output),
    )


def log_id(tool_item_id: ItemId) -> str:
    return f"{tool_item_id}_log"


def question(approval: Approval, cwd: str) -> dict[str, Json]:
    """What is asked, as `approval.requested` and the `approval` item both carry it."""
    match approval.intent:
        case RunCommand(command=command, cwd=cwd, connects_to=to):
            asked: dict[str, Json] = {"tool": "bash", "command": command, "cwd": cwd}
            if to is not None:
                asked["host"] = str(to)
        case ChangeFiles(changes=changes):
            asked = {"tool": "edit", "changes": _changes(changes)}
        case CallMcp(server=server, tool=tool, arguments=arguments):
            asked = {"tool": f"{server}/{tool}", "input": arguments}
        case UseTool(name=name, arguments=arguments):
            asked = {"tool": name, "input": arguments}
        case Elicit(server=server):
            asked = {"tool": "elicitation", "input": {"server": server, **members(approval.intent)}}
        case _ as never:
            assert_never(never)
    covers = always_covers(approval.intent, cwd=cwd)
    project = project_covers(approval.offer) or UNSET
    return {**asked, "reason": approval.reason, "always_covers": covers or UNSET, "project_covers": project}


def approval_item(
    thread_id: ThreadId, approval: Approval, cwd: str, resolved: ApprovalResolved | None = None
) -> messages.ApprovalItem:
    """With how it ended, if it has."""
    end: dict[str, Any] = {}
    if resolved is not None:
        end = {"decision": resolved.decision, "ended": resolved.how, "by": resolved.by or UNSET}
    return messages.ApprovalItem(
        item_id=approval.id,
        thread_id=thread_id,
        turn_id=approval.turn_id,
        data=messages.ApprovalData(
            request_id=approval.id,
            tool_item_id=approval.item_id,
            status="pending" if resolved is None else "resolved",
            **end,
            **question(approval, cwd),
        ),
    )


def _part(part: items.UserInput) -> messages.InputPart:
    match part:
        case items.TextInput(text=text):
            return messages.TextPart(text=text)
        case items.ImageInput(url=url):
            return messages.ImagePart(url=url)
        case items.LocalImageInput(path=path):
            return messages.ImagePart(path=path)
        case items.FileInput(path=path):
            return messages.FilePart(path=path)
        case _ as never:
            assert_never(never)


def _changes(changes: tuple[items.FileUpdate, ...]) -> tuple[messages.FileChange, ...]:
    return tuple(messages.FileChange(path=change.path, kind=change.kind, diff=change.diff) for change in changes)


def _input(arguments: Json) -> dict[str, Json]:
    """Models do send arguments that are no object; they are shown all the same."""
    if arguments is None:
        return {}
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def _result(result: items.ToolResult | None, *, streamed: str) -> str | UnsetType:
    return UNSET if result is None or streamed else result.text


def _or_unset(number: int | None) -> int | UnsetType:
    return UNSET if number is None else number
