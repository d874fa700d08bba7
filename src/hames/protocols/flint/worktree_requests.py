"""Requests about worktrees, and their answers."""

from msgspec import convert
from msgspec.structs import replace

from hames.codecs.jsonrpc_peer import Params
from hames.domain.commands import Command, CreateThread, FinishWorktree, ForkThread, ListWorktrees
from hames.domain.errors import InvalidCommand
from hames.domain.worktrees import NewWorktree, Worktree, WorktreeList, WorktreeReport
from hames.protocols.flint import messages as m
from hames.protocols.flint.reading import read, thread_id
from hames.protocols.flint.wire import Wire


class _Opens(Wire):
    worktree: m.WorktreeOptions | None = None


def with_worktree(command: Command, params: Params) -> Command:
    """The command with the worktree that its request asks for. Raises `InvalidCommand`."""
    if not isinstance(command, CreateThread | ForkThread) or params.get("worktree") is None:
        return command
    given = read(params, _Opens).worktree
    assert given is not None
    changes = isinstance(command, ForkThread) if given.changes is None else given.changes
    return replace(command, worktree=NewWorktree(name=given.name or "", changes=changes))


def list_worktrees(params: Params) -> ListWorktrees:
    given = read(params, m.WorktreeListParams)
    return ListWorktrees(cwd=_directory(given.cwd), everywhere=bool(given.everywhere))


def finish_worktree(params: Params) -> FinishWorktree:
    given = read(params, m.WorktreeFinishParams)
    if not given.name and given.thread_id is None:
        raise InvalidCommand("name: name a worktree, or a thread with threadId")
    return FinishWorktree(
        action=given.action,
        name=given.name or "",
        thread_id=None if given.thread_id is None else thread_id(given.thread_id),
        cwd=_directory(given.cwd),
        into=given.into or "",
        message=given.message or "",
        discard=given.discard or "",
        preview=bool(given.preview),
    )


def _directory(path: str | None) -> str | None:
    if path is not None and (not path.startswith("/") or "\0" in path):
        raise InvalidCommand("cwd: must be an absolute path")
    return path


def worktree_answer(outcome: WorktreeList | WorktreeReport) -> m.WorktreeListResult | m.WorktreeFinishResult:
    if isinstance(outcome, WorktreeList):
        return m.WorktreeListResult(data=[_entry(one) for one in outcome.worktrees])
    return m.WorktreeFinishResult(
        worktree=_entry(outcome.worktree),
        message=outcome.message,
        done=outcome.done,
        removed=outcome.removed,
        loses=list(outcome.loses),
        conflicts=list(outcome.conflicts),
    )


def _entry(tree: Worktree) -> m.WorktreeEntry:
    return replace(convert(tree, m.WorktreeEntry, from_attributes=True), thread_id=tree.thread_id or None)
