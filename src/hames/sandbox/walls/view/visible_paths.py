"""Everything outside the workspace that one command may see: the system, tools, settings, and what the user names.

It is a list of what is shown. What is not on it does not exist inside, whatever it is called.
"""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from hames.domain.value import Value
from hames.sandbox.paths import is_inside
from hames.sandbox.walls.mounts import BOUND, Mount, follow
from hames.sandbox.walls.view import installations
from hames.sandbox.walls.view.home import HomeView, user_mounts, without_repeats
from hames.sandbox.walls.view.rendered_config import rendered_mounts
from hames.sandbox.walls.view.repository_paths import borrowed_objects, enclosing_repository, git_directories
from hames.sandbox.walls.view.secret_paths import HOME_SECRETS
from hames.sandbox.walls.view.system import system_mounts

_KERNEL = ("/dev", "/proc", "/sys")
_HOMES = ("/home", "/Users", "/var/home", "/root")
_SHARED = ("/dev/shm", "/run", "/tmp", "/var/tmp")
"""Everybody's, and empty inside: a repository that somebody made there is not the one of a workspace below."""

_MOMENT_SECONDS = 2.0
_MOST_KNOWN = 64

HOW_TO_SHOW = "add it to extra_read in the user's configuration to show it"


class ViewRequest(Value):
    """Who asks. `workspaces` are real paths, the first is the workspace itself; `named` is how people call them."""

    home: str
    workspaces: tuple[str, ...]
    named: tuple[str, ...] = ()
    program: str = ""
    path: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    cache: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    """Python environments in the workspace."""
    languages: frozenset[str] = frozenset()
    """What the workspace is written in."""


class VisibleView(Value):
    """`private_home`: the home directory is an empty one with some of these mounts in it. `notes` are for people."""

    mounts: tuple[Mount, ...]
    private_home: bool
    notes: tuple[str, ...] = ()


class VisiblePaths:
    """`visible`, remembered for a moment: commands come in bursts, and what they may see rarely changes meanwhile.
    The tools at home are looked at each time."""

    def __init__(self, home: str, overlays: Callable[[str], bool]) -> None:
        self._home_view = HomeView(home, overlays)
        self._overlays = overlays
        self._known: dict[ViewRequest, tuple[float, tuple[Mount, ...], VisibleView]] = {}

    def find(self, wanted: ViewRequest, *, again: bool = False) -> VisibleView:
        """`again`: something has vanished that was to be shown."""
        tools, now = self._home_view.mounts(wanted.languages), time.monotonic()
        found_at, tools_then, found = self._known.get(wanted, (float("-inf"), (), None))
        if found is None or again or now - found_at > _MOMENT_SECONDS or tools is not tools_then:
            found = visible(wanted, tools_at_home=tools, overlays=self._overlays)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[wanted] = (now, tools, found)
        return found


def visible(wanted: ViewRequest, *, tools_at_home: Sequence[Mount], overlays: Callable[[str], bool]) -> VisibleView:
    """`overlays`: whether a directory can be the lower half of an overlay."""
    home, workspace = wanted.home, wanted.workspaces[0]
    system = system_mounts()
    private = has_private_home(home, wanted.workspaces)
    forbidden = _forbidden(home)
    links = [link for name in wanted.named for link in follow(name)[1]]
    tools = [*tools_at_home] if private else []
    for path in wanted.read:
        tools += user_mounts(path, home, how="tool")
    for path in wanted.cache:
        mounts = user_mounts(path, home, how="cache")
        tools += mounts if mounts and overlays(mounts[-1].path) else [_read_only(mount) for mount in mounts]
    for directory in wanted.path:
        tools += installations.directory(directory, forbidden)
    if wanted.program:
        tools += installations.program(wanted.program, forbidden)
    pythons, missing_pythons = installations.base_pythons(wanted.environments, forbidden)
    above = enclosing_repository(workspace, forbidden)
    elsewhere = [*git_directories(workspace), *(git_directories(above) if above else ())]
    repository = [Mount(path=path, how="shown") for path in (*elsewhere, above) if path]
    mounts = without_repeats(
        [*links, *tools, *pythons, *repository],
        shown_already=[mount.path for mount in system if mount.how in BOUND],
        workspaces=wanted.workspaces,
    )
    bound = [mount.path for mount in (*system, *mounts) if mount.how in BOUND] + list(wanted.workspaces)

    def is_shown(path: str) -> bool:
        return any(is_inside(path, tree) for tree in bound)

    missing = [
        *(missing_pythons if private else ()),
        *installations.dangling(wanted.path, is_shown),
        *(
            f"git takes objects from {path!r}, which commands in the sandbox cannot see"
            for path in borrowed_objects(workspace)
            if not is_shown(path)
        ),
    ]
    notes = [f"{sentence}: {HOW_TO_SHOW}" for sentence in missing]
    if any(is_inside(home, root) for root in wanted.workspaces):
        notes.append(
            "the workspace is or contains the home directory: commands see all of it except files that are known to "
            "hold secrets"
        )
    files = [file for file in rendered_mounts(home) if not is_shown(file.path)] if private else []
    return VisibleView(mounts=(*system, *mounts, *files), private_home=private, notes=tuple(notes))


def has_private_home(home: str, workspaces: Sequence[str]) -> bool:
    """Not where the home directory is the workspace, or is a part of the system, such as `/`."""
    needed = [mount.path for mount in system_mounts() if mount.how in BOUND]
    if any(is_inside(home, root) for root in (*workspaces, *_KERNEL)):
        return False
    if any(is_inside(path, home) for path in (*needed, *_KERNEL)):
        return False
    return Path(home).is_dir() or not any(is_inside(home, path) for path in needed)


def _read_only(mount: Mount) -> Mount:
    return mount if mount.how == "link" else Mount(path=mount.path, how="tool")


def _forbidden(home: str) -> Callable[[str], bool]:
    """Directories that are not shown as a whole because somebody's secrets lie below them."""
    secrets = _secrets(home)

    def forbidden(path: str) -> bool:
        parent = path.rpartition("/")[0]
        whole_home = path in ("", "/", *_HOMES, *_SHARED) or parent in _HOMES[:3] or is_inside(home, path)
        return whole_home or any(is_inside(secret, path) for secret in secrets)

    return forbidden


@lru_cache(maxsize=8)
def _secrets(home: str) -> tuple[str, ...]:
    return tuple(f"{home}/{name}" for name in HOME_SECRETS)
