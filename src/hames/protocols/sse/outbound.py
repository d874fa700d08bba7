"""From a change to the events of the stream. Only whole blocks are told, so every event stands for a kept record."""

from typing import assert_never

import msgspec
from msgspec import UNSET

from hames.domain import approvals, events, items
from hames.domain.foreign import FOREIGN
from hames.domain.grants import always_covers, project_covers
from hames.domain.ids import ItemId, TurnId
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState
from hames.protocols.describe import INTERRUPTED, intent_members, prompt_text, tool_name
from hames.protocols.sse import messages as m

NOT_STARTED = "not executed: the turn ended before"
OUTCOMES: dict[events.TurnStatus, str] = {
    "running": "",
    "completed": "completed",
    "interrupted": "cancelled",
    "failed": "failed",
}


def project(change: Change) -> list[m.SseEvent]:
    event, at = change.record.event, change.record.at_ms // 1000
    match event:
        case events.TurnStarted():
            return [m.Status(state="thinking", message="", timestamp=at)]
        case events.ToolCalled(call=call):
            return [m.ToolCall(id=call.id, name=call.name, input=_input(call.arguments), timestamp=at)]
        case events.ItemStarted(item=item):
            return _start_events(change, item, at)
        case events.ItemCompleted(item=item):
            return _completion_events(item, at)
        case events.ApprovalRequested(approval=approval):
            return [question(change.after, approval, at)]
        case events.ApprovalResolved(approval_id=approval_id, decision=decision, by=by):
            return [
                m.ApprovalResolved(id=approval_id, decision=decision, timestamp=at, by=by or UNSET, ended=event.how)
            ]
        case events.TurnEnded(status=status, error=error):
            said = error.message if error else ""
            ended = m.Status(state="idle", message=said, timestamp=at, outcome=OUTCOMES[status])
            return [*_unfinished_calls(change, event.turn_id, at), ended]
        case events.Noticed() if event.severity == "warning" or event.name == "mcp_server" or change.is_passing:
            return [
                m.Notice(
                    message=event.message, severity=event.severity, source=event.source, name=event.name, timestamp=at
                )
            ]
        case (
            events.ItemDelta()
            | events.ThreadCreated()
            | events.ThreadRenamed()
            | events.ThreadArchived()
            | events.SettingsChanged()
            | events.StepVoided()
            | events.UsageReported()
            | events.PromptQueued()
            | events.PromptRemoved()
            | events.QueueHeld()
            | events.Noticed()
            | events.NotesRead()
            | events.ContextAdded()
            | events.ContextTrimmed()
        ):
            return []
        case _ as never:
            assert_never(never)


def pending(state: ThreadState) -> list[m.SseEvent]:
    """What a client that joins now must be told: that the thread is foreign, and the questions nobody has answered."""
    at = state.updated_at_ms // 1000
    running: m.RunState = "idle" if state.running is None else "thinking"
    notice: list[m.SseEvent] = [m.Status(state=running, message=FOREIGN, timestamp=at)] if state.foreign else []
    return [*notice, *(question(state, one, one.asked_at_ms // 1000) for one in state.approvals)]


def question(state: ThreadState, approval: approvals.Approval, at: int) -> m.Approval:
    return m.Approval(
        id=approval.id,
        tool_call_id=_call_id(state, approval.item_id),
        timestamp=at,
        reason=approval.reason,
        always_covers=always_covers(approval.intent, cwd=state.settings.cwd),
        project_covers=project_covers(approval.offer),
        **intent_members(approval.intent),
    )


def _start_events(change: Change, item: items.Item, at: int) -> list[m.SseEvent]:
    match item:
        case items.UserMessage() | items.AgentMessage() | items.Reasoning():
            return []
        case items.WebSearch(query=query, call_id=""):
            return [m.Status(state="thinking", message=f"searches the web for {query!r}", timestamp=at)]
        case items.Compaction():
            return [m.Status(state="thinking", message="summarises the conversation", timestamp=at)]
        case items.ToolCall(status="skipped"):
            return []
        case _:
            name = tool_name(item)
            running = m.Status(state="running_tool", message=name, timestamp=at)
            if _was_called(change, item):
                return [running]
            # An agent that runs its own loop tells of no calls, only of what it does.
            return [m.ToolCall(id=item.call_id, name=name, input=_tool_input(item), timestamp=at), running]


def _completion_events(item: items.Item, at: int) -> list[m.SseEvent]:
    match item:
        case items.UserMessage(content=content, by=by):
            return [m.User(content=prompt_text(content), timestamp=at, by=by or UNSET)]
        case items.AgentMessage(text=text, citations=citations):
            return [m.Text(content=text, timestamp=at, citations=citations or UNSET)] if text else []
        case items.Reasoning(text=text, summary=summary):
            thought = text or summary
            return [m.Reasoning(content=thought, timestamp=at)] if thought else []
        case items.WebSearch(call_id="") | items.Compaction():
            return []
        case items.ToolCall(status="skipped"):
            return [m.ToolSkipped(id=item.call_id, reason=items.reason_of(item), timestamp=at)]
        case _:
            result = item.result or items.ToolResult(text=INTERRUPTED, failed=True)
            return [
                m.ToolResult(id=item.call_id, result=result.text, is_error=result.failed, timestamp=at),
                m.Status(state="thinking", message="", timestamp=at),
            ]


def _unfinished_calls(change: Change, turn_id: TurnId, at: int) -> list[m.SseEvent]:
    """A result for each call that was told and never came to anything, because the turn ended before."""
    turn = change.after.turn(turn_id)
    if turn is None or not turn.calls:
        return []
    done = {getattr(item, "call_id", "") for item in turn.items}
    missing = [called.call.id for called in turn.calls if called.call.id not in done]
    return [m.ToolResult(id=call_id, result=NOT_STARTED, is_error=True, timestamp=at) for call_id in missing]


def _tool_input(item: items.ToolItem) -> Json:
    """As far as the item itself tells."""
    match item:
        case items.CommandExecution(command=command, cwd=cwd):
            return {"command": command, "cwd": cwd}
        case items.FileChange(changes=changes):
            return {"paths": [change.path for change in changes]}
        case items.McpToolCall(arguments=given) | items.ToolCall(arguments=given):
            return given
        case items.WebSearch(query=query):
            return {"query": query}
        case items.Plan(entries=entries):
            return {"entries": [{"step": entry.step, "status": entry.status} for entry in entries]}
        case items.Artifact(path=path):
            return {"path": path}
        case _ as never:
            assert_never(never)


def _was_called(change: Change, item: items.ToolItem) -> bool:
    turn = change.after.turns[-1] if change.after.turns else None
    return turn is not None and any(
        called.step == item.step and called.call.id == item.call_id for called in reversed(turn.calls)
    )


def _call_id(state: ThreadState, item_id: ItemId) -> str:
    return getattr(state.item(item_id), "call_id", item_id)


def _input(arguments: str) -> Json:
    """The model's own text when it is no JSON: people should see what was asked for."""
    try:
        return msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return arguments
