"""How a tool call looks in an editor, in both versions: its title, kind, places and input."""

from collections.abc import Iterator
from typing import assert_never

from hames.domain import items
from hames.domain.errors import InvalidCommand, NotFound
from hames.domain.ids import ItemId
from hames.domain.json import Json
from hames.domain.state import ThreadState
from hames.domain.value import Value
from hames.protocols.acp.messages.v1 import Diff, ToolCallLocation, ToolKind

TITLE_CHARS = 300
KINDS: dict[str, ToolKind] = {
    "read": "read",
    "list": "search",
    "grep": "search",
    "glob": "search",
    "search": "search",
    "edit": "edit",
    "multi_edit": "edit",
    "write": "edit",
    "patch": "edit",
    "shell": "execute",
    "process": "execute",
    "web_fetch": "fetch",
    "web_search": "fetch",
    "plan": "think",
}
"""By the name of one of our tools; any other is `other`."""


class ToolView(Value):
    title: str
    name: str
    kind: ToolKind
    locations: list[ToolCallLocation] | None = None
    raw_input: Json = None


def tool_view(item: items.ToolItem) -> ToolView:
    match item:
        case items.CommandExecution(command=command, cwd=cwd):
            raw = {"command": command, "cwd": cwd}
            return ToolView(title=_title(command), name="shell", kind="execute", raw_input=raw)
        case items.FileChange(changes=changes):
            kind = "delete" if changes and all(one.kind == "delete" for one in changes) else "edit"
            places = [ToolCallLocation(path=one.path, line=_first_line(one)) for one in changes]
            return ToolView(title=_title(_changed(changes)), name="edit", kind=kind, locations=places)
        case items.McpToolCall(server=server, tool=tool, arguments=arguments):
            title = f"{server}: {tool}"
            return ToolView(title=title, name=f"{server}/{tool}", kind="other", raw_input=arguments)
        case items.WebSearch(query=query):
            title = _title(f"Search the web: {query}")
            return ToolView(title=title, name="web_search", kind="fetch", raw_input={"query": query})
        case items.Plan():
            return ToolView(title="items.Plan", name="plan", kind="think")
        case items.ToolCall(name=name, arguments=arguments):
            return ToolView(
                title=_title(_called(name, arguments)),
                name=name,
                kind=KINDS.get(name, "other"),
                locations=_places(arguments),
                raw_input=arguments,
            )
        case items.Artifact(path=path, title=title):
            places = [ToolCallLocation(path=path)]
            return ToolView(title=_title(title or path), name="artifact", kind="other", locations=places)
        case _ as never:
            assert_never(never)


def check_cancel(state: ThreadState, item_id: str) -> None:
    """Whether a request to cancel one call can be answered. Raises `HarnessError`.

    None of our calls says that it can be cancelled by itself (`capabilities.cancel`), so only one that has ended can.
    """
    item = state.item(ItemId(item_id))
    if not isinstance(item, items.ToolItem):
        raise NotFound(f"no tool call {item_id!r} in this session")
    if item.status == "running":
        raise InvalidCommand("this call cannot be cancelled by itself; use session/cancel")


def _title(text: str) -> str:
    text = " ".join(text.split()) or "…"
    return text if len(text) <= TITLE_CHARS else f"{text[:TITLE_CHARS]}…"


def _changed(changes: tuple[items.FileUpdate, ...]) -> str:
    """
    >>> _changed((items.FileUpdate(path="/w/a.py", kind="modify", diff=""),))
    'Edit /w/a.py'
    """
    words = {"add": "Create", "modify": "Edit", "delete": "Delete"}
    for change in changes:
        more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        return f"{words[change.kind]} {change.path}{more}"
    return "Edit files"


def _called(name: str, arguments: Json) -> str:
    """
    >>> _called("read", {"path": "/w/a.py", "limit": 3})
    'read /w/a.py'
    """
    if isinstance(arguments, dict):
        for member in ("path", "pattern", "query", "url", "command", "question"):
            if isinstance(value := arguments.get(member), str) and value:
                return f"{name} {value}"
    return name or "tool"


def _places(arguments: Json) -> list[ToolCallLocation] | None:
    """Only absolute paths: a client resolves no others."""
    match arguments:
        case {"path": str(path), "offset": int(line)} if path.startswith("/") and line > 0:
            return [ToolCallLocation(path=path, line=line)]
        case {"path": str(path)} if path.startswith("/"):
            return [ToolCallLocation(path=path)]
        case _:
            return None


def _first_line(change: items.FileUpdate) -> int | None:
    """
    >>> _first_line(items.FileUpdate(path="/a", kind="modify", diff="--- a/a\\n+++ b/a\\n@@ -3,2 +4,2 @@\\n x\\n"))
    4
    """
    at = change.diff.find("@@ -")
    if at < 0:
        return None
    line = change.diff[at:].partition("\n")[0].partition("+")[2].partition(",")[0].partition(" ")[0]
    return int(line) if line.isdigit() and int(line) > 0 else None


def diffs(change: items.FileUpdate) -> Iterator[Diff]:
    """A unified diff as v1 has it: the text before and after, one pair for each hunk.

    >>> hunk = "--- a/a\\n+++ b/a\\n@@ -1,2 +1,2 @@\\n a\\n-b\\n+c\\n"
    >>> list(diffs(items.FileUpdate(path="/a", kind="modify", diff=hunk)))
    [Diff(path='/a', new_text='a\\nc\\n', old_text='a\\nb\\n')]
    """
    hunks = _hunks(change.diff)
    if not hunks:
        yield Diff(path=change.path, new_text="", old_text=None if change.kind == "add" else "")
    for old, new in hunks:
        yield Diff(path=change.path, new_text=new, old_text=None if change.kind == "add" else old)


def _hunks(diff: str) -> list[tuple[str, str]]:
    hunks: list[tuple[list[str], list[str]]] = []
    last: list[list[str]] = []
    for line in diff.split("\n"):
        if line.startswith("@@"):
            hunks.append(([], []))
            continue
        if not hunks:
            continue  # the names of the files
        old, new = hunks[-1]
        match line[:1]:
            case " ":
                last = [old, new]
            case "-":
                last = [old]
            case "+":
                last = [new]
            case "\\":  # no line end behind the last line
                for side in last:
                    side[-1] = side[-1].removesuffix("\n")
                continue
            case _:
                continue
        for side in last:
            side.append(f"{line[1:]}\n")
    return [("".join(old), "".join(new)) for old, new in hunks]


def git_patch(changes: tuple[items.FileUpdate, ...]) -> str:
    return "".join(one.diff if one.diff.endswith("\n") or not one.diff else f"{one.diff}\n" for one in changes)


def raw_output(item: items.ToolItem) -> Json:
    match item:
        case items.CommandExecution(exit_code=int(code)):
            return {"exitCode": code}
        case items.McpToolCall(structured=structured):
            return structured
        case _:
            return None
