"""Finds the repository around a directory, and what is checked out there."""

import os
from collections.abc import Sequence
from pathlib import Path

from hames.domain.errors import InvalidCommand
from hames.domain.value import Value
from hames.worktrees.git import SandboxedGit
from hames.worktrees.records import admin_of

_DEEPEST = 64
_OURS = (".harness/", ".harness")


class CheckoutStatus(Value):
    """What is checked out, and the paths that differ from it, that git does not know, and that it ignores."""

    commit: str
    branch: str
    changed: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def uncommitted(self) -> tuple[str, ...]:
        return (*self.changed, *self.untracked)


class Checkout(Value):
    """`top` is the checkout's own directory, or the bare repository; `repository` is git's directory that all worktrees
    share; `branch` is empty where none is checked out."""

    top: str
    repository: str
    commit: str
    branch: str = ""
    below: str = ""


def find_top(workspace: str) -> tuple[str, bool]:
    """The directory with `.git` around a workspace, and whether it is a bare repository. Raises `InvalidCommand`."""
    here = Path(os.path.realpath(workspace))
    for place in (here, *list(here.parents)[:_DEEPEST]):
        if os.path.lexists(place / ".git"):
            return str(place), False
        if (place / "HEAD").is_file() and (place / "objects").is_dir() and (place / "refs").is_dir():
            return str(place), True
    raise InvalidCommand(f"{workspace!r} is not in a git repository, and a worktree needs one: run git init first")


async def find_checkout(git: SandboxedGit, workspace: str) -> tuple[Checkout, CheckoutStatus]:
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
    status = await (_status_of_bare(git, top) if bare else read_status(git, top))
    if not status.commit:
        raise InvalidCommand(f"the repository {top!r} has no commit yet, and a worktree starts from one: commit first")
    below = "" if bare else os.path.relpath(os.path.realpath(workspace), top)
    found_here = Checkout(
        top=top,
        repository=common,
        commit=status.commit,
        branch=status.branch,
        below="" if below == "." else below,
    )
    return found_here, status


async def _status_of_bare(git: SandboxedGit, top: str) -> CheckoutStatus:
    head = await git.ask(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    branch = await git.ask(top, "symbolic-ref", "--quiet", "--short", "HEAD")
    return CheckoutStatus(commit=head.text if head.code == 0 else "", branch=branch.text if branch.code == 0 else "")


async def read_status(git: SandboxedGit, top: str) -> CheckoutStatus:
    """Raises `InvalidCommand`."""
    words = ("status", "--porcelain=v2", "--branch", "-z", "--no-renames", "--untracked-files=all")
    found = await git.ask(top, *words, "--ignored=matching", "--ignore-submodules=none")
    if found.code:
        raise InvalidCommand(f"git cannot say what has changed in {top!r}")
    return parse_status(found.names)


def parse_status(lines: Sequence[str]) -> CheckoutStatus:
    """
    >>> parse_status(["# branch.oid 1f2", "# branch.head main", "1 .M N... 1 1 1 a a my file", "? new", "! x/"])
    CheckoutStatus(commit='1f2', branch='main', changed=('my file',), untracked=('new',), ignored=('x/',))
    """
    found: dict[str, list[str]] = {"changed": [], "untracked": [], "ignored": []}
    head = {"oid": "", "head": ""}
    for line in lines:
        match line[:2]:
            case "# ":
                key, _, value = line.removeprefix("# branch.").partition(" ")
                head[key] = "" if value in ("(initial)", "(detached)") else value
            case "1 " | "u ":
                found["changed"].append(line.split(" ", 8 if line[0] == "1" else 10)[-1])
            case "? ":
                found["untracked"].append(line[2:])
            case "! " if line[2:] not in _OURS:
                found["ignored"].append(line[2:])
            case _:
                pass
    return CheckoutStatus(
        commit=head["oid"],
        branch=head["head"],
        changed=tuple(found["changed"]),
        untracked=tuple(found["untracked"]),
        ignored=tuple(found["ignored"]),
    )


async def checked_out_at(git: SandboxedGit, top: str, repository: str, branch: str) -> str:
    """The checkout that a branch is checked out in; empty: in none. Raises `InvalidCommand`."""
    found = await git.ask(top, "worktree", "list", "--porcelain", "-z")
    place = ""
    for line in found.names:
        if line.startswith("worktree "):
            place = line.removeprefix("worktree ")
        elif line == f"branch refs/heads/{branch}" and Path(place).is_dir():
            if not belongs_to(place := os.path.realpath(place), repository):
                raise InvalidCommand(f"git says that {branch!r} is checked out in {place!r}, which does not know of it")
            return place
    return ""


def belongs_to(place: str, repository: str) -> bool:
    """Whether a checkout is one of this repository, as both say: a command may have written only one of them."""
    dot_git = Path(place, ".git")
    if dot_git.is_dir() and not dot_git.is_symlink():
        return os.path.realpath(dot_git) == repository
    return admin_of(place, repository) is not None
