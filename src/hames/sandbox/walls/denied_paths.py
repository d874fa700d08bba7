"""The files that rules deny to a command, found when it starts: a mount needs a path, and a rule may have a pattern."""

import os
import time
from collections.abc import Sequence

from hames.domain.errors import SandboxUnavailable
from hames.domain.rules import covers_path
from hames.ports import Launch
from hames.sandbox.paths import is_inside

MAX_ENTRIES = 100_000
MAX_SECONDS = 2.0
_SKIPPED = frozenset({".git", ".harness"})


def denied_paths(launch: Launch, workspaces: Sequence[str], kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the command must not see, and what it must not change. Raises `SandboxUnavailable` where that cannot be
    held: a rule that denies something is never left out."""
    if not launch.hidden and not launch.read_only:
        return (), ()
    if kind != "bubblewrap":
        raise SandboxUnavailable(
            "rules deny files, and only bubblewrap keeps commands from single files; install it, or remove the rules"
        )
    hidden, read_only = _found(launch.hidden, workspaces), _found(launch.read_only, workspaces)
    workspace = os.path.realpath(launch.workspace)
    if any(is_inside(workspace, path) for path in hidden):
        raise SandboxUnavailable(f"a rule denies reading {launch.workspace!r}, so no command can run there")
    return hidden, tuple(dict.fromkeys((*read_only, *map(os.path.realpath, read_only))))


def _found(patterns: Sequence[str], workspaces: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for pattern in patterns:
        plain = pattern.removesuffix("/**")
        if "*" not in plain and "?" not in plain:
            found[plain] = None
            continue
        fixed = plain[: min(at for sign in "*?" if (at := plain.find(sign)) >= 0)].rpartition("/")[0] or "/"
        starts = [fixed] if any(is_inside(fixed, root) for root in workspaces) else []
        starts += [root for root in workspaces if is_inside(root, fixed) and root != fixed]
        for start in starts:
            found |= dict.fromkeys(_matches(pattern, start))
    return tuple(found)


def _matches(pattern: str, start: str) -> list[str]:
    found: list[str] = []
    waiting, seen, deadline = [start], 0, time.monotonic() + MAX_SECONDS
    while waiting:
        directory = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        seen += len(entries)
        if seen > MAX_ENTRIES or time.monotonic() > deadline:
            raise SandboxUnavailable(
                f"the rule about {pattern!r} needs a look at more than {MAX_ENTRIES:,} files; name a directory instead"
            )
        for entry in entries:
            if covers_path(pattern, entry.path):
                found.append(entry.path)
            elif entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED:
                waiting.append(entry.path)
    return found
