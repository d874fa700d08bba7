"""Resolves a path that a model names: to a root and a path below it, or to a refusal.

The roots are the workspace and what the sandbox policy makes writable beside it: without a sandbox, everything. Names
are only taken apart here; what they lead to on disk is decided when they are opened.
"""

import os.path
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import pairwise

from hames.domain.guardrails import is_guarded
from hames.domain.json import Json
from hames.domain.policy import DangerFullAccess, ExternalSandbox, WorkspaceWrite
from hames.domain.rules import covers_path, deciding
from hames.domain.value import Value
from hames.ports import Directory, Place, ToolFailed, Workspace
from hames.ports.workspace import Outside
from hames.tools.files.refusals import folded, shown

PATH: Json = {"type": "string", "minLength": 1, "maxLength": 4096}
"""The schema of a path, without its description."""

GUARDED_TOO = frozenset(
    {
        *(".aider.conf.yml", ".claude.json", ".continue", ".kiro", ".opencode", ".roo", ".windsurf", ".zed"),
        *(".husky", ".githooks", ".logout", ".ssh", "git~1"),
        *(".devcontainer", ".devcontainer.json", ".hg"),
    }
)
"""Beside the guard rails that the sandbox holds, too: a person can be asked about more than can be walled off."""

_GIT_NAMES = ("HEAD", "commondir", "objects", "refs")

GUARDED_PAIRS = frozenset({(".config", name) for name in ("fish", "git", "hames")})


class Spot(Value):
    """`path` is below `root`, without `..`; `.` is the root itself. `absolute` is what people are shown."""

    files: Workspace
    root: str
    path: str
    absolute: str
    guarded: bool = False

    def open_root(self) -> AbstractContextManager[Directory]:
        return self.files.open(self.root)


def locate(place: Place, path: str) -> Spot:
    """Raises `Outside` for what lies below no root, and `ToolFailed` for what is no path."""
    if (spot := _below(place, path, roots(place))) is not None:
        return spot
    raise Outside(f"{shown(path)!r} is outside the workspace {shown(place.workspace)!r}; file tools do not go there")


def locate_readable(place: Place, path: str) -> Spot:
    """The same for what is only read: the directories that the user made readable are roots as well."""
    if (spot := _below(place, path, (*roots(place), *place.readable))) is not None:
        return spot
    listed = ", ".join(shown(one) for one in place.readable)
    also = f" and the readable directories ({listed})" if listed else ""
    raise Outside(
        f"{shown(path)!r} is outside the workspace {shown(place.workspace)!r}{also}; a command may be able to read it, "
        "and the user can add its directory to extra_read in the configuration"
    )


def _below(place: Place, path: str, allowed: Iterable[str]) -> Spot | None:
    if "\0" in path or not encodable(path):
        raise ToolFailed(f"{path!r} is not a path")
    if path == "~" or path.startswith("~/"):
        raise Outside("`~` is not expanded, and the home directory is outside the workspace")
    wanted = _parts(path if path.startswith("/") else f"{place.cwd}/{path}")
    refuse_denied(place, "/" + "/".join(wanted))
    for root in allowed:
        for name in dict.fromkeys((root, os.path.realpath(root))):
            above = _parts(name)
            if wanted[: len(above)] == above:
                below = wanted[len(above) :]
                # A root of its own may lie inside a guarded directory; the workspace is where the user chose to be.
                judged = below if root == place.workspace else wanted
                return Spot(
                    files=place.files,
                    root=root,
                    path="/".join(below) or ".",
                    absolute="/".join((root.rstrip("/"), *below)) or "/",
                    guarded=_guarded(judged),
                )
    return None


def refuse_denied(place: Place, absolute: str) -> None:
    """Raises `ToolFailed` for a file that a rule keeps the agent from reading, under whatever name."""
    rules = [rule for rule in place.denied if rule.read]
    names = dict.fromkeys((absolute, os.path.realpath(absolute))) if rules else ()
    for rule in rules:
        if any(covers_path(rule.read, name) for name in names):
            raise ToolFailed(f"not allowed: {deciding(rule, shown(absolute)).reason}")


def roots(place: Place) -> Iterator[str]:
    yield place.workspace
    if isinstance(place.sandbox, WorkspaceWrite):
        yield from place.sandbox.writable_roots
    elif isinstance(place.sandbox, DangerFullAccess | ExternalSandbox):
        yield "/"  # file tools may touch what commands may touch


def named(place: Place, absolute: str) -> str:
    """As short as it is clear: from the working directory when it is below it."""
    name = os.path.relpath(absolute, place.cwd)
    return absolute if name.split("/")[0] == ".." else name


def relative(place: Place, absolute: str) -> str:
    """The same, for people and models to read."""
    return shown(named(place, absolute))


def protected(spot: Spot, together: Iterable[Spot] = ()) -> bool:
    """Whether changing it touches guard rails: by its names, or because it is in a git directory under another name.

    `together` are the files that change with it: a git directory can also be put together file by file.
    """
    if spot.guarded:
        return True
    changed = [other.path.split("/") for other in (spot, *together) if other.root == spot.root]
    with spot.open_root() as root:
        parts = spot.path.split("/")
        return any(_is_git(root, parts[:count], changed) for count in range(len(parts)))


def _is_git(root: Directory, above: list[str], changed: list[list[str]]) -> bool:
    """Whether git takes the directory for a repository, now or after the change."""
    directory, depth = "/".join(above) or ".", len(above)
    there = {name for name in _GIT_NAMES if _holds(root, f"{directory}/{name}")}
    if {"objects", "refs"} <= there:
        return True
    there |= {path[depth] for path in changed if len(path) > depth and path[:depth] == above}
    return "HEAD" in there and ({"objects", "refs"} <= there or "commondir" in there)


def _holds(root: Directory, path: str) -> bool:
    try:
        root.mode(path, follow=False)
    except ToolFailed:
        return False
    return True


def _guarded(parts: list[str]) -> bool:
    names = [folded(part) for part in parts]
    return any(is_guarded(name) or name in GUARDED_TOO for name in names) or any(
        pair in GUARDED_PAIRS for pair in pairwise(names)
    )


def _parts(path: str) -> list[str]:
    return [part for part in os.path.normpath(path).split("/") if part]


def encodable(text: str) -> bool:
    """Whether every character of it is one: a lone surrogate is not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
