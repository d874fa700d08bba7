"""Whether a command was carried out, read from the log of a process that ended before it could answer."""

from collections.abc import Sequence

from hames.core.history import find_duplicate_submit
from hames.core.outcome import Outcome
from hames.domain.commands import (
    Command,
    CompactThread,
    ResolveApproval,
    StartReview,
    StartTurn,
    SteerTurn,
    SubmitPrompt,
    UndoTurn,
)
from hames.domain.events import ApprovalResolved, ItemStarted, Noticed, PromptQueued, Record, TurnStarted
from hames.domain.ids import TurnId
from hames.domain.items import UserMessage
from hames.domain.state import ThreadState
from hames.domain.undo import UndoReport


def find_effect(command: Command, records: Sequence[Record], state: ThreadState) -> Outcome:
    """What the command gave, if `records` show that it was carried out; None: they do not.

    `records` were written after the command was sent. The other commands can be carried out again without harm.
    """
    for record in records:
        event = record.event
        match command, event:
            case ((StartTurn() | SubmitPrompt() | SteerTurn()), ItemStarted(item=UserMessage() as item)):
                if item.client_id == command.client_id if command.client_id else item.content == command.content:
                    return state if isinstance(command, SteerTurn) else state.turn(event.turn_id)
            case SubmitPrompt(), PromptQueued():
                if event.prompt_id == command.client_id or event.content == command.content:
                    return find_duplicate_submit(state, event.prompt_id)
            case ResolveApproval(), ApprovalResolved():
                if event.approval_id == command.approval_id and event.decision == command.decision:
                    return state
            case ((CompactThread() | StartReview()), TurnStarted()):
                if event.kind == ("compact" if isinstance(command, CompactThread) else "review"):
                    return state.turn(event.turn_id)
            case UndoTurn(), Noticed(name="undone" | "redone" as name, data={"turns": list(turns)}):
                if command.redo == (name == "redone"):
                    return UndoReport(turns=tuple(TurnId(str(turn)) for turn in turns), redo=command.redo)
            case _:
                continue
    return None
