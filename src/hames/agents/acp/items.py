"""Tool calls of an ACP agent as our items. Pure.

A call is told piece by piece; `ToolState` is what is known of it so far. Which kind of item it is, is decided when it
starts.
"""

from difflib import unified_diff

from msgspec.structs import replace

from hames.domain.approvals import ChangeFiles, Intent, RunCommand, UseTool
from hames.domain.ids import CallId, ItemId
from hames.domain.items import (
    CommandExecution,
    FileChange,
    FileUpdate,
    ItemStatus,
    Plan,
    PlanEntry,
    ToolCall,
    ToolResult,
)
from hames.domain.json import Json
from hames.domain.value import Value

AcpItem = CommandExecution | FileChange | ToolCall
ENTRY = {"pending": "pending", "in_progress": "inProgress", "completed": "completed"}


class ToolState(Value):
    """What the agent has said about one call; the latest of each member."""

    call_id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    raw_input: Json = None
    text: str = ""
    changes: tuple[FileUpdate, ...] = ()

    def updated(self, update: dict[str, Json]) -> "ToolState":
        state = self
        for member, name in (("title", "title"), ("kind", "kind"), ("status", "status")):
            if isinstance(value := update.get(member), str):
                state = replace(state, **{name: value})
        if update.get("rawInput") is not None:
            state = replace(state, raw_input=update["rawInput"])
        if isinstance(content := update.get("content"), list):
            state = replace(state, text=_text(content), changes=_changes(content) or state.changes)
        return state

    @property
    def ended(self) -> ItemStatus | None:
        return {"completed": "completed", "failed": "failed", "cancelled": "interrupted"}.get(self.status)  # type: ignore[return-value]


def opened_item(state: ToolState, item_id: ItemId, step: int, cwd: str) -> AcpItem:
    call_id = CallId(state.call_id)
    if state.kind == "execute":
        return CommandExecution(id=item_id, step=step, call_id=call_id, command=_command(state), cwd=cwd)
    if state.kind in ("edit", "delete", "move"):
        return FileChange(id=item_id, step=step, call_id=call_id, changes=state.changes)
    name = state.title or state.kind
    return ToolCall(id=item_id, step=step, call_id=call_id, name=name, arguments=state.raw_input)


def completed_item(item: AcpItem, state: ToolState, status: ItemStatus) -> AcpItem:
    result = ToolResult(
        text=state.text, failed=status != "completed", reason="" if status == "completed" else state.text
    )
    match item:
        case CommandExecution():
            return replace(item, status=status, command=_command(state), output=state.text, result=result)
        case FileChange():
            return replace(item, status=status, changes=state.changes, result=result)
        case ToolCall():
            return replace(item, status=status, arguments=state.raw_input, result=result)


def intent(item: AcpItem, state: ToolState) -> Intent:
    match item:
        case CommandExecution(cwd=cwd):
            return RunCommand(command=_command(state), cwd=cwd, unsandboxed=True)
        case FileChange() if state.changes:
            return ChangeFiles(changes=state.changes)
        case _:
            return UseTool(name=state.title or state.kind, arguments=state.raw_input)


def plan_item(entries: list[Json], item_id: ItemId, step: int) -> Plan:
    told: list[PlanEntry] = []
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            status = ENTRY.get(str(entry.get("status")), "pending")
            told.append(PlanEntry(step=entry["content"], status=status))  # type: ignore[arg-type]
    text = "\n".join(entry.step for entry in told)
    return Plan(id=item_id, step=step, call_id=CallId(""), text=text, entries=tuple(told))


def _command(state: ToolState) -> str:
    match state.raw_input:
        case {"command": str(command)} if command:
            return command
        case {"command": [*words]} if words:
            return " ".join(map(str, words))
        case _:
            return state.title.strip("`") or "a command"


def _text(content: list[Json]) -> str:
    parts: list[str] = []
    for one in content:
        match one:
            case {"type": "content", "content": {"type": "text", "text": str(text)}}:
                parts.append(text)
            case _:
                pass
    return "\n".join(parts)


def _changes(content: list[Json]) -> tuple[FileUpdate, ...]:
    changes: list[FileUpdate] = []
    for one in content:
        match one:
            case {"type": "diff", "path": str(path), "newText": str(new)}:
                old = one.get("oldText")
                before = old if isinstance(old, str) else ""
                name = path.lstrip("/")
                heads = ("/dev/null" if old is None else f"a/{name}", f"b/{name}")
                lines = unified_diff(before.splitlines(keepends=True), new.splitlines(keepends=True), *heads)
                diff = "".join(
                    line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
                )
                changes.append(FileUpdate(path=path, kind="add" if old is None else "modify", diff=diff))
            case _:
                pass
    return tuple(changes)
