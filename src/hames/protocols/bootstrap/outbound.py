"""Notifications of bootstrap, made from a change. Pure, and stateless: a change brings the state before and after it.

A tool's streamed output is an item of its own (`tool_log`): it starts with the first output and is completed
just before its `tool_exec`. Whether it has started is read from the state before, never remembered.
"""

from collections.abc import Sequence
from typing import assert_never

from msgspec import UNSET, Raw

from hames.codecs.jsontext import encode
from hames.domain import events, items
from hames.domain.commands import ThreadSummary
from hames.domain.foreign import FOREIGN
from hames.domain.ids import ItemId, TurnId
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState, Turn, summary
from hames.protocols.bootstrap import items as shown
from hames.protocols.bootstrap import messages
from hames.protocols.rpc_session import Notify

STATUS: dict[events.TurnStatus, messages.TurnStatus] = {
    "running": "running",
    "completed": "completed",
    "interrupted": "cancelled",
    "failed": "error",
}


def project(change: Change) -> list[Notify]:
    event = change.record.event
    if isinstance(event, events.ItemDelta):  # first, because a token is by far the most frequent event
        return _delta(change, event)
    match event:
        case events.ThreadCreated():
            thread = thread_of_state(change.after)
            return [Notify(method="thread.created", params=messages.ThreadCreated(**_mark(change), thread=thread))]
        case events.TurnStarted(turn_id=turn_id):
            turn = change.after.turn(turn_id)
            return [_turn_news(change, "turn.started", turn)] if turn else []
        case events.ItemStarted(turn_id=turn_id, item=item):
            return _item_started(change, turn_id, item)
        case events.ItemCompleted(turn_id=turn_id, item=item):
            return _item_completed(change, turn_id, item)
        case events.ApprovalRequested():
            return _approval_requested(change, event)
        case events.ApprovalResolved():
            return _approval_resolved(change, event)
        case events.TurnEnded(turn_id=turn_id):
            turn = change.after.turn(turn_id)
            return [_turn_ended(change, turn)] if turn else []
        case events.Noticed() if event.severity == "warning" or event.name == "mcp_server" or change.is_passing:
            return [_notice(change, event)]
        case (
            events.ThreadRenamed()
            | events.ThreadArchived()
            | events.SettingsChanged()
            | events.ToolCalled()
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


def _notice(change: Change, event: events.Noticed) -> Notify:
    params = messages.Notice(
        **_mark(change),
        severity=event.severity,
        source=event.source,
        name=event.name,
        message=event.message,
        turn_id=event.turn_id or UNSET,
    )
    return Notify(method="notice", params=params)


def kept_events(history: Sequence[Change]) -> tuple[Raw, ...]:
    """Every kept event as clients were told it, its method as `type`."""
    return tuple(
        Raw(b'{"type":' + encode(notify.method) + b"," + encode(notify.params)[1:])
        for change in history
        for notify in project(change)
    )


def pending_approvals(history: Sequence[Change]) -> list[Notify]:
    """The questions nobody has answered yet, exactly as they were first asked."""
    if not history:
        return []
    pending = {approval.id for approval in history[-1].after.approvals}
    return [
        notify
        for change in history
        if isinstance(change.record.event, events.ApprovalRequested) and change.record.event.approval.id in pending
        for notify in project(change)
        if notify.method == "approval.requested"
    ]


def thread_of_state(state: ThreadState) -> messages.Thread:
    return thread_of_summary(summary(state))


def thread_of_summary(thread: ThreadSummary) -> messages.Thread:
    return messages.Thread(
        thread_id=thread.id,
        title=thread.title or thread.preview,
        directory=thread.cwd,
        time=messages.ThreadTime(created=thread.created_at_ms, updated=thread.updated_at_ms),
        notice=FOREIGN if thread.foreign else UNSET,
        archived=thread.archived or UNSET,
    )


def _mark(change: Change) -> dict[str, Json]:
    """What every notification carries: the thread, and where and when in its log this stands."""
    record = change.record
    return {"thread_id": record.thread_id, "seq": record.seq, "time": record.at_ms}


def _turn(change: Change, turn: Turn) -> messages.Turn:
    return messages.Turn(
        turn_id=turn.id,
        thread_id=change.record.thread_id,
        status=STATUS[turn.status],
        time=messages.TurnTime(
            started=turn.started_at_ms, completed=UNSET if turn.ended_at_ms is None else turn.ended_at_ms
        ),
    )


def _turn_news(change: Change, method: str, turn: Turn) -> Notify:
    params = messages.TurnNews(**_mark(change), turn_id=turn.id, status=STATUS[turn.status], turn=_turn(change, turn))
    return Notify(method=method, params=params)


def _turn_ended(change: Change, turn: Turn) -> Notify:
    if turn.status == "completed":
        return _turn_news(change, "turn.completed", turn)
    if turn.status == "interrupted":
        said = turn.error.message if turn.error else "the turn was cancelled"
        failure = messages.TurnFailure(message=said, info="Cancelled")
    else:
        error = turn.error or events.TurnError(message="the turn failed")
        status = UNSET if error.http_status is None else error.http_status
        failure = messages.TurnFailure(message=error.message, info=error.info, http_status=status)
    params = messages.TurnFailed(
        **_mark(change), turn_id=turn.id, status=STATUS[turn.status], turn=_turn(change, turn), error=failure
    )
    return Notify(method="turn.error", params=params)


def _item_news(change: Change, method: str, item: messages.Item) -> Notify:
    params = messages.ItemNews(**_mark(change), turn_id=item.turn_id, item_id=item.item_id, item=item)
    return Notify(method=method, params=params)


def _item_started(change: Change, turn_id: TurnId, item: items.Item) -> list[Notify]:
    if not _is_new(change, turn_id):
        return []
    thread_id = change.record.thread_id
    news = [_item_news(change, "item.started", shown.item(thread_id, turn_id, item))]
    if isinstance(item, shown.Streaming) and item.output:
        news.append(_item_news(change, "item.started", shown.log(thread_id, turn_id, item, item.output)))
    return news


def _item_completed(change: Change, turn_id: TurnId, item: items.Item) -> list[Notify]:
    thread_id = change.record.thread_id
    news = [] if not _is_new(change, turn_id) else _item_started(change, turn_id, item)
    if isinstance(item, shown.Streaming):
        before = _find(change.before, turn_id, item.id)
        began = bool(news and item.output) or (isinstance(before, shown.Streaming) and bool(before.output))
        if item.output and not began:  # a log without its deltas
            news.append(_item_news(change, "item.started", shown.log(thread_id, turn_id, item, "")))
        if item.output or began:
            news.append(_item_news(change, "item.completed", shown.log(thread_id, turn_id, item, item.output)))
    news.append(_item_news(change, "item.completed", shown.item(thread_id, turn_id, item)))
    return news


def _delta(change: Change, delta: events.ItemDelta) -> list[Notify]:
    before = _find(change.before, delta.turn_id, delta.item_id)
    if before is None or not delta.text or delta.stream not in items.STREAMS[type(before)]:
        return []
    if not isinstance(before, shown.Streaming):
        field = "text" if isinstance(before, items.Compaction) else delta.stream
        return [_delta_news(change, delta, delta.item_id, field)]
    news = [_delta_news(change, delta, shown.log_id(delta.item_id), "output")]
    if before.output:
        return news
    started = shown.log(change.record.thread_id, delta.turn_id, before, "")
    return [_item_news(change, "item.started", started), *news]


def _delta_news(change: Change, delta: events.ItemDelta, item_id: str, field: items.Stream) -> Notify:
    record = change.record
    params = messages.ItemDelta(
        thread_id=record.thread_id,
        turn_id=delta.turn_id,
        item_id=item_id,
        seq=record.seq,
        time=record.at_ms,
        field=field,
        delta=delta.text,
    )
    return Notify(method="item.delta", params=params)


def _approval_requested(change: Change, event: events.ApprovalRequested) -> list[Notify]:
    approval = event.approval
    asked = messages.ApprovalRequested(
        **_mark(change),
        request_id=approval.id,
        turn_id=approval.turn_id,
        item_id=approval.item_id,
        **shown.question(approval, change.after.settings.cwd),
    )
    started = shown.approval_item(change.record.thread_id, approval, change.after.settings.cwd)
    return [_item_news(change, "item.started", started), Notify(method="approval.requested", params=asked)]


def _approval_resolved(change: Change, event: events.ApprovalResolved) -> list[Notify]:
    approval = next((a for a in change.before.approvals if a.id == event.approval_id), None)
    if approval is None:
        return []
    resolved = shown.approval_item(change.record.thread_id, approval, change.after.settings.cwd, event)
    return [_item_news(change, "item.completed", resolved)]


def _is_new(change: Change, turn_id: TurnId) -> bool:
    """Whether this change brought an item. By count, because a search would look at every item of a long turn."""
    before, after = change.before.turn(turn_id), change.after.turn(turn_id)
    return after is not None and len(after.items) > (len(before.items) if before else 0)


def _find(state: ThreadState, turn_id: TurnId, item_id: ItemId) -> items.Item | None:
    turn = state.turn(turn_id)
    return next((item for item in reversed(turn.items) if item.id == item_id), None) if turn else None
