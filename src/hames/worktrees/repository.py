"""Finds the repository around a directory, and what is checked out there."""

import os
from pathlib import Path

from hames.domain.errors import InvalidCommand
from hames.domain.value import Value
from hames.worktrees.git import SandboxedGit

_DEEPEST = 64


class Checkout(Value):
    """`top` is the checkout's own directory, or the bare repository; `repository` is git's directory that all worktrees
    share; `branch` is empty where none is checked out."""

    top: str
    repository: str
    commit: str
    branch: str = ""
    below: str = ""
    bare: bool = False


def find_top(workspace: str) -> tuple[str, bool]:
    """The directory with `.git` around a workspace, and whether it is a bare repository. Raises `InvalidCommand`."""
    here = Path(os.path.realpath(workspace))
    for place in (here, *list(here.parents)[:_DEEPEST]):
        if os.path.lexists(place / ".git"):
            return str(place), False
        if (place / "HEAD").is_file() and (place / "objects").is_dir() and (place / "refs").is_dir():
            return str(place), True
    raise InvalidCommand(f"{workspace!r} is not in a git repository, and a worktree needs one: run git init first")


async def find_checkout(git: SandboxedGit, workspace: str) -> Checkout:
    """Raises `InvalidCommand`."""
    top, bare = find_top(workspace)
    found = await git.change(top, "rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir")
    lines = found.text.splitlines()
    if found.code or len(lines) != 2:
        raise InvalidCommand(f"git cannot use {top!r}: {found.why}")
    common, own = map(os.path.realpath, lines)
    if not bare and own == common and Path(top, ".git").is_file() and "/modules/" in common:
        raise InvalidCommand(
            f"{top!r} is a submodule, which cannot have a worktree here; start in the repository around it"
        )
    head = await git.ask(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if head.code or not head.text:
        raise InvalidCommand(f"the repository {top!r} has no commit yet, and a worktree starts from one: commit first")
    branch = await git.ask(top, "symbolic-ref", "--quiet", "--short", "HEAD")
    below = os.path.relpath(os.path.realpath(workspace), top)
    return Checkout(
        top=top,
        repository=common,
        commit=head.text,
        branch=branch.text if branch.code == 0 else "",
        below="" if below == "." or bare else below,
        bare=bare,
    )


async def checked_out_at(git: SandboxedGit, top: str, branch: str) -> str:
    """The checkout that a branch is checked out in; empty: in none."""
    found = await git.ask(top, "worktree", "list", "--porcelain", "-z")
    place = ""
    for line in found.names:
        if line.startswith("worktree "):
            place = line.removeprefix("worktree ")
        elif line == f"branch refs/heads/{branch}" and Path(place).is_dir():
            return os.path.realpath(place)
    return ""
