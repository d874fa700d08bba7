"""Merges the branch of a worktree into another one: completely, or not at all."""

import os
from typing import NamedTuple

from hames.domain.errors import InvalidCommand
from hames.domain.guardrails import is_guarded
from hames.domain.worktrees import shown
from hames.worktrees.git import GitAnswer, SandboxedGit

_CONFLICT = 1


class Merge(NamedTuple):
    """`top` is a checkout of the repository; `target` is the one that has `into` checked out, empty: none has."""

    top: str
    branch: str
    into: str
    target: str


class Merged(NamedTuple):
    message: str = ""
    conflicts: tuple[str, ...] = ()


async def merge_branch(git: SandboxedGit, merge: Merge, *, preview: bool) -> Merged:
    """Raises `InvalidCommand` where it cannot be merged for another reason than conflicts."""
    ours = await _commit(git, merge.top, merge.into)
    theirs = await _commit(git, merge.top, merge.branch)
    base = await git.ask(merge.top, "merge-base", ours, theirs)
    if base.text == theirs:
        return Merged(f"{merge.into} has everything of {merge.branch} already")
    await _refuse_protected(git, merge, base.text or ours, theirs)
    tree = await git.change(merge.top, "merge-tree", "--write-tree", "--name-only", "-z", ours, theirs)
    if tree.code == _CONFLICT:
        return Merged(conflicts=_conflicts(tree.output))
    if tree.code:
        raise InvalidCommand(f"git cannot merge {merge.branch!r} into {merge.into!r}: {tree.why}")
    if preview:
        return Merged()
    if merge.target:
        await _merge_in_checkout(git, merge)
    else:
        made = os.fsdecode(tree.output.split(b"\0")[0])
        await _merge_without_checkout(git, merge, (ours, theirs), made, fast_forward=base.text == ours)
    return Merged(f"{merge.branch} was merged into {merge.into}")


async def _commit(git: SandboxedGit, top: str, branch: str) -> str:
    found = await git.ask(top, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
    if found.code:
        raise InvalidCommand(f"no branch {branch!r} in this repository")
    return found.text


async def _refuse_protected(git: SandboxedGit, merge: Merge, base: str, theirs: str) -> None:
    """Editors, shells and other agents obey these files, so a person looks at them first."""
    changed = await git.ask(merge.top, "diff", "--name-only", "--no-renames", "-z", base, theirs)
    if changed.code:
        raise InvalidCommand(f"git cannot say what {merge.branch!r} changes")
    protected = tuple(name for name in changed.names if is_guarded(name.split("/")[0]) and name != ".gitmodules")
    if protected:
        raise InvalidCommand(
            f"{merge.branch} changes protected files: {shown(protected)}. Look at them, and merge with git yourself:"
            f" git merge {merge.branch}"
        )


def _conflicts(output: bytes) -> tuple[str, ...]:
    """After the tree: the names of the files, up to an empty one; messages follow."""
    names, _, _ = output.partition(b"\0\0")
    return tuple(dict.fromkeys(os.fsdecode(name) for name in names.split(b"\0")[1:] if name))


async def _merge_in_checkout(git: SandboxedGit, merge: Merge) -> None:
    """git itself refuses to overwrite what is not committed there, before it changes anything."""
    done = await git.change(merge.target, "merge", "--no-edit", "--quiet", merge.branch, hooks=True)
    if done.code == 0:
        return
    own = await git.ask(merge.target, "rev-parse", "--verify", "--quiet", "MERGE_HEAD")
    theirs = await _commit(git, merge.top, merge.branch)
    if own.code == 0 and own.text == theirs:  # a hook refused the commit, and not another merge that was under way
        await git.change(merge.target, "merge", "--abort")
    raise InvalidCommand(f"nothing was merged: {_why_refused(done)}")


def _why_refused(done: GitAnswer) -> str:
    lines = [line.strip() for line in done.text.splitlines() if line.strip()]
    at = next((number for number, line in enumerate(lines) if "would be overwritten" in line), None)
    if at is None:
        return done.why
    files = []
    for line in lines[at + 1 :]:
        if line.startswith(("Please", "Aborting", "error:")):
            break
        files.append(line)
    return f"uncommitted changes there would be overwritten: {shown(tuple(files))}"


async def _merge_without_checkout(
    git: SandboxedGit, merge: Merge, commits: tuple[str, str], tree: str, *, fast_forward: bool
) -> None:
    ours, new = commits
    if not fast_forward:
        about = f"Merge branch '{merge.branch}' into {merge.into}"
        made = await git.change(merge.top, "commit-tree", tree, "-p", ours, "-p", new, "-m", about)
        if made.code:
            raise InvalidCommand(f"nothing was merged: {made.why}")
        new = made.text.splitlines()[-1]
    moved = await git.change(merge.top, "update-ref", f"refs/heads/{merge.into}", new, ours)
    if moved.code:
        raise InvalidCommand(f"nothing was merged: {moved.why}")
