"""Tool calls and messages of an ACP agent as our items. Pure.

A call is told piece by piece; `ToolState` is what is known of it so far. Which kind of item it is, is decided when it
starts.
"""

import binascii
import re
from base64 import b64decode
from difflib import unified_diff
from typing import Literal

from msgspec.structs import replace

from hames.domain import items
from hames.domain.approvals import ChangeFiles, Intent, RunCommand, UseTool
from hames.domain.ids import CallId, ItemId
from hames.domain.json import Json
from hames.domain.value import Value

AcpItem = items.CommandExecution | items.FileChange | items.ToolCall
ENTRY = {"pending": "pending", "in_progress": "inProgress", "completed": "completed", "cancelled": "failed"}
ENDED: dict[str, items.ItemStatus] = {"completed": "completed", "failed": "failed", "cancelled": "interrupted"}
_FENCED = re.compile(r"\A```[^\n`]*\n(.*?)\n?```\s*\Z", re.DOTALL)


class ToolState(Value):
    """What the agent has said about one call; the latest of each member."""

    call_id: str
    title: str = ""
    name: str = ""
    kind: str = "other"
    status: str = "pending"
    raw_input: Json = None
    text: str = ""
    changes: tuple[items.FileUpdate, ...] = ()
    locations: tuple[str, ...] = ()
    terminals: tuple[str, ...] = ()
    exit_code: int | None = None

    def updated(self, update: dict[str, Json]) -> "ToolState":
        state = self
        for member in ("title", "name", "kind", "status"):
            if isinstance(value := update.get(member), str):
                state = replace(state, **{member: value})
        if update.get("rawInput") is not None:
            state = replace(state, raw_input=update["rawInput"])
        if isinstance(content := update.get("content"), list):
            state = replace(
                state, text=_text(content), changes=_changes(content) or state.changes, terminals=_terminals(content)
            )
        if isinstance(places := update.get("locations"), list):
            paths = (one["path"] for one in places if isinstance(one, dict) and isinstance(one.get("path"), str))
            state = replace(state, locations=tuple(paths))
        code = _exit_code(update)
        return state if code is None else replace(state, exit_code=code)

    def with_content(self, content: Json) -> "ToolState":
        """One more piece of content (version 2)."""
        text = "\n".join(one for one in (self.text, _text([content])) if one)
        changes, terminals = (*self.changes, *_changes([content])), (*self.terminals, *_terminals([content]))
        return replace(self, text=text, changes=changes, terminals=terminals)

    @property
    def ended(self) -> items.ItemStatus | None:
        return ENDED.get(self.status)

    @property
    def is_command(self) -> bool:
        """Some agents call every tool `other`: what has a command is one, so that rules about commands hold."""
        named = isinstance(self.raw_input, dict) and isinstance(self.raw_input.get("command"), str)
        return self.kind == "execute" or (self.kind == "other" and named)

    @property
    def is_ready(self) -> bool:
        """Whether it is known what is called. Agents begin to tell of a call before its arguments are there."""
        return self.status != "pending" or bool(self.raw_input or self.changes or self.text)

    @property
    def is_announced(self) -> bool:
        """Whether it has not begun: the agent may still ask about it."""
        return self.status == "pending" and not self.text

    @property
    def paths(self) -> set[str]:
        return {one.path for one in self.changes} | set(self.locations)


def opened_item(state: ToolState, item_id: ItemId, step: int, cwd: str) -> AcpItem:
    call_id = CallId(state.call_id)
    if state.is_command:
        return items.CommandExecution(id=item_id, step=step, call_id=call_id, command=command_of(state), cwd=cwd)
    if state.kind in ("edit", "delete", "move"):
        return items.FileChange(id=item_id, step=step, call_id=call_id, changes=state.changes)
    return items.ToolCall(id=item_id, step=step, call_id=call_id, name=_name(state), arguments=_arguments(state))


def completed_item(item: AcpItem, state: ToolState, status: items.ItemStatus, output: str = "") -> AcpItem:
    """`output` is what was streamed of it."""
    text = plain_text(state.text) or output
    failed = status != "completed"
    result = items.ToolResult(text=text, failed=failed, reason=text if failed else "")
    match item:
        case items.CommandExecution():
            code = state.exit_code if state.exit_code is not None else 0 if status == "completed" else None
            return replace(item, status=status, command=command_of(state), exit_code=code, result=result)
        case items.FileChange():
            return replace(item, status=status, changes=state.changes, result=result)
        case items.ToolCall():
            return replace(item, status=status, name=_name(state), arguments=_arguments(state), result=result)


def intent(item: AcpItem, state: ToolState) -> Intent:
    match item:
        case items.CommandExecution(cwd=cwd):
            return RunCommand(command=command_of(state), cwd=cwd, unsandboxed=True)
        case items.FileChange() if state.changes:
            return ChangeFiles(changes=state.changes)
        case items.FileChange() if state.locations:  # it has not said what it will write, but where
            updates = (items.FileUpdate(path=path, kind="modify", diff="") for path in state.locations)
            return ChangeFiles(changes=tuple(updates))
        case _:
            return UseTool(name=_name(state), arguments=_arguments(state))


def plan_item(entries: list[Json], item_id: ItemId, step: int) -> items.Plan:
    told: list[items.PlanEntry] = []
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            status = ENTRY.get(str(entry.get("status")), "pending")
            told.append(items.PlanEntry(step=entry["content"], status=status))  # type: ignore[arg-type]
    text = "\n".join(entry.step for entry in told)
    return items.Plan(id=item_id, step=step, call_id=CallId(""), text=text, entries=tuple(told))


def block_text(block: Json) -> str:
    """A content block as text; empty for what cannot be shown as text."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource_link", "uri": str(uri)}:
            name = block.get("title") or block.get("name")
            return f"[{name if isinstance(name, str) and name else uri}]({uri})"
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "image" | "audio" as kind}:
            return f"[{kind}]"
        case _:
            return ""


def plain_text(text: str) -> str:
    """Output without the code fence that some agents put around it."""
    fenced = _FENCED.match(text)
    return fenced.group(1) if fenced is not None and "\n```" not in fenced.group(1) else text


def terminal_bytes(data: Json) -> bytes:
    """What version 2 sends of a terminal."""
    try:
        return b64decode(data) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        return b""


def command_of(state: ToolState) -> str:
    match state.raw_input:
        case {"command": str(command)} if command:
            return command
        case {"command": [*words]} if words:
            return " ".join(map(str, words))
        case {"cmd": str(command)} if command:
            return command
        case _:
            return state.title.strip("`") or "a command"


def _name(state: ToolState) -> str:
    return state.title or state.name or state.kind


def _arguments(state: ToolState) -> Json:
    if state.raw_input is not None:
        return state.raw_input
    return {"locations": list(state.locations)} if state.locations else None


def _text(content: list[Json]) -> str:
    parts = (
        block_text(one.get("content")) for one in content if isinstance(one, dict) and one.get("type") == "content"
    )
    return "\n".join(part for part in parts if part)


def _terminals(content: list[Json]) -> tuple[str, ...]:
    named = (one.get("terminalId") for one in content if isinstance(one, dict) and one.get("type") == "terminal")
    return tuple(one for one in named if isinstance(one, str))


def _exit_code(update: dict[str, Json]) -> int | None:
    match update:
        case {"_meta": {"terminal_exit": {"exit_code": int(code)}}}:
            return code
        case {"rawOutput": {"exit_code": int(code)} | {"exitCode": int(code)} | {"metadata": {"exit": int(code)}}}:
            return code
        case _:
            return None


def _changes(content: list[Json]) -> tuple[items.FileUpdate, ...]:
    changes: list[items.FileUpdate] = []
    for one in content:
        match one:
            case {"type": "diff", "path": str(path), "newText": str(new)}:
                changes.append(_change(path, one.get("oldText"), new))
            case {"type": "diff", "changes": [*files]}:
                patch = one.get("patch")
                text = patch.get("text") if isinstance(patch, dict) else ""
                changes += _patched(files, text if isinstance(text, str) else "")
            case _:
                pass
    return tuple(changes)


def _change(path: str, old: Json, new: str) -> items.FileUpdate:
    """Version 1: the texts before and after."""
    before = old if isinstance(old, str) else ""
    name = path.lstrip("/")
    heads = ("/dev/null" if old is None else f"a/{name}", f"b/{name}")
    lines = unified_diff(before.splitlines(keepends=True), new.splitlines(keepends=True), *heads)
    diff = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return items.FileUpdate(path=path, kind="add" if old is None else "modify", diff=diff)


def _patched(files: list[Json], patch: str) -> list[items.FileUpdate]:
    """Version 2: what happened to which file, and a patch of git's for all of them."""
    kinds: dict[str, Literal["add", "modify", "delete"]] = {"add": "add", "copy": "add", "delete": "delete"}
    parts = [part for part in re.split(r"(?m)^(?=diff --git )", patch) if part.strip()]
    updates: list[items.FileUpdate] = []
    for number, file in enumerate(files):
        match file:
            case {"operation": str(operation), "path": str(path)}:
                diff = patch if len(files) == 1 else parts[number] if len(parts) == len(files) else ""
                updates.append(items.FileUpdate(path=path, kind=kinds.get(operation, "modify"), diff=diff))
            case _:
                pass
    return updates
