"""Worktrees: threads that work in a git checkout and on a branch of their own."""

from typing import Literal

from hames.domain.value import Value

BRANCH_PREFIX = "hames/"
WorktreeAction = Literal["merge", "keep", "drop"]
WorktreeStatus = Literal["ready", "kept", "unfinished", "missing"]
"""`kept`: a person decided so. `unfinished`: Hames stopped while it was made. `missing`: its directory is gone."""


class NewWorktree(Value):
    """A worktree to make for a thread. `name` empty: one is made up. `changes`: uncommitted and untracked files are
    taken along."""

    name: str = ""
    changes: bool = False


class Worktree(Value):
    """`workspace` is the directory that it was made from, `base` the branch; empty: no branch was checked out there.

    `commits` are on its branch and not on `base`; `uncommitted` and `ignored` are paths of files that git would lose
    with the directory.
    """

    name: str
    branch: str
    path: str
    workspace: str
    base: str = ""
    thread_id: str = ""
    status: WorktreeStatus = "ready"
    commits: tuple[str, ...] = ()
    uncommitted: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    more: str = ""
    """Why git could not say more about it."""


class WorktreeList(Value):
    worktrees: tuple[Worktree, ...]


class WorktreeReport(Value):
    """What was done, or (`preview`) would be. `loses`: what only a `discard` with the worktree's name deletes.

    `conflicts` are the files that both sides changed: nothing was merged then.
    """

    worktree: Worktree
    action: WorktreeAction
    message: str
    preview: bool = False
    done: bool = False
    removed: bool = False
    """Its directory and its branch are gone."""
    loses: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def lost_with(worktree: Worktree) -> tuple[str, ...]:
    """What would be deleted with it and is nowhere else, a sentence each.

    >>> lost_with(Worktree(name="a", branch="hames/a", path="/t", workspace="/w", base="main", commits=("1f2 Fix",)))
    ("1 commit that is not in 'main': 1f2 Fix",)
    """
    into = f"in {worktree.base!r}" if worktree.base else "in another branch"
    said: list[str] = []
    if worktree.more:
        said.append(f"nobody can say what is in it: {worktree.more}")
    if worktree.commits:
        verb = "is" if len(worktree.commits) == 1 else "are"
        said.append(f"{_counted(worktree.commits, 'commit')} that {verb} not {into}: {shown(worktree.commits)}")
    if worktree.uncommitted:
        said.append(f"{_counted(worktree.uncommitted, 'uncommitted file')}: {shown(worktree.uncommitted)}")
    if worktree.ignored:
        said.append(f"{_counted(worktree.ignored, 'ignored path')}: {shown(worktree.ignored)}")
    return tuple(said)


def shown(names: tuple[str, ...], most: int = 8) -> str:
    """
    >>> shown(("a", "b", "c"), most=2)
    'a, b and 1 more'
    """
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def _counted(found: tuple[str, ...], name: str) -> str:
    return f"{len(found)} {name}" if len(found) == 1 else f"{len(found)} {name}s"
