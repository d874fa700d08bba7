"""What a command gives back, here and in the words that another process sends."""

from hames.domain.commands import ProgramEnded, ThreadPage
from hames.domain.context_report import ContextReport
from hames.domain.ids import ThreadId
from hames.domain.processes import ProcessList
from hames.domain.servers import ServerList
from hames.domain.state import QueuedPrompt, ThreadState, Turn
from hames.domain.undo import UndoReport
from hames.domain.worktrees import WorktreeList, WorktreeReport
from hames.ports import PeerAnswer

Outcome = (
    ThreadState
    | ThreadPage
    | Turn
    | QueuedPrompt
    | ServerList
    | ProcessList
    | ContextReport
    | UndoReport
    | WorktreeList
    | WorktreeReport
    | ProgramEnded
    | None
)


def answer_for_peer(outcome: Outcome, thread_id: ThreadId | None, seq: int) -> PeerAnswer:
    """`seq`: how far the thread's log has come."""
    match outcome:
        case ThreadState():
            return PeerAnswer(thread_id=outcome.id, seq=outcome.seq)
        case Turn():
            return PeerAnswer(thread_id=thread_id, seq=seq, turn=outcome)
        case QueuedPrompt():
            return PeerAnswer(thread_id=thread_id, seq=seq, prompt=outcome)
        case ServerList():
            return PeerAnswer(servers=outcome)
        case ProcessList():
            return PeerAnswer(processes=outcome)
        case ContextReport():
            return PeerAnswer(context=outcome)
        case UndoReport():
            return PeerAnswer(thread_id=thread_id, seq=seq, undo=outcome)
        case WorktreeReport():
            return PeerAnswer(thread_id=thread_id, seq=seq, worktree=outcome)
        case (
            ThreadPage() | ProgramEnded() | WorktreeList() | None
        ):  # the first three are never asked of another process
            return PeerAnswer()
