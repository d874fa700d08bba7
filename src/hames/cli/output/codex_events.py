"""`hames exec --json`: one event a line, in the shape that `codex exec --json` has.

OpenAI's SDKs and others read this shape, some of them strictly: what it has no place for is left out or becomes the
nearest item, and never a new type.
"""

import sys
from typing import TextIO

import anyio
import msgspec

from hames.cli.output.terminal import Ending
from hames.client.appserver import events as agent_events
from hames.domain.display import printable
from hames.domain.foreign import FOREIGN
from hames.domain.json import Json
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m

OWN_SERVER = "hames"
"""Tools of the harness that Codex has no item for are shown as calls of a server with this name."""
KINDS = {"add": "add", "modify": "update", "delete": "delete"}


class CodexEventsView:
    """`RunView` for programs that read Codex's events.

    A run is one turn to them, also when the answer had to be asked for again to fit its schema.
    """

    def __init__(self, out: TextIO, *, notices: list[str], schema: bool) -> None:
        self._out = out
        self._notices = notices
        self._schema = schema
        self._last_number = -1
        self._ids: dict[str, str] = {}
        """Our item ids to the numbered ones of Codex."""
        self._begun = False
        self._todo: dict[str, Json] | None = None
        self._held: dict[str, Json] | None = None
        """With a schema: the last message, which may turn out to be the answer."""

    def opened(self, opened: m.ThreadOpened) -> None:
        self._write("thread.started", thread_id=opened.thread.id)
        for notice in (*self._notices, *([FOREIGN] if opened.thread.foreign else ())):
            self._error_item(notice)

    def handle_event(self, event: agent_events.AgentEvent) -> None:
        match event:
            case agent_events.TurnStarted() if not self._begun:
                self._begun = True
                self._write("turn.started")
            case agent_events.ItemStarted(item=item):
                if (shown := self._tool(item, done=False)) is not None:
                    self._write("item.started", item=shown)
            case agent_events.ItemCompleted(item=item):
                self._completed(item)
            case agent_events.PlanUpdated(plan=plan):
                self._plan(plan)
            case agent_events.Unknown(method="hames/foreign_thread"):
                pass  # said when the thread was opened
            case agent_events.Unknown(params={"severity": "warning", "message": str(message)}):
                self._error_item(message)
            case _:
                pass

    async def decide(self, asked: agent_events.ApprovalAsked) -> m.ApprovalWord | None:  # noqa: ARG002 - a promise of `RunView`
        return None

    def answer(self, answer: Json) -> None:
        """The last message is what a client parses, so it is the JSON alone."""
        if self._held is not None:
            self._held["text"] = msgspec.json.encode(answer).decode()

    def ended(self, ending: Ending) -> None:
        self._release()
        if self._todo is not None:
            self._write("item.completed", item=self._todo)
        if ending.code in (0, 8, 9):  # Codex knows no turn that is completed and unfinished
            self._write("turn.completed", usage=_usage(ending.usage))
            return
        why = ending.why or ("interrupted" if ending.code == 130 else "the turn failed")
        self._write("error", message=why)
        print(f"hames: {printable(why)}", file=sys.stderr)  # clients show it when the exit code is not 0
        if self._begun:
            self._write("turn.failed", error={"message": why})

    async def progress(self) -> None:
        await anyio.sleep_forever()

    def _completed(self, item: wire.ThreadItem) -> None:
        match item:
            case wire.AgentMessageItem(id=item_id, text=text):
                self._release()
                shown: dict[str, Json] = {"id": self._id(item_id), "type": "agent_message", "text": text}
                if self._schema:
                    self._held = shown
                else:
                    self._write("item.completed", item=shown)
            case wire.ReasoningItem(id=item_id, summary=summary, content=content):
                if text := summary or content:
                    self._release()
                    self._write("item.completed", item={"id": self._id(item_id), "type": "reasoning", "text": text})
            case _:
                if (tool := self._tool(item, done=True)) is not None:
                    self._release()
                    self._write("item.completed", item=tool)

    def _tool(self, item: wire.ThreadItem, *, done: bool) -> dict[str, Json] | None:
        """None for an item that is no tool's, and for one that only has an end."""
        match item:
            case wire.CommandExecutionItem(command=command, aggregated_output=output, exit_code=code):
                members: dict[str, Json] = {
                    "type": "command_execution",
                    "command": command,
                    "aggregated_output": (output or "") if done else "",
                    "exit_code": code if isinstance(code, int) else None,
                }
            case wire.FileChangeItem(changes=changes):
                if not done:
                    return None
                files = [{"path": change.path, "kind": KINDS[change.kind]} for change in changes]
                members = {"type": "file_change", "changes": files}
            case wire.McpToolCallItem(server=server, tool=tool, arguments=arguments, result=result):
                members = _call(server, tool, arguments, _content(result) if done else None)
            case wire.WebSearchItem(query=query):
                return {"id": self._id(item.id), "type": "web_search", "query": query}
            case wire.ToolCallItem(name=name, arguments=arguments, result=result):
                members = _call(OWN_SERVER, name, arguments, _content(result) if done else None)
            case wire.ArtifactItem(path=path):
                members = _call(OWN_SERVER, "artifact", {"path": path}, None)
            case _:
                return None
        status = ("completed" if item.status == "completed" else "failed") if done else "in_progress"
        if status == "failed" and members["type"] == "mcp_tool_call":
            members["error"] = {"message": wire.reason_of(item) or "failed"}
        return {"id": self._id(item.id), **members, "status": status}

    def _plan(self, plan: list[wire.PlanEntry]) -> None:
        steps = [{"text": entry.step, "completed": entry.status == "completed"} for entry in plan]
        kind = "item.started" if self._todo is None else "item.updated"
        if self._todo is None:
            self._todo = {"id": self._next_id(), "type": "todo_list"}
        self._todo["items"] = steps
        self._write(kind, item=self._todo)

    def _release(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._write("item.completed", item=held)

    def _error_item(self, message: str) -> None:
        self._write("item.completed", item={"id": self._next_id(), "type": "error", "message": message})

    def _id(self, item_id: str) -> str:
        if item_id not in self._ids:
            self._ids[item_id] = self._next_id()
        return self._ids[item_id]

    def _next_id(self) -> str:
        self._last_number += 1
        return f"item_{self._last_number}"

    def _write(self, kind: str, **members: Json) -> None:
        line = msgspec.json.encode({"type": kind, **members}).decode()
        self._out.write(line.replace("\x7f", "\\u007f") + "\n")
        self._out.flush()


def _call(server: str, tool: str, arguments: Json, content: Json) -> dict[str, Json]:
    return {
        "type": "mcp_tool_call",
        "server": server,
        "tool": tool,
        "arguments": arguments if arguments is not msgspec.UNSET else None,
        "result": content,
        "error": None,
    }


def _content(result: Json) -> Json:
    """A result as MCP's content blocks."""
    if result is msgspec.UNSET or result is None:
        return None
    if isinstance(result, dict):
        structured = result.get("structuredContent")
        if isinstance(content := result.get("content"), list):
            return {"content": content, "structured_content": structured}
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    return {"content": [{"type": "text", "text": text}], "structured_content": None}


def _usage(usage: m.Usage | None) -> Json:
    """Codex counts cached tokens as part of the input."""
    if usage is None:
        usage = m.Usage(input_tokens=0, output_tokens=0)
    read, written, thought = (
        count if isinstance(count, int) else 0
        for count in (usage.cache_read_tokens, usage.cache_write_tokens, usage.thinking_tokens)
    )
    return {
        "input_tokens": usage.input_tokens + read + written,
        "cached_input_tokens": read,
        "cache_write_input_tokens": written,
        "output_tokens": usage.output_tokens,
        "reasoning_output_tokens": thought,
    }
