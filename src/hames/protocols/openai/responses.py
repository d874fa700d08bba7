"""`/v1/responses`: a thread by `previous_response_id`, streamed or whole, in the background or not.

A response ends with its turn, or with what it needs: a `function_call` of the client's own tools, or an
`mcp_approval_request`, which the next request answers with an `mcp_approval_response`.
"""

from collections.abc import Sequence

from hames.codecs.jsontext import encode
from hames.codecs.sse import event
from hames.domain.approvals import Approval
from hames.domain.events import ItemCompleted, ItemDelta, ItemStarted
from hames.domain.ids import CallId
from hames.domain.items import AgentMessage, Reasoning, ToolCall
from hames.domain.json import NOTHING, Json
from hames.domain.state import Change, ThreadState, Turn
from hames.domain.usage import Usage
from hames.protocols.openai.conversation import response_id, turn_text
from hames.protocols.openai.errors import turn_error
from hames.protocols.openai.inbound import ApiRequest, read_responses
from hames.protocols.openai.output import (
    ResponseOutput,
    approval_request,
    output_item,
)
from hames.protocols.openai.session import ApiSession, prompt_tokens, usage_between
from hames.protocols.openai.tools import ClientTools


class ResponsesSession(ApiSession):
    def decode(self, body: bytes) -> ApiRequest:
        return read_responses(body)

    def reset(self) -> None:
        self._shown = ResponseOutput(ClientTools())
        self._events = 0
        self._before = Usage()
        self._id, self._created = "", 0
        self._held: AgentMessage | None = None
        """Of an answer that a program reads, the newest message: the last one is the answer."""

    def begun(self, turn: Turn, at_ms: int) -> None:
        assert self.state is not None
        self._id, self._created = response_id(self.state.id, turn.id, self.first_item), at_ms // 1000
        self._before = turn.usage
        self._shown = ResponseOutput(ClientTools(self.state))
        self.headers["X-Hames-Thread"] = self.state.id
        self.keys = {f"response:{self._id}"}
        self.leaves_turn = self.request.background
        if self.request.stream:
            self.begin_stream()
            for name in ("created", "in_progress"):
                self._emit({"type": f"response.{name}", "response": self._response("in_progress", None)})
        elif self.request.background:
            self.write(encode(self._response("queued", None)))
            self.has_open_request = False

    def project(self, change: Change) -> None:
        match change.record.event:
            case ItemStarted(item=AgentMessage()) | ItemCompleted(item=AgentMessage()) if self.request.has_one_answer:
                item = change.record.event.item
                self._held = item if isinstance(item, AgentMessage) else self._held
            case ItemStarted(item=item):
                self._emit(*self._shown.started(item))
            case ItemDelta(item_id=item_id, stream=stream, text=text):
                item = change.after.item(item_id)
                # Of a reasoning that has both, the summary is what is shown at the end.
                if isinstance(item, AgentMessage) or (isinstance(item, Reasoning) and stream == "summary"):
                    self._emit(*self._shown.extended(item, text))
            case ItemCompleted(item=item):
                self._emit(*self._shown.completed(item))
            case _:
                pass

    def called(self, calls: Sequence[ToolCall]) -> None:
        for call in calls:
            self._emit(*self._shown.called(call))
        self.keys |= {f"call:{one.call_id}" for one in calls}
        self._finish("completed")

    def asks(self, approvals: Sequence[Approval]) -> None:
        for approval in approvals:
            self._emit(*self._shown.asked(approval))
        self.keys |= {f"approval:{one.id}" for one in approvals}
        self._finish("completed")

    def ended(self, turn: Turn) -> None:
        if self._held is not None and turn.status == "completed" and self.request.answer_tool:
            self._emit(*self._shown.called(answer_call(turn, self.request.answer_tool, self._held)))
        elif self._held is not None:
            self._emit(*self._shown.completed(self._held))
        statuses = {"completed": "completed", "failed": "failed", "interrupted": "cancelled"}
        self._finish(statuses.get(turn.status, "incomplete"))

    def _finish(self, status: str) -> None:
        assert self.state is not None
        turn = self.state.turns[-1]
        self.keys.add(self.note_key(self._answer_text(turn)))
        response = self._response(status, turn)
        if self.request.stream:
            # The stream has no event of its own for a response that was cancelled.
            kind = "incomplete" if status == "cancelled" else status
            self._emit({"type": f"response.{kind}", "response": response})
        else:
            self.write(encode(response))

    def _answer_text(self, turn: Turn) -> str:
        if self.request.has_one_answer:
            return "" if self._held is None or self.request.answer_tool else self._held.text
        return turn_text(turn, self.first_item)

    def _emit(self, *events: dict[str, Json]) -> None:
        if not self.request.stream:
            return
        for one in events:
            self.write(event(encode({**one, "sequence_number": self._events}), name=one["type"]))
            self._events += 1

    def _response(self, status: str, turn: Turn | None) -> dict[str, Json]:
        assert self.state is not None
        request = self.request
        usage = None if turn is None else usage_members(usage_between(self._before, turn))
        more: dict[str, Json] = {
            "created_at": self._created,
            "model": request.model or self.state.settings.model,
            "instructions": request.instructions,
            "metadata": request.metadata or {},
            "previous_response_id": request.previous or None,
            "tools": request.tools,
            "background": request.background,
            "store": request.store,
        }
        return {**response_object(self._id, status, self._shown.items, usage, turn), **more}


def final_message(turn: Turn) -> AgentMessage | None:
    """The answer of a turn that was asked for one, and has ended."""
    if turn.output_schema is NOTHING or turn.status != "completed":
        return None
    return next((item for item in reversed(turn.items) if isinstance(item, AgentMessage)), None)


def demanded_tool(turn: Turn) -> str:
    """The tool that the answer of a turn is a call of, as its request said."""
    match turn.meta:
        case {"openai": {"answerTool": str(name)}}:
            return name
        case _:
            return ""


def answer_call(turn: Turn, name: str, answer: AgentMessage) -> ToolCall:
    """The answer of a turn as the call that the client asked for."""
    return ToolCall(id=answer.id, step=answer.step, call_id=CallId(f"call_{turn.id}"), name=name, arguments=answer.text)


def usage_members(used: Usage) -> Json:
    total = prompt_tokens(used)
    return {
        "input_tokens": total,
        "input_tokens_details": {
            "cached_tokens": used.cache_read_tokens,
            "cache_write_tokens": used.cache_write_tokens,
        },
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": used.thinking_tokens},
        "total_tokens": total + used.output_tokens,
    }


def response_object(name: str, status: str, items: Sequence[Json], usage: Json, turn: Turn | None) -> dict[str, Json]:
    error = None
    if status == "failed" and turn is not None and turn.error is not None:
        error = {"code": turn_error(turn.error.info)[1], "message": turn.error.message}
    return {
        "id": name,
        "object": "response",
        "created_at": 0 if turn is None else turn.started_at_ms // 1000,
        "status": status,
        "error": error,
        "incomplete_details": None,
        "output": list(items),
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "temperature": None,
        "top_p": None,
        "text": {"format": {"type": "text"}},
        "reasoning": {"effort": None, "summary": None},
        "truncation": "disabled",
    }


def stored_response(state: ThreadState, turn: Turn, first_item: int) -> dict[str, Json]:
    """A response as it can be read from its thread at any time."""
    own = ClientTools(state)
    items: list[Json] = []
    answer = final_message(turn)
    status = {"completed": "completed", "failed": "failed", "interrupted": "cancelled"}.get(turn.status, "in_progress")
    for item in turn.items[first_item:]:
        match item:
            case ToolCall(name=name) if name in own:
                items.append(own.output_item(item))
                status = "completed"
                break  # what came after it is another response
            case AgentMessage() if item is answer and (demanded := demanded_tool(turn)):
                items.append(own.output_item(answer_call(turn, demanded, item)))
            case AgentMessage() if answer is not None and item is not answer:
                pass  # said on the way to an answer that a program reads
            case AgentMessage() | Reasoning():
                items.append(output_item(item, state.id))
            case _:
                if hasattr(item, "call_id"):
                    items.append(output_item(item, state.id))
    else:
        if turn.status == "running" and state.approvals:
            items += [approval_request(one) for one in state.approvals]
            status = "completed"
    name = response_id(state.id, turn.id, first_item)
    usage = usage_members(turn.usage) if turn.status != "running" else None
    shown = response_object(name, status, items, usage, turn)
    return {**shown, "model": state.settings.model, "metadata": {}, "tools": [], "previous_response_id": None}
