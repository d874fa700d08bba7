"""Whether a command was carried out, read from the log of a process that ended before it could answer."""

from collections.abc import Sequence

from hames.core.history import find_duplicate_submit
from hames.core.outcome import Outcome
from hames.domain import commands
from hames.domain.events import ApprovalResolved, ItemStarted, Noticed, PromptQueued, Record, TurnStarted
from hames.domain.ids import TurnId
from hames.domain.items import UserMessage
from hames.domain.state import ThreadState
from hames.domain.undo import UndoReport


def find_effect(command: commands.Command, records: Sequence[Record], state: ThreadState) -> Outcome:
    """What the command gave, if `records` show that it was carried out; None: they do not.

    `records` were written after the command was sent. The other commands can be carried out again without harm.
    """
    for record in records:
        event = record.event
        match command, event:
            case (
                (commands.StartTurn() | commands.SubmitPrompt() | commands.SteerTurn()),
                ItemStarted(item=UserMessage() as item),
            ):
                if item.client_id == command.client_id if command.client_id else item.content == command.content:
                    return state if isinstance(command, commands.SteerTurn) else state.turn(event.turn_id)
            case commands.SubmitPrompt(), PromptQueued():
                if event.prompt_id == command.client_id or event.content == command.content:
                    return find_duplicate_submit(state, event.prompt_id)
            case commands.ResolveApproval(), ApprovalResolved():
                if event.approval_id == command.approval_id and event.decision == command.decision:
                    return state
            case ((commands.CompactThread() | commands.StartReview()), TurnStarted()):
                if event.kind == ("compact" if isinstance(command, commands.CompactThread) else "review"):
                    return state.turn(event.turn_id)
            case commands.UndoTurn(), Noticed(name="undone" | "redone" as name, data={"turns": list(turns)}):
                if command.redo == (name == "redone"):
                    return UndoReport(turns=tuple(TurnId(str(turn)) for turn in turns), redo=command.redo)
            case _:
                continue
    return None
