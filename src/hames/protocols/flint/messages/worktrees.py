"""Threads in git worktrees of their own. Additions to the specification."""

from typing import Literal

from hames.protocols.flint.wire import Wire


class WorktreeOptions(Wire):
    """A git worktree for a new thread or a fork, with a branch `hames/NAME`. Without `name` one is made up.

    `changes`: uncommitted and untracked files are taken along; by default a fork takes them and a new thread does not.
    """

    name: str | None = None
    changes: bool | None = None


class WorktreeListParams(Wire):
    """Of the repository at `cwd`; without it, of the server's own workspace. `everywhere`: of all repositories."""

    cwd: str | None = None
    everywhere: bool | None = None


class WorktreeEntry(Wire):
    """`base` is the branch it came from. `commits` are on no other branch; `uncommitted` and `ignored` are files that
    are nowhere else. `status`: `unfinished` if Hames stopped while it was made, `missing` if its directory is gone."""

    name: str
    branch: str
    path: str
    workspace: str
    base: str
    thread_id: str | None
    status: Literal["ready", "kept", "unfinished", "missing"]
    commits: list[str]
    uncommitted: list[str]
    ignored: list[str]


class WorktreeListResult(Wire):
    data: list[WorktreeEntry]


class WorktreeFinishParams(Wire):
    """Merge a worktree, keep it, or drop it: by `name`, or by the thread that works in it.

    `merge` goes into the branch it came from, or `into`; what is not committed is committed first, with `message`.
    `drop` is refused if work would be lost that is nowhere else, unless `discard` is the name of the worktree.
    `preview`: only tell what would happen.
    """

    action: Literal["merge", "keep", "drop"]
    name: str | None = None
    thread_id: str | None = None
    cwd: str | None = None
    into: str | None = None
    message: str | None = None
    discard: str | None = None
    preview: bool | None = None


class WorktreeFinishResult(Wire):
    """`message` says it in a sentence or two. `conflicts`: files that both sides changed; nothing was merged then.
    `loses`: what dropping it would delete. `removed`: the directory and the branch are gone, and the thread works in
    the directory that the worktree was made from."""

    worktree: WorktreeEntry
    message: str
    done: bool
    removed: bool
    loses: list[str]
    conflicts: list[str]
