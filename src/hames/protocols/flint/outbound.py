"""Notifications of flint, made from a change: pure, and the same for every dialect."""

from collections.abc import Sequence
from typing import assert_never

from hames.domain import events
from hames.domain.foreign import FOREIGN
from hames.domain.ids import ThreadId, TurnId
from hames.domain.items import AgentMessage, Item, Plan, Reasoning, WebSearch
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState
from hames.protocols.flint import messages as m
from hames.protocols.flint.dialect import FlintDialect
from hames.protocols.flint.parts import THREAD_STATUS
from hames.protocols.rpc_session import Ask, Notify, Outgoing, Settled

_HISTORY = frozenset({"turn/started", "item/started", "item/completed", "turn/completed"})

Said = AgentMessage | Reasoning | WebSearch
"""What the model service itself brings forth."""


def project(change: Change, dialect: FlintDialect) -> list[Outgoing]:
    """What this change means to a client that has heard everything before it."""
    record, state = change.record, change.after
    event, thread_id = record.event, dialect.thread_id(record.thread_id)
    if isinstance(event, events.ItemDelta):  # first, because a token is by far the most frequent event
        return _delta(record.thread_id, event, state, dialect)
    if _is_hidden(change, dialect):
        return []
    match event:
        case events.ThreadCreated():
            return thread_started(state, dialect)
        case events.ThreadRenamed(title=title):
            return [Notify(method="thread/name/updated", params=m.ThreadNamed(thread_id=thread_id, thread_name=title))]
        case events.ThreadArchived(archived=archived):
            method = "thread/archived" if archived else "thread/unarchived"
            return [Notify(method=method, params=m.ThreadMentioned(thread_id=thread_id))]
        case events.SettingsChanged(settings=settings):
            told = {"threadId": thread_id, "threadSettings": dialect.settings(settings)}
            return [Notify(method="thread/settings/updated", params=told)]
        case events.TurnStarted(turn_id=turn_id):
            return [_status(state, dialect), *_turn("turn/started", state, turn_id, dialect)]
        case events.ItemStarted(turn_id=turn_id, item=item):
            return _new_item(change, turn_id, item, dialect) if _is_new(change, turn_id) else []
        case events.ItemCompleted(turn_id=turn_id, item=item):
            unseen = _new_item(change, turn_id, item, dialect) if _is_new(change, turn_id) else []
            done = _item("item/completed", change, turn_id, item, dialect)
            more = [*_plan(thread_id, turn_id, item, dialect), *dialect.after_item(change, turn_id, item)]
            return [*unseen, *done, *more]
        case events.ToolCalled():
            return list(dialect.tool_call(change, event))
        case events.StepVoided(turn_id=turn_id, step=step):
            return _discarded_reply(state, turn_id, step, dialect)
        case events.ApprovalRequested(approval=approval):
            method, params = dialect.ask(state, approval, record.at_ms)
            return [_status(state, dialect), Ask(method=method, params=params, approval_id=approval.id)]
        case events.ApprovalResolved(approval_id=approval_id):
            if all(approval.id != approval_id for approval in change.before.approvals):
                return []
            settled = Notify(method="serverRequest/resolved", params=dialect.settled(thread_id, event))
            return [Settled(approval_id=approval_id), settled, _status(state, dialect)]
        case events.UsageReported():
            return [Notify(method="thread/tokenUsage/updated", params=dialect.usage(state, event))]
        case events.PromptQueued() | events.PromptRemoved() | events.QueueHeld():
            return [Notify(method="thread/queue/changed", params=dialect.queue(state))]
        case events.Noticed():
            return list(dialect.notices(record.thread_id, event))
        case events.NotesRead(files=files):
            return list(dialect.notes(record.thread_id, files))
        case events.ContextAdded() | events.ContextTrimmed():
            return []  # between the harness and the model
        case events.TurnEnded(turn_id=turn_id):
            return [
                *dialect.before_end(change, event),
                _status(state, dialect),
                *_turn("turn/completed", state, turn_id, dialect),
            ]
        case _ as never:
            assert_never(never)


def _is_hidden(change: Change, dialect: FlintDialect) -> bool:
    """Whether this belongs to a turn that the client is not told of."""
    match change.record.event:
        case (
            events.TurnStarted(turn_id=turn_id)
            | events.ItemStarted(turn_id=turn_id)
            | events.ItemCompleted(turn_id=turn_id)
        ):
            pass
        case events.TurnEnded(turn_id=turn_id):
            pass
        case _:
            return False
    turn = change.after.turn(turn_id)
    return turn is not None and not dialect.shown_turns((turn,))


def thread_started(state: ThreadState, dialect: FlintDialect) -> list[Outgoing]:
    """`thread/started`. History travels in the answer that comes before it, not here."""
    return [Notify(method="thread/started", params={"thread": dialect.thread(state, turns=False)})]


def history(changes: Sequence[Change], dialect: FlintDialect) -> list[Outgoing]:
    """What a client of the specification alone would have heard of these changes."""
    told = [message for change in changes for message in project(change, dialect)]
    return [message for message in told if isinstance(message, Notify) and message.method in _HISTORY]


def notice(state: ThreadState, dialect: FlintDialect) -> list[Outgoing]:
    """What a client that has just come should tell its user about the thread."""
    running = state.running.id if state.running is not None else ""
    warned = [one.notice for one in state.warnings if one.notice.turn_id == running]
    said = [notice for notice in warned if notice.name == events.TURN_CONTINUED]
    if state.foreign:
        said.append(events.Noticed(source="hames", name="foreign_thread", message=FOREIGN))
    return [message for one in said[-1:] for message in dialect.notices(state.id, one)]


def questions(state: ThreadState, dialect: FlintDialect) -> list[Outgoing]:
    """The approvals that wait for an answer, for a client that has just come."""
    asks: list[Outgoing] = []
    for approval in state.approvals:
        method, params = dialect.ask(state, approval, approval.asked_at_ms)
        asks.append(Ask(method=method, params=params, approval_id=approval.id))
    return asks


def _delta(thread_id: ThreadId, event: events.ItemDelta, state: ThreadState, dialect: FlintDialect) -> list[Outgoing]:
    item = state.item(event.item_id)
    told = None if item is None else dialect.delta(thread_id, event, item)
    return [] if told is None else [told]


def _status(state: ThreadState, dialect: FlintDialect) -> Notify:
    told = m.ThreadStatusChanged(thread_id=dialect.thread_id(state.id), status=THREAD_STATUS[state.standing])
    return Notify(method="thread/status/changed", params=told)


def _turn(method: str, state: ThreadState, turn_id: TurnId, dialect: FlintDialect) -> list[Outgoing]:
    turn = state.turn(turn_id)
    if turn is None:
        return []
    return [Notify(method=method, params={"threadId": dialect.thread_id(state.id), "turn": dialect.told_turn(turn)})]


def _new_item(change: Change, turn_id: TurnId, item: Item, dialect: FlintDialect) -> list[Outgoing]:
    return [*dialect.before_item(change, turn_id, item), *_item("item/started", change, turn_id, item, dialect)]


def _item(method: str, change: Change, turn_id: TurnId, item: Item, dialect: FlintDialect) -> list[Outgoing]:
    shown = dialect.item(item)
    if shown is None:
        return []
    at = "startedAtMs" if method == "item/started" else "completedAtMs"
    told: Json = {
        "threadId": dialect.thread_id(change.after.id),
        "turnId": turn_id,
        "item": shown,
        at: change.record.at_ms,
    }
    return [Notify(method=method, params=told)]


def _is_new(change: Change, turn_id: TurnId) -> bool:
    """Whether this change brought an item. By count, because a search would look at every item of a long turn."""
    before, after = change.before.turn(turn_id), change.after.turn(turn_id)
    return after is not None and len(after.items) > (len(before.items) if before else 0)


def _discarded_reply(state: ThreadState, turn_id: TurnId, step: int, dialect: FlintDialect) -> list[Outgoing]:
    """What was shown of a reply that broke off stays where it is; a client may grey it out."""
    turn = state.turn(turn_id)
    ids = [item.id for item in (turn.items if turn else ()) if item.step == step and isinstance(item, Said)]
    notice = events.Noticed(
        source="hames",
        name="reply_voided",
        message="Connection lost. The partial answer above was discarded",
        turn_id=turn_id,
        data={"itemIds": ids},
    )
    return list(dialect.notices(state.id, notice)) if ids else []


def _plan(thread_id: str, turn_id: TurnId, item: Item, dialect: FlintDialect) -> list[Outgoing]:
    if not isinstance(item, Plan) or item.status != "completed":
        return []
    told = {"threadId": thread_id, "turnId": turn_id, "explanation": _explanation(item), "plan": dialect.plan(item)}
    return [Notify(method="turn/plan/updated", params=told)]


def _explanation(plan: Plan) -> str:
    """What the text says beside the steps, which are told as steps."""
    lines = plan.text.splitlines()
    head, tail = lines[: -len(plan.entries) or None], lines[len(lines) - len(plan.entries) :]
    listed = len(tail) == len(plan.entries) and all(
        line.endswith(entry.step) for line, entry in zip(tail, plan.entries, strict=True)
    )
    return "\n".join(head if listed else lines).strip()
