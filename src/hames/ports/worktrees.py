"""Worktrees of git repositories, in which threads work beside each other."""

from typing import Protocol

from hames.domain.ids import ThreadId
from hames.domain.policy import SandboxPolicy
from hames.domain.value import Value
from hames.domain.worktrees import NewWorktree, Worktree, WorktreeAction, WorktreeReport


class MadeWorktree(Value):
    """`cwd` is where the thread works: in the same place of the repository as the directory it was made from.
    `message` says what was taken along and what was not."""

    worktree: Worktree
    cwd: str
    message: str


class Worktrees(Protocol):
    """git runs in the sandbox of the policy that is given: a repository can name programs for git to run.

    All of them raise `InvalidCommand` with a sentence for people.
    """

    async def add(self, workspace: str, wanted: NewWorktree, policy: SandboxPolicy) -> MadeWorktree:
        """A new worktree with a branch of its own, from the commit that is checked out in `workspace`. It is in the
        list before git makes it, so that nothing is left over that nobody knows of."""
        ...

    async def claim(self, worktree: Worktree, thread_id: ThreadId) -> None:
        """The thread that works in it exists now."""
        ...

    async def remove_unused(self, worktree: Worktree) -> None:
        """For one that `add` made and no thread has used. Raises nothing."""
        ...

    async def list(self, workspace: str | None) -> tuple[Worktree, ...]:
        """Those that were made here, oldest first; `workspace`: of that repository alone. Raises nothing."""
        ...

    async def find(self, name: str, *, workspace: str | None, path: str = "") -> Worktree:
        """By its name in the repository of `workspace`, or by a path in it; without what is in it."""
        ...

    async def finish(
        self,
        worktree: Worktree,
        action: WorktreeAction,
        policy: SandboxPolicy,
        *,
        into: str = "",
        message: str = "",
        discard: str = "",
        preview: bool = False,
    ) -> WorktreeReport:
        """Merges, keeps or drops it. `into` is another branch than the one it came from; `message` is for the commit
        of what is not committed yet; `discard` is its name: what would be lost may be deleted."""
        ...
