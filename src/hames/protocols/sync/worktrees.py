"""Worktrees over HTTP."""

from collections.abc import Mapping

from hames.domain.commands import FinishWorktree, ListWorktrees
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ThreadId
from hames.domain.value import Value
from hames.domain.worktrees import WorktreeAction
from hames.protocols.body import decode_body


class WorktreeRow(Value, rename="camel"):
    """`commits` are on no other branch; `uncommitted` and `ignored` are files that are nowhere else."""

    name: str
    branch: str
    path: str
    workspace: str
    base: str
    thread_id: str
    status: str
    commits: tuple[str, ...]
    uncommitted: tuple[str, ...]
    ignored: tuple[str, ...]


class WorktreePage(Value):
    worktrees: tuple[WorktreeRow, ...]


class Finish(Value, rename="camel"):
    """The body of `POST /worktrees/finish`: a worktree by its name, or by the thread that works in it.

    `drop` is refused if work would be lost that is nowhere else, unless `discard` is the name of the worktree.
    """

    action: WorktreeAction
    name: str = ""
    thread_id: str | None = None
    into: str = ""
    message: str = ""
    discard: str = ""
    preview: bool = False


class FinishAnswer(Value, rename="camel"):
    worktree: WorktreeRow
    message: str
    done: bool
    removed: bool
    loses: tuple[str, ...]
    conflicts: tuple[str, ...]


def list_worktrees(query: Mapping[str, str]) -> ListWorktrees:
    return ListWorktrees(everywhere=query.get("everywhere", "false") == "true")


def finish_worktree(body: bytes) -> FinishWorktree:
    given = decode_body(body, Finish)
    if not given.name and not given.thread_id:
        raise InvalidCommand("name a worktree, or a thread with threadId")
    return FinishWorktree(
        action=given.action,
        name=given.name,
        thread_id=ThreadId(given.thread_id) if given.thread_id else None,
        into=given.into,
        message=given.message,
        discard=given.discard,
        preview=given.preview,
    )
