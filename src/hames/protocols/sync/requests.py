"""From a page's HTTP requests to commands. Raises `InvalidCommand` and nothing else."""

from collections.abc import Mapping

from hames.domain.budgets import MEASURES, Budgets
from hames.domain.commands import ArchiveThread, CreateThread, ForkThread, ListThreads, UndoTurn
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ThreadId, TurnId
from hames.domain.options import Overrides
from hames.protocols.body import decode_body, parse_number
from hames.protocols.instructions import with_instructions
from hames.protocols.sync.pages import Archive, Fork, NewThread, ThreadBudgets, Undo

PAGE = 50
MOST_PAGE = 200


def list_threads(query: Mapping[str, str]) -> ListThreads:
    return ListThreads(
        limit=parse_number(query.get("limit"), PAGE, least=1, most=MOST_PAGE, name="limit"),
        cursor=query.get("cursor") or None,
        archived=query.get("archived", "false") == "true",
        search=query.get("search", ""),
    )


def create_thread(body: bytes) -> CreateThread:
    given = decode_body(body, NewThread)
    overrides = Overrides(
        model=given.model,
        cwd=given.cwd,
        approval_policy=given.approval_policy,
        sandbox=given.sandbox,
        agent=given.agent,
        options=given.options,
        budgets=None if given.budgets is None else _budgets(given.budgets),
    )
    settings = with_instructions(overrides, given)
    return CreateThread(title=given.title, overrides=settings, worktree=given.worktree)


def _budgets(given: ThreadBudgets) -> Budgets:
    for scope, limits in (("turn", given.turn), ("thread", given.thread)):
        for measure in MEASURES:
            if not 0 <= limits.of(measure) < 1e15:
                raise InvalidCommand(f"budgets.{scope}.{measure} must be a number, 0 for none")
    return Budgets(turn=given.turn, thread=given.thread)


def fork_thread(body: bytes, thread_id: ThreadId) -> ForkThread:
    given = decode_body(body, Fork)
    return ForkThread(thread_id=thread_id, last_seq=given.last_seq, worktree=given.worktree)


def archive_thread(body: bytes, thread_id: ThreadId) -> ArchiveThread:
    return ArchiveThread(thread_id=thread_id, archived=decode_body(body, Archive).archived)


def undo_turn(body: bytes, thread_id: ThreadId) -> UndoTurn:
    given = decode_body(body, Undo)
    return UndoTurn(
        thread_id=thread_id,
        turn_id=None if given.turn_id is None else TurnId(given.turn_id),
        later=given.later,
        redo=given.redo,
        paths=given.paths,
        overwrite=given.overwrite,
        preview=given.preview,
    )
