"""AG-UI: one run per request, told as events (`RUN_STARTED` … `RUN_FINISHED`).

`threadId` is the client's own name: it is kept with the thread, or it is the id of a thread of ours. A run that needs
its client finishes: with the calls of frontend tools, whose results come as tool messages of the next run, or with the
outcome `interrupt`, which the next run answers with `resume`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from hames.codecs.jsontext import encode
from hames.codecs.sse import event
from hames.domain import items
from hames.domain.approvals import Approval, Elicit
from hames.domain.commands import ListThreads, ReadThread, ThreadPage
from hames.domain.errors import HarnessError, NotFound, TurnBusy
from hames.domain.events import ItemCompleted, ItemDelta, ItemStarted
from hames.domain.grants import grant_for
from hames.domain.ids import ItemId, ThreadId
from hames.domain.json import Json
from hames.domain.options import Overrides
from hames.domain.state import Change, ThreadState, Turn, is_voided
from hames.domain.usage import Usage
from hames.protocols.agui.inbound import AguiRequest, arguments_text, read_input, thread_key
from hames.protocols.describe import approval_question, intent_members, prompt_text, tool_arguments, tool_name
from hames.protocols.run_session import EVENTS, Run, RunSession
from hames.protocols.session import Action, Execute, Outcome

VERSION = "1.0"
META = "agui"
"""The member of a thread's `meta` that has the client's name for it."""
PAGES, PAGE = 10, 100


class _Search(NamedTuple):
    pages: int
    cursor: str | None


class AguiSession(RunSession):
    protocol = "agui"
    request: AguiRequest
    _makes_thread = False

    def read(self, body: bytes) -> Sequence[Action]:
        self.request = read_input(body)
        self._is_begun = False
        self._open: dict[ItemId, int] = {}
        """Messages that were started, with how much of their text was sent."""
        self._before: dict[str, Usage] | None = None
        name = self.request.input.thread_id
        self.keys = {thread_key(name)}
        if self.turn_id is not None and self.state is not None:
            return self.start(self._run(self.state.id))
        if (known := self.known.get(thread_key(name))) is not None:
            return [Execute(command=ReadThread(thread_id=known[0]), context=name)]
        return [Execute(command=ReadThread(thread_id=ThreadId(name)), context=name)]

    def _run(self, thread_id: ThreadId | None) -> Run:
        request = self.request
        overrides = Overrides(instructions=request.instructions, client_tools=request.tools)
        is_new = thread_id is None
        return Run(
            thread_id=thread_id,
            history=request.past if is_new else (),
            content=tuple(part for message in request.new for part in message.content),
            client_id=(request.new[-1].id if request.new else "") or None,
            results=request.results,
            answers=request.answers,
            overrides=overrides,
            meta={META: request.input.thread_id},
        )

    def fit(self, run: Run, state: ThreadState) -> Run | None:
        """A client sends a message again until the assistant has said something behind it."""
        told = {
            item.client_id: number
            for turn in state.turns
            if turn.status in ("running", "completed")
            for item in turn.items
            if isinstance(item, items.UserMessage) and item.client_id
            for number, one in enumerate(self.request.new, 1)
            if one.id == item.client_id
        }
        left = self.request.new[max(told.values(), default=0) :]
        if told and not left and not run.answers and not run.results and state.running is None:
            self._open_run()  # the client has lost the answer
            self._emit("MESSAGES_SNAPSHOT", messages=thread_messages(state.turns))
            self._finish({"type": "success"})
            return None
        return replace(run, content=tuple(part for message in left for part in message.content))

    # -- which thread it is

    def looked_up(self, action: Execute, outcome: Outcome) -> Sequence[Action]:
        name = self.request.input.thread_id
        match action.context, outcome:
            case str(), ThreadState(id=thread_id):
                return self._go_on_in(thread_id)
            case _Search(pages=pages), ThreadPage(threads=threads, next_cursor=cursor):
                for one in threads:
                    if not one.foreign and isinstance(one.meta, dict) and one.meta.get(META) == name:
                        return self._go_on_in(one.id)
                if cursor is None or pages <= 1:
                    return self._start_new()
                return self._search(_Search(pages - 1, cursor))
            case _:
                return []

    def lookup_failed(self, action: Execute, error: HarnessError) -> Sequence[Action] | None:
        if isinstance(action.context, str) and isinstance(error, NotFound):
            return self._search(_Search(PAGES, None))
        return None

    def _search(self, search: _Search) -> Sequence[Action]:
        return [Execute(command=ListThreads(limit=PAGE, cursor=search.cursor, archived=None), context=search)]

    def _start_new(self) -> Sequence[Action]:
        """Another run of this name may have looked for the thread at the same time, and have found none either."""
        name = thread_key(self.request.input.thread_id)
        if (known := self.known.get(name)) is not None:
            return self._go_on_in(known[0])
        if name in self.known.coming:
            raise TurnBusy("another run is about to start this thread")
        self.known.coming.add(name)
        self._makes_thread = True
        return self.start(self._run(None))

    def _made(self) -> None:
        """The thread is known by its name now, or there will be none."""
        if self._makes_thread:
            self._makes_thread = False
            self.known.coming.discard(thread_key(self.request.input.thread_id))

    def closed(self) -> Sequence[Action]:
        self._made()
        return super().closed()

    def _go_on_in(self, thread_id: ThreadId) -> Sequence[Action]:
        self.known.add(thread_key(self.request.input.thread_id), thread_id)
        return self.start(self._run(thread_id))

    # -- events

    def begun(self, turn: Turn, at_ms: int) -> None:  # noqa: ARG002 - events need no time
        assert self.state is not None
        self.known.add(thread_key(self.request.input.thread_id), self.state.id)
        self._made()
        self.headers["X-Hames-Thread"] = self.state.id
        self._before = turn.spent
        self._open_run()
        earlier = [one for one in self.state.turns if one.id != turn.id]
        if earlier and not self.request.past and self.request.new:  # the client knows nothing of it
            known = [*thread_messages(earlier), *self.request.input.messages]
            self._emit("MESSAGES_SNAPSHOT", messages=known)

    def _open_run(self) -> None:
        self.media = EVENTS
        self._is_begun = True
        given = self.request.input
        self._emit("RUN_STARTED", threadId=given.thread_id, runId=given.run_id, protocolVersion=VERSION)
        if given.state is not None:
            self._emit("STATE_SNAPSHOT", snapshot=given.state)

    def project(self, change: Change) -> None:
        match change.record.event:
            case ItemStarted(item=item):
                self._start_item(item)
            case ItemDelta(item_id=item_id, stream=stream, text=text):
                item = change.after.item(item_id)
                if isinstance(item, items.AgentMessage) or (isinstance(item, items.Reasoning) and stream == "summary"):
                    self._extend(item, text)
            case ItemCompleted(item=item):
                self._complete(item)
            case _:
                pass

    def _start_item(self, item: items.Item) -> None:
        match item:
            case items.AgentMessage():
                self._open[item.id] = 0
                self._emit("TEXT_MESSAGE_START", messageId=item.id, role="assistant")
            case items.Reasoning():
                self._open[item.id] = 0
                self._emit("REASONING_START", messageId=item.id)
                self._emit("REASONING_MESSAGE_START", messageId=item.id, role="reasoning")
            case _ if isinstance(item, items.ToolItem):
                self._open[item.id] = 0
                self._call(_call_id(item), tool_name(item), tool_arguments(item))
            case _:
                pass

    def _call(self, call_id: str, name: str, arguments: Json) -> None:
        self._emit("TOOL_CALL_START", toolCallId=call_id, toolCallName=name)
        self._emit("TOOL_CALL_ARGS", toolCallId=call_id, delta=arguments_text(arguments))
        self._emit("TOOL_CALL_END", toolCallId=call_id)

    def _extend(self, item: items.Item, text: str) -> None:
        if item.id not in self._open or not text:
            return
        self._open[item.id] += len(text)
        kind = "TEXT_MESSAGE_CONTENT" if isinstance(item, items.AgentMessage) else "REASONING_MESSAGE_CONTENT"
        self._emit(kind, messageId=item.id, delta=text)

    def _complete(self, item: items.Item) -> None:
        if isinstance(item, items.UserMessage):
            return
        if item.id not in self._open and not self._is_told(item):
            self._start_item(item)
        sent = self._open.pop(item.id, None)
        match item:
            case items.AgentMessage(text=text):
                self._open[item.id] = sent or 0
                self._extend(item, text[sent or 0 :])
                del self._open[item.id]
                self._emit("TEXT_MESSAGE_END", messageId=item.id)
            case items.Reasoning():
                self._open[item.id] = sent or 0
                self._extend(item, (item.summary or item.text)[sent or 0 :])
                del self._open[item.id]
                self._emit("REASONING_MESSAGE_END", messageId=item.id)
                self._emit("REASONING_END", messageId=item.id)
            case _ if isinstance(item, items.ToolItem) and not self._is_frontend(item):
                content = tool_text(item)
                name = f"{item.id}-result"
                self._emit("TOOL_CALL_RESULT", messageId=name, toolCallId=_call_id(item), content=content, role="tool")
            case _:
                pass  # the client has the results of its own tools

    def _is_told(self, item: items.Item) -> bool:
        """Whether it was started in the run before, which finished with it."""
        turn = self.state.running if self.state is not None else None
        return turn is not None and any(one.id == item.id for one in turn.items[: self.first_item])

    def _is_frontend(self, item: items.ToolItem) -> bool:
        own = {tool.name for tool in self.state.settings.client_tools} if self.state is not None else set[str]()
        return isinstance(item, items.ToolCall) and item.name in own

    # -- the end of a run

    def called(self, calls: Sequence[items.ToolCall]) -> None:
        for call in calls:
            if not call.id:  # not started here; the client carries it out at once
                self._call(call.call_id, call.name, call.arguments)
        self._finish({"type": "success", "pendingToolCallIds": [call.call_id for call in calls]})

    def asks(self, approvals: Sequence[Approval]) -> None:
        assert self.state is not None
        found = [interrupt(one, self.state) for one in approvals]
        self._finish({"type": "interrupt", "interrupts": found})

    def ended(self, turn: Turn) -> None:
        if turn.status == "failed" and turn.error is not None:
            self._emit("RUN_ERROR", message=turn.error.message, code=turn.error.info)
            return
        self._finish({"type": "cancelled" if turn.status == "interrupted" else "success"})

    def _finish(self, outcome: Json) -> None:
        given = self.request.input
        usage = _usage(self._before, self.state) if self._before is not None else []
        more: dict[str, Json] = {"usage": usage} if usage else {}
        if given.protocol_version is None:
            outcome = _older_outcome(outcome)
        if outcome is not None:
            more["outcome"] = outcome
        self._emit("RUN_FINISHED", threadId=given.thread_id, runId=given.run_id, **more)

    def refused(self, error: HarnessError) -> None:
        """A run that cannot begin is a run that fails: that is what clients of this protocol show."""
        self._made()
        if not hasattr(self, "request"):
            self.status = 400
            self.write(encode({"error": {"message": str(error), "info": error.info}}))
            return
        if not self._is_begun:
            self._open_run()
        self._emit("RUN_ERROR", message=str(error), code=error.info)

    def _emit(self, kind: str, **members: Json) -> None:
        self.write(event(encode({"type": kind, **members})))


def _older_outcome(outcome: Json) -> Json:
    """Clients before 1.0 name no version and refuse members that they do not know: CopilotKit's runtime is one. They
    see calls of their tools by the results that are missing, unless the run says that it succeeded: assistant-ui does
    not go on then."""
    match outcome:
        case {"type": "interrupt"}:
            return outcome
        case {"type": "success", "pendingToolCallIds": _}:
            return None
        case {"type": "success"}:
            return {"type": "success"}
        case _:
            return None


def interrupt(approval: Approval, state: ThreadState) -> Json:
    item = state.item(approval.item_id)
    schema: Json = {
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "enum": ["once", *(["always"] if _can_last(approval) else []), "reject"],
            },
            "note": {"type": "string"},
        },
        "required": ["decision"],
    }
    if isinstance(approval.intent, Elicit) and not approval.intent.url:
        schema = {"type": "object", "properties": {"content": approval.intent.schema}, "required": ["content"]}
    found: dict[str, Json] = {
        "id": approval.id,
        "reason": "tool_call",
        "message": approval_question(approval),
        "responseSchema": schema,
        "metadata": {"intent": intent_members(approval.intent)},
    }
    return {**found, "toolCallId": _call_id(item)} if isinstance(item, items.ToolItem) else found


def _can_last(approval: Approval) -> bool:
    return not isinstance(approval.intent, Elicit) and grant_for(approval.intent) is not None


def _call_id(item: items.ToolItem) -> str:
    return item.call_id or item.id


def tool_text(item: items.ToolItem) -> str:
    text = getattr(item, "output", "") or (item.result.text if item.result is not None else "")
    return items.reason_of(item) or text


def _usage(before: dict[str, Usage], state: ThreadState | None) -> list[Json]:
    turn = state.turns[-1] if state is not None and state.turns else None
    found: list[Json] = []
    for model, used in (turn.spent if turn is not None else {}).items():
        old = before.get(model, Usage())
        read = used.cache_read_tokens - old.cache_read_tokens
        wrote = used.cache_write_tokens - old.cache_write_tokens
        given = used.input_tokens - old.input_tokens + read + wrote
        made = used.output_tokens - old.output_tokens
        if given or made:
            found.append(
                {
                    "model": model,
                    "inputTokens": given,
                    "outputTokens": made,
                    "totalTokens": given + made,
                    "reasoningTokens": used.thinking_tokens - old.thinking_tokens,
                    "cachedInputTokens": read,
                    "cacheWriteInputTokens": wrote,
                }
            )
    return found


def thread_messages(turns: Sequence[Turn]) -> list[Json]:
    """A conversation, for a client that has none of it."""
    messages: list[Json] = []
    for turn in turns:
        for item in turn.items:
            match item:
                case items.UserMessage(content=content):
                    messages.append({"id": item.id, "role": "user", "content": prompt_text(content)})
                case items.AgentMessage(text=text) if not is_voided(turn, item):
                    messages.append({"id": item.id, "role": "assistant", "content": text})
                case items.Reasoning():
                    messages.append({"id": item.id, "role": "reasoning", "content": item.summary or item.text})
                case _ if isinstance(item, items.ToolItem):
                    made = {"name": tool_name(item), "arguments": arguments_text(tool_arguments(item))}
                    call = {"id": _call_id(item), "type": "function", "function": made}
                    messages.append({"id": item.id, "role": "assistant", "toolCalls": [call]})
                    if item.status != "running":
                        name, text = f"{item.id}-result", tool_text(item)
                        messages.append({"id": name, "role": "tool", "toolCallId": _call_id(item), "content": text})
                case _:
                    pass
    return messages
