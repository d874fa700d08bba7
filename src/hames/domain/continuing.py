"""A turn whose process stopped before the turn ended: what is closed, so that the turn can go on. Pure.

A tool that may have run is never run again: the model reads that it was cut off. Questions that nobody has answered
stay open where the tool behind them certainly has not run.
"""

from collections.abc import Callable

import msgspec

from hames.domain.approvals import Approval, Elicit
from hames.domain.events import (
    TURN_CONTINUED,
    TURN_PAUSED,
    ApprovalResolved,
    Event,
    ItemCompleted,
    ItemStarted,
    Noticed,
    StepVoided,
)
from hames.domain.forms import AGENT
from hames.domain.ids import ItemId
from hames.domain.items import (
    AgentMessage,
    Item,
    Reasoning,
    ToolCall,
    ToolItem,
    ToolResult,
    UserMessage,
    WebSearch,
    closed,
    not_run,
)
from hames.domain.json import Json
from hames.domain.state import Called, ThreadState, Turn
from hames.domain.value import Value

MAX_CRASHES = 3
"""A turn whose process died so often is ended: perhaps it is the turn that kills it."""
MAX_CRASHES_IN_ALL = 10
"""The same where a store counts deaths since the last progress: a turn may get on between the deaths it causes."""
CONTINUE_TURN = "continue_turn"
"""The name of the item and of the question whether a turn that was cut off should go on."""
ASK_USER = "ask_user"
"""The tool whose only effect is a question to the user, so it can be called again after a crash."""
NOT_BEGUN = "not executed: the harness stopped before this call began"


class CutOffTurn(Value):
    """What has to be written before a turn can go on, and what it means in words."""

    events: tuple[Event, ...] = ()
    message: str = ""
    """One sentence for people."""


def last_step(turn: Turn) -> int:
    """The number of the last model reply that left anything in the log."""
    said = [item.step for item in turn.items]
    return max([0, *said, *(one.step for one in turn.calls), *(one.step for one in turn.context), *turn.void_steps])


def open_calls(turn: Turn) -> list[tuple[Called, ItemId]]:
    """The calls of the last reply whose items are open, in their order. Once what was cut off is closed, these are the
    calls that waited for an approval, whether or not somebody has answered since."""
    step = last_step(turn)
    by_call = {item.call_id: item.id for item in turn.items if isinstance(item, ToolItem) and item.id in turn.open}
    return [(one, by_call[one.call.id]) for one in turn.calls if one.step == step and one.call.id in by_call]


def unstarted_calls(turn: Turn) -> list[Called]:
    """The calls of the last reply that have no item: none of them has begun."""
    step = last_step(turn)
    begun = {item.call_id for item in turn.items if isinstance(item, ToolItem) and item.step == step}
    return [one for one in turn.calls if one.step == step and one.call.id not in begun]


def close_cut_off(state: ThreadState, new_id: Callable[[], ItemId], *, keep_questions: bool = True) -> CutOffTurn:
    """Closes whatever the running turn left open, except the questions that can be asked again.

    `keep_questions` False: the turn is another agent's, whose questions died with its process.
    """
    turn = state.running
    if turn is None:
        return CutOffTurn()
    kept = [one for one in state.approvals if keep_questions and _is_kept(state, turn, one)]
    kept_items = {one.item_id for one in kept}
    waited = {one.item_id for one in state.approvals if not isinstance(one.intent, Elicit)}
    events: list[Event] = [
        ApprovalResolved(
            turn_id=one.turn_id, approval_id=one.id, item_id=one.item_id, decision="void", ended="withdrawn"
        )
        for one in state.approvals
        if one not in kept
    ]
    cut = [item for item in turn.items if item.id in turn.open and item.id not in kept_items]
    for item in cut:
        events.append(
            ItemCompleted(turn_id=turn.id, item=not_run(item) if item.id in waited else closed(item, "interrupted"))
        )
    waits = any(item_id in kept_items for _, item_id in open_calls(turn))
    unstarted = [] if waits else unstarted_calls(turn)
    for one in unstarted:
        events += _unstarted(turn, one, new_id())
    voided = _is_reply_cut(turn)
    if voided:
        events.append(StepVoided(turn_id=turn.id, step=last_step(turn)))
    ran = [item for item in cut if isinstance(item, ToolItem) and item.id not in waited and not _is_question(item)]
    words = [
        *([f"{_count(len(ran), 'tool call')} cut off and may have run"] if ran else []),
        *([f"{_count(len(unstarted), 'tool call')} not started"] if unstarted else []),
        *(["the reply that was cut off is asked for again"] if voided else []),
        *(["an approval still waits for an answer"] if kept else []),
    ]
    return CutOffTurn(events=tuple(events), message="; ".join(words))


def continued_notice(turn: Turn, what: str) -> Noticed:
    """Says that the turn goes on; the state counts these."""
    why = "Hames was restarted while this turn ran" if turn.paused else "Hames stopped while this turn ran"
    message = f"{why}. The turn continues: {what}" if what else f"{why}. The turn continues"
    return Noticed(source="hames", name=TURN_CONTINUED, severity="warning", message=message, turn_id=turn.id)


def given_up_notice(turn: Turn) -> Noticed:
    """Its process did not die: it left the turn to others, because it could not renew its lease or was stopped."""
    message = "The node that ran this turn gave it up"
    return Noticed(source="hames", name=TURN_PAUSED, message=message, turn_id=turn.id)


def paused_notice(turn: Turn, what: str) -> Noticed:
    message = "Hames is stopping. The turn continues when the server starts again"
    return Noticed(source="hames", name=TURN_PAUSED, message=f"{message}: {what}" if what else message, turn_id=turn.id)


def is_progress(event: Event) -> bool:
    """Whether a turn with this event got on, so that what killed its process before does not count against it.

    A reply of the model is none: a turn whose tool kills the process asks for the same tool again.
    """
    if isinstance(event, ItemCompleted):
        item = event.item
        return isinstance(item, ToolItem) and item.status in ("completed", "failed", "declined")
    return isinstance(event, ApprovalResolved) and event.ended == "answered"


def reason_not_to_continue(turn: Turn, *, waits: bool, deaths: int | None = None) -> str:
    """Why a turn that was cut off must end; empty if it can go on. `waits`: for an answer, which kills no process.

    `deaths`: how many processes died in it since it last made progress. None: count the crashes in the log.
    """
    if deaths is None:
        times = turn.crashes + 1 if turn.crashes + 1 >= MAX_CRASHES else 0
    elif deaths >= MAX_CRASHES:
        times = deaths
    else:
        times = turn.crashes + 1 if deaths and turn.crashes + 1 >= MAX_CRASHES_IN_ALL else 0
    if times and not turn.paused and not waits:
        return (
            f"interrupted: the harness stopped {times} times while this turn ran, so the turn was ended. "
            "Send the prompt again to try once more"
        )
    if turn.kind != "compact" and not any(isinstance(item, UserMessage) for item in turn.items):
        return "interrupted: the harness stopped before the prompt was stored. Send it again"
    return ""


def _is_kept(state: ThreadState, turn: Turn, approval: Approval) -> bool:
    item = state.item(approval.item_id)
    if item is not None and _is_question(item):
        return item.id in turn.open
    return _can_ask_again(turn, approval) and any(item_id == approval.item_id for _, item_id in open_calls(turn))


def _is_question(item: Item) -> bool:
    """Whether it is the question about going on itself."""
    return isinstance(item, ToolCall) and item.name == CONTINUE_TURN and not item.call_id


def _can_ask_again(turn: Turn, approval: Approval) -> bool:
    """A form of an MCP server belongs to a call that runs, and that died with the process; a question of the agent
    itself has no other effect than to ask."""
    if approval.turn_id != turn.id:
        return False
    if not isinstance(approval.intent, Elicit):
        return True
    asking = next((item for item in turn.items if item.id == approval.item_id), None)
    return approval.intent.server == AGENT and isinstance(asking, ToolCall) and asking.name == ASK_USER


def _is_reply_cut(turn: Turn) -> bool:
    """Whether the last reply has no calls, so that it is thrown away and asked for again.

    A reply behind which the harness said something had come to its end.
    """
    step = last_step(turn)
    if step == 0 or step in turn.void_steps or any(one.step == step for one in turn.calls):
        return False
    said = [at for at, item in enumerate(turn.items) if item.step == step and _is_said(item)]
    return bool(said) and not any(one.step == step and one.position > said[-1] for one in turn.context)


def _is_said(item: Item) -> bool:
    return isinstance(item, AgentMessage | Reasoning) or (isinstance(item, WebSearch) and not item.call_id)


def _unstarted(turn: Turn, called: Called, item_id: ItemId) -> list[Event]:
    item = ToolCall(
        id=item_id,
        step=called.step,
        call_id=called.call.id,
        name=called.call.name,
        arguments=_arguments(called.call.arguments),
        status="skipped",
        result=ToolResult(text=NOT_BEGUN, failed=True, reason=NOT_BEGUN),
    )
    return [ItemStarted(turn_id=turn.id, item=item), ItemCompleted(turn_id=turn.id, item=item)]


def _arguments(text: str) -> Json:
    try:
        return msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return {"text": text}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun} was" if number == 1 else f"{number} {noun}s were"
