"""What a tool call is and what an approval asks for, as the narrower protocols show it: a name, and plain members."""

from typing import assert_never

from hames.domain import approvals, items
from hames.domain.forms import members, question
from hames.domain.json import Json

INTERRUPTED = "interrupted; it may have run"


def intent_members(
    intent: approvals.RunCommand | approvals.ChangeFiles | approvals.CallMcp | approvals.UseTool | approvals.Elicit,
) -> dict[str, Json]:
    """Exactly what would happen, by the names that SSE and sync have for it."""
    match intent:
        case approvals.RunCommand(command=command, cwd=cwd, unsandboxed=unsandboxed, why=why, connects_to=to):
            asked = {"kind": "command", "command": command, "cwd": cwd, "unsandboxed": unsandboxed, "why": why}
            return asked if to is None else {**asked, "host": str(to)}
        case approvals.ChangeFiles(changes=changes, protected=protected):
            return {"kind": "file", "changes": changes, "protected": protected}
        case approvals.CallMcp(server=server, tool=tool, arguments=given):
            return {"kind": "mcp", "server": server, "tool": tool, "input": given}
        case approvals.UseTool(name=tool, arguments=given):
            return {"kind": "tool", "tool": tool, "input": given}
        case approvals.Elicit(server=server):
            return {"kind": "elicitation", "server": server, "input": members(intent)}
        case _ as never:
            assert_never(never)


def approval_question(approval: approvals.Approval) -> str:
    """Everything a person must know to decide, in words."""
    match approval.intent:
        case approvals.RunCommand(command=command, cwd=cwd, connects_to=to):
            asked = f"Allow a connection to {to}?" if to is not None else f"Run this command in {cwd}?\n\n{command}"
        case approvals.ChangeFiles(changes=changes):
            asked = "\n\n".join(["Change these files?", *(f"{one.path}\n{one.diff}" for one in changes)])
        case approvals.CallMcp(server=server, tool=tool, arguments=arguments):
            asked = f"Call the tool {tool} of the MCP server {server}? {arguments}"
        case approvals.UseTool(name=name, arguments=arguments):
            asked = f"Use the tool {name}? {arguments}"
        case approvals.Elicit() as elicit:
            asked = question(elicit)
    return f"{asked}\n\n{reason}" if (reason := approval_reason(approval)) else asked


def approval_reason(approval: approvals.Approval) -> str:
    """Why it is asked; with it, the model's own reason for leaving the sandbox, which most rulings repeat."""
    why = approval.intent.why if isinstance(approval.intent, approvals.RunCommand) else ""
    return "\n\n".join(part for part in (approval.reason, "" if why in approval.reason else why) if part)


def tool_name(item: items.ToolItem | items.Compaction) -> str:
    match item:
        case items.CommandExecution():
            return "shell"
        case items.FileChange():
            return "edit"
        case items.McpToolCall(server=server, tool=tool):
            return f"{server}.{tool}"
        case items.WebSearch():
            return "web_search"
        case items.Plan():
            return "plan"
        case items.ToolCall(name=name):
            return name
        case items.Artifact():
            return "artifact"
        case items.Compaction():
            return "compact"
        case _ as never:
            assert_never(never)


def prompt_text(content: tuple[items.UserInput, ...]) -> str:
    return "\n".join(part.text for part in content if isinstance(part, items.TextInput))


def tool_arguments(item: items.ToolItem) -> Json:
    """What a tool was called with, as far as its item says."""
    names = ("arguments", "command", "cwd", "query", "changes", "path", "entries")
    known = {name: getattr(item, name) for name in names if getattr(item, name, None)}
    return known.get("arguments", known)
