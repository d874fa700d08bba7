"""What a sandboxed program sees of the file system, as a list that sorts itself.

A mount hides what is below it, so parents come first. Paths are real paths: a
mount point that is reached through a symbolic link is not where it seems to be.
"""

import os
import re
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from hames.domain.errors import SandboxUnavailable
from hames.domain.value import Value
from hames.sandbox.paths import is_inside

How = Literal[
    "read", "write", "hidden", "masked", "scratch", "passage", "home", "shown", "tool", "cache", "link", "file"
]
"""`hidden` is an empty directory instead, `masked` an empty file instead, `scratch` a private writable directory,
`passage` a directory that holds nothing but what is mounted below it, and takes nothing else.

`home` is the private home directory. `shown` is read-only and may be missing; `tool` is the same, through an overlay
with `target` where there is one. `cache` is readable and takes private changes that are thrown away. `link` is
a symbolic link to `target`, `file` is a private file with `content`."""

BOUND: frozenset[How] = frozenset({"read", "write", "shown", "tool", "cache"})
"""These show what is on the disk."""


_MOST_LINKS = 40
_LOOK_AGAIN_SECONDS = 30
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(Value):
    path: str
    how: How
    target: str = ""
    content: bytes = b""


def sort_mounts(mounts: Iterable[Mount]) -> list[Mount]:
    """Parents before children; of two for the same path, the later one."""
    last = {mount.path: mount for mount in mounts}
    return sorted(last.values(), key=lambda mount: (mount.path.rstrip("/").count("/"), mount.path))


class Layers:
    """Mounts on top of each other, to be asked what can be seen through them."""

    def __init__(self, mounts: Iterable[Mount]) -> None:
        self._how: dict[str, How] = {mount.path: mount.how for mount in mounts}
        self.bound = tuple(path for path, how in self._how.items() if how in BOUND)

    def shows(self, path: str) -> bool:
        """Whether `path` is what is on the disk: the innermost mount above it decides."""
        while path not in self._how:
            if path in ("/", ""):
                return False
            path = path.rpartition("/")[0] or "/"
        return self._how[path] in BOUND


def now_and_then() -> int:
    """Changes every half minute. What rarely changes is looked up again then, and not for every command."""
    return int(time.monotonic() // _LOOK_AGAIN_SECONDS)


def mount_points() -> tuple[str, ...]:
    """Where something is mounted on this machine, the kernel's own file systems left out."""
    return _mount_points(now_and_then())


@lru_cache(maxsize=1)
def _mount_points(_moment: int) -> tuple[str, ...]:
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ()
    places = (line.split(" ", 5)[4] for line in lines)
    shown = (place for place in places if not place.startswith(("/sys/", "/proc/")))
    return tuple(_OCTAL.sub(lambda found: chr(int(found[1], 8)), place) for place in shown)


def follow(path: str) -> tuple[str, list[Mount]]:
    """The real path, and every symbolic link on the way to it."""
    rest = [name for name in reversed(path.split("/")) if name not in ("", ".")]
    here = ""
    links: list[Mount] = []
    while rest:
        name = rest.pop()
        if name == "..":
            here = here.rpartition("/")[0]
            continue
        try:
            target = os.readlink(f"{here}/{name}")
        except OSError:
            here = f"{here}/{name}"
            continue
        links.append(Mount(path=f"{here}/{name}", how="link", target=target))
        if len(links) > _MOST_LINKS:
            break
        if target.startswith("/"):
            here = ""
        rest += [name for name in reversed(target.split("/")) if name not in ("", ".")]
    return here or "/", links


def writable_roots(workspace: str, roots: Sequence[str]) -> dict[str, str]:
    """The directories that become writable, by name, resolved.

    One that lies inside another is writable with it and is not resolved itself: what is inside a writable
    directory can be replaced by a link to anywhere, and then the next command would be given anywhere.

    Raises `SandboxUnavailable` for a workspace or a root that cannot be one.
    """
    named = list(dict.fromkeys(os.path.normpath(root) for root in (workspace, *roots)))
    outermost = [root for root in named if not any(root != other and is_inside(root, other) for other in named)]
    real = [os.path.realpath(root) for root in outermost]
    for name, root in zip(outermost, real, strict=True):
        if not name.startswith("/") or any(is_inside(root, kernel) for kernel in ("/dev", "/proc", "/sys")):
            raise SandboxUnavailable(f"{name!r} cannot be a writable root")
    if not Path(workspace).is_dir():
        raise SandboxUnavailable(f"no directory {workspace!r} to work in")
    return {name: root for name, root in zip(outermost, real, strict=True) if Path(root).is_dir()}
