"""Parts of a workspace's git repository that lie outside the workspace.

A workspace may be a directory deep in a repository, a linked worktree, or a submodule. What its `.git` file says is not
trusted: the other side has to name the workspace, too.
"""

import os
from collections.abc import Callable
from pathlib import Path

from hames.sandbox.paths import read_start
from hames.sandbox.walls.guarded_paths import linked_worktree

_DEEPEST = 32


def enclosing_repository(workspace: str, forbidden: Callable[[str], bool]) -> str:
    """The directory above with a repository that the workspace is a part of, or nothing."""
    here = workspace
    for _ in range(_DEEPEST):
        if os.path.lexists(f"{here}/.git"):
            return "" if here == workspace or forbidden(here) else here
        here = os.path.dirname(here)
        if here == "/":
            break
    return ""


def git_directories(workspace: str) -> list[str]:
    """Git directories elsewhere that belong to this workspace."""
    dot_git = Path(workspace, ".git")
    if not dot_git.is_file():
        return []
    if (admin := linked_worktree(dot_git)) is not None:
        return [str(admin.parent.parent)]
    submodule = os.path.realpath(Path(workspace, read_start(dot_git).removeprefix("gitdir: ").strip()))
    return [submodule] if _names_worktree(submodule, workspace) else []


def _names_worktree(git: str, workspace: str) -> bool:
    for line in read_start(Path(git, "config")).splitlines():
        key, told, value = (part.strip() for part in line.partition("="))
        if told and key.lower() == "worktree":
            return os.path.realpath(Path(git, value.strip('"'))) == workspace
    return False


def borrowed_objects(workspace: str) -> list[str]:
    """Other repositories that this one takes objects from. They are only named: a command could have written this."""
    text = read_start(Path(workspace, ".git/objects/info/alternates"))
    return [line for line in text.splitlines() if line.startswith("/")]
