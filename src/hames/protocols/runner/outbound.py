"""From a change to what the runner says of it. Pure; one run is one turn."""

from typing import assert_never

from msgspec.structs import replace

from hames.codecs import sse
from hames.codecs.jsontext import encode
from hames.domain import events, items
from hames.domain.grants import always_covers
from hames.domain.json import Json
from hames.domain.state import Change
from hames.protocols.describe import INTERRUPTED, prompt_text, tool_name
from hames.protocols.runner import messages as m


def project(change: Change) -> list[m.RunnerEvent]:
    event = change.record.event
    match event:
        case events.ItemDelta():
            return _delta_events(change, event)
        case events.TurnStarted():
            return []
        case events.ItemStarted(item=item):
            return _start_events(event, item)
        case events.ItemCompleted(item=item):
            return _completion_events(item)
        case events.ApprovalRequested(approval=asked):
            covers = always_covers(asked.intent, cwd=change.after.settings.cwd)
            return [
                m.ApprovalRequested(
                    id=asked.id, item=asked.item_id, intent=asked.intent, reason=asked.reason, always_covers=covers
                )
            ]
        case events.ApprovalResolved(approval_id=approval_id, decision=decision):
            return [m.ApprovalResolved(id=approval_id, decision=decision)]
        case events.StepVoided():
            return [m.StepVoided()]
        case events.UsageReported(model=model, usage=usage):
            return [m.UsageReported(model=model, usage=usage)]
        case events.Noticed(source=source, name=name, message=message, severity=severity):
            return [m.Notice(source=source, name=name, message=message, severity=severity)]
        case events.TurnEnded():
            return [_end_event(change, event)]
        case (
            events.ThreadCreated()
            | events.ThreadRenamed()
            | events.ThreadArchived()
            | events.SettingsChanged()
            | events.ToolCalled()
            | events.PromptQueued()
            | events.PromptRemoved()
            | events.QueueHeld()
            | events.NotesRead()
            | events.ContextAdded()
            | events.ContextTrimmed()
        ):
            return []
        case _ as never:
            assert_never(never)


def frame(event: m.RunnerEvent) -> bytes:
    """One event of the stream."""
    return sse.event(encode(event), name=m.NAMES[type(event)])


def _start_events(event: events.ItemStarted, item: items.Item) -> list[m.RunnerEvent]:
    more: dict[str, Json]
    match item:
        case items.UserMessage(content=content):
            started = m.RunStarted(run_id=event.turn_id, prompt=prompt_text(content))
            return [started] if item.step == 0 else []
        case items.AgentMessage() | items.Reasoning():
            return []
        case items.CommandExecution(command=command, cwd=cwd):
            more = {"kind": "command", "input": {"command": command, "cwd": cwd}, "command": command, "cwd": cwd}
        case items.FileChange(changes=changes):
            more = {"kind": "file", "changes": changes}
        case items.ToolCall(arguments=given):
            more = {"input": given}
        case items.McpToolCall(arguments=given):
            more = {"input": given, "detail": item}
        case items.WebSearch(query=query):
            more = {"input": {"query": query}, "detail": _public(item)}
        case items.Artifact(path=path):
            more = {"input": {"path": path}}
        case items.Plan() | items.Compaction():
            more = {"detail": item}
        case _ as never:
            assert_never(never)
    return [m.ToolStarted(id=item.id, name=tool_name(item), **more)]


def _delta_events(change: Change, delta: events.ItemDelta) -> list[m.RunnerEvent]:
    item = change.before.item(delta.item_id)
    match item:
        case None | items.UserMessage():
            return []
        case items.AgentMessage():
            return [m.AssistantDelta(text=delta.text)]
        case items.Reasoning():
            return [m.ReasoningDelta(text=delta.text, stream="summary" if delta.stream == "summary" else "text")]
        case _:
            return [m.ToolOutput(id=delta.item_id, text=delta.text)]


def _completion_events(item: items.Item) -> list[m.RunnerEvent]:
    match item:
        case items.UserMessage():
            return []
        case items.AgentMessage() | items.Reasoning():
            return [m.MessageCompleted()]
        case items.Compaction():
            result = None
        case _:
            result = item.result
    code = item.exit_code if isinstance(item, items.CommandExecution) else None
    took = item.duration_ms if isinstance(item, items.CommandExecution) else None
    text = result.text if result is not None else ""
    reason = items.reason_of(item)
    if item.status in ("completed", "running"):
        changes = item.changes if isinstance(item, items.FileChange) else ()
        return [
            m.ToolCompleted(
                id=item.id, result=text, exit_code=code, duration_ms=took, changes=changes, detail=_detail(item)
            )
        ]
    error = reason or text or (INTERRUPTED if item.status == "interrupted" else item.status)
    return [m.ToolFailed(id=item.id, error=error, outcome=item.status, exit_code=code, duration_ms=took)]


def _end_event(change: Change, event: events.TurnEnded) -> m.RunnerEvent:
    turn = change.after.turn(event.turn_id)
    if event.status == "completed":
        usage = turn.usage if turn is not None else m.Usage()
        return m.RunCompleted(stop_reason=event.stop_reason, usage=usage)
    if event.error is not None:
        error = event.error
        return m.RunError(message=error.message, info=error.info, http_status=error.http_status)
    return m.RunError(message="the run was cancelled", info="Cancelled")


def _detail(item: items.Item) -> m.Detail | None:
    if isinstance(item, items.WebSearch):
        return _public(item)
    return item if isinstance(item, items.Plan | items.McpToolCall | items.Compaction) else None


def _public(search: items.WebSearch) -> items.WebSearch:
    """Without what the model service wants back for itself."""
    return replace(search, opaque=None, provider="")
