"""The output of a response: its items in order, and the stream events that build them."""

from hames.domain import items
from hames.domain.approvals import Approval
from hames.domain.ids import ItemId, ThreadId
from hames.domain.json import Json
from hames.protocols.describe import approval_question, intent_members, tool_arguments, tool_name
from hames.protocols.openai.conversation import item_name
from hames.protocols.openai.tools import ClientTools, argument_text

SERVER = "hames"
"""The label of the agent's own tools, which are shown as calls of an MCP server."""

Events = list[dict[str, Json]]


class ResponseOutput:
    def __init__(self, own_tools: ClientTools) -> None:
        """`own_tools`: those that the client carries out. Their calls come at the end."""
        self.items: list[dict[str, Json]] = []
        self._own_tools = own_tools
        self._places: dict[ItemId, int] = {}
        self._lengths: dict[ItemId, int] = {}

    def started(self, item: items.Item) -> Events:
        if isinstance(item, items.UserMessage | items.Compaction) or self._is_clients(item):
            return []
        place = self._places[item.id] = len(self.items)
        self._lengths[item.id] = 0
        shown = output_item(item, self._own_tools.thread_id)
        self.items.append(shown)
        at = {"output_index": place, "item_id": shown["id"]}
        events: Events = [{"type": "response.output_item.added", "output_index": place, "item": _opened(shown)}]
        match item:
            case items.AgentMessage():
                part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
                events.append({"type": "response.content_part.added", **at, "content_index": 0, "part": part})
            case items.Reasoning():
                part = {"type": "summary_text", "text": ""}
                events.append({"type": "response.reasoning_summary_part.added", **at, "summary_index": 0, "part": part})
            case _:
                events.append({"type": "response.mcp_call.in_progress", **at})
        return events

    def extended(self, item: items.Item, text: str) -> Events:
        if item.id not in self._places:
            return []
        place = self._places[item.id]
        at = {"output_index": place, "item_id": self.items[place]["id"]}
        match item:
            case items.AgentMessage():
                self._lengths[item.id] += len(text)
                event = {"type": "response.output_text.delta", **at, "content_index": 0, "delta": text, "logprobs": []}
                return [event]
            case items.Reasoning():
                self._lengths[item.id] += len(text)
                return [{"type": "response.reasoning_summary_text.delta", **at, "summary_index": 0, "delta": text}]
            case _:
                return []

    def completed(self, item: items.Item) -> Events:
        if isinstance(item, items.UserMessage | items.Compaction) or self._is_clients(item):
            return []
        events = [] if item.id in self._places else self.started(item)
        place = self._places[item.id]
        shown = self.items[place] = output_item(item, self._own_tools.thread_id)
        at = {"output_index": place, "item_id": shown["id"]}
        match item:
            case items.AgentMessage(text=text):
                if rest := text[self._lengths[item.id] :]:
                    events += self.extended(item, rest)
                at["content_index"] = 0
                events.append({"type": "response.output_text.done", **at, "text": text, "logprobs": []})
                events.append({"type": "response.content_part.done", **at, "part": shown["content"][0]})
            case items.Reasoning():
                text = _reasoning_text(item)
                if rest := text[self._lengths[item.id] :]:
                    events += self.extended(item, rest)
                at["summary_index"] = 0
                events.append({"type": "response.reasoning_summary_text.done", **at, "text": text})
                part = {"type": "summary_text", "text": text}
                events.append({"type": "response.reasoning_summary_part.done", **at, "part": part})
            case _:
                done = {"type": "response.mcp_call_arguments.done", **at, "arguments": shown["arguments"]}
                how = "completed" if item.status == "completed" else "failed"
                events += [done, {"type": f"response.mcp_call.{how}", **at}]
        return [*events, {"type": "response.output_item.done", "output_index": place, "item": shown}]

    def called(self, call: items.ToolCall) -> Events:
        """A call of the client's own tool."""
        place = len(self.items)
        shown = self._own_tools.output_item(call)
        self.items.append(shown)
        at = {"output_index": place, "item_id": shown["id"]}
        if shown["type"] == "custom_tool_call":
            member, kind = "input", "response.custom_tool_call_input"
            done = {"type": f"{kind}.done", **at, "input": shown["input"]}
        else:
            member, kind = "arguments", "response.function_call_arguments"
            done = {"type": f"{kind}.done", **at, "name": shown["name"], "arguments": shown["arguments"]}
        opened = {**shown, member: "", "status": "in_progress"}
        return [
            {"type": "response.output_item.added", "output_index": place, "item": opened},
            {"type": f"{kind}.delta", **at, "delta": shown[member]},
            done,
            {"type": "response.output_item.done", "output_index": place, "item": shown},
        ]

    def asked(self, approval: Approval) -> Events:
        place = len(self.items)
        shown = approval_request(approval)
        self.items.append(shown)
        return [
            {"type": "response.output_item.added", "output_index": place, "item": shown},
            {"type": "response.output_item.done", "output_index": place, "item": shown},
        ]

    def _is_clients(self, item: items.Item) -> bool:
        return isinstance(item, items.ToolCall) and item.name in self._own_tools


def _opened(shown: dict[str, Json]) -> dict[str, Json]:
    match shown["type"]:
        case "message":
            return {**shown, "content": [], "status": "in_progress"}
        case "reasoning":
            return {**shown, "summary": []}
        case _:
            return {**shown, "output": None, "error": None, "status": "in_progress"}


def output_item(item: items.Item, thread_id: ThreadId | None) -> dict[str, Json]:
    match item:
        case items.AgentMessage(text=text):
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            status = "completed" if item.status == "completed" else "incomplete"
            return {
                "id": item_name("msg", thread_id, item.id),
                "type": "message",
                "role": "assistant",
                "status": status,
                "content": [part],
            }
        case items.Reasoning():
            text = _reasoning_text(item)
            return {
                "id": item_name("rs", thread_id, item.id),
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": text}],
            }
        case _:
            return _tool_call(item, thread_id)


def _tool_call(item: items.Item, thread_id: ThreadId | None) -> dict[str, Json]:
    assert isinstance(item, items.ToolItem)
    result = item.result
    failed = item.status not in ("running", "completed")
    output = getattr(item, "output", "") or (result.text if result is not None else "")
    return {
        "id": item_name("mcp", thread_id, item.id),
        "type": "mcp_call",
        "server_label": SERVER,
        "name": tool_name(item),
        "arguments": argument_text(tool_arguments(item)),
        "output": None if failed else output,
        "error": _error(items.reason_of(item) or output or item.status) if failed else None,
        "status": "failed" if failed else "completed" if item.status == "completed" else "in_progress",
    }


def _error(why: str) -> Json:
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": why}]}


def approval_request(approval: Approval) -> dict[str, Json]:
    about = intent_members(approval.intent)
    return {
        "id": approval.id,
        "type": "mcp_approval_request",
        "server_label": SERVER,
        "name": str(about.get("tool", about["kind"])),
        "arguments": argument_text({**about, "question": approval_question(approval)}),
    }


def _reasoning_text(item: items.Reasoning) -> str:
    return item.summary or item.text
