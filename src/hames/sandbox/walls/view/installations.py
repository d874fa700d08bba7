"""What a program outside the system's directories needs beside itself: its installation, its base, its links.

A workspace may say which interpreter it wants (`.venv/bin/python` is a link), and a workspace is not trusted. So
a target of its choosing becomes visible only if it is a Python installation, complete with its standard library.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from hames.sandbox.paths import is_inside
from hames.sandbox.walls.mounts import Mount, follow
from hames.sandbox.walls.view.system import ALWAYS_SHOWN

_MARKS = tuple("pyvenv.cfg conda-meta Cellar lib/ruby lib/node_modules include/node jmods lib/modules pkg/tool".split())
"""Beside `bin`: these tell an installation from a directory that merely has a `bin`."""
_PYTHONS = ("bin/python", "bin/python3")


Forbidden = Callable[[str], bool]
"""Whether a directory may not be shown as a whole: it is or holds a home directory, or holds known secrets."""


def program(path: str, forbidden: Forbidden) -> list[Mount]:
    """A program that is to be started by its absolute path: itself, and the installations it belongs to."""
    real, links = follow(path)
    if any(is_inside(real, system) for system in ALWAYS_SHOWN) or not Path(real).is_file():
        return links
    homes = [os.path.dirname(place) for place in (path, *(link.path for link in links), real)]
    prefixes = [prefix for home in dict.fromkeys(homes) if (prefix := _installation(home, forbidden))]
    tools = [Mount(path=os.path.realpath(prefix), how="shown") for prefix in prefixes]
    return [*links, *tools, Mount(path=real, how="shown")]


def directory(path: str, forbidden: Forbidden) -> list[Mount]:
    """A directory on PATH, with the installation it belongs to."""
    real, links = follow(path)
    if not Path(real).is_dir() or forbidden(real):
        return []
    prefix = _installation(real, forbidden)
    return [*links, Mount(path=prefix or real, how="tool")]


def _installation(home_of_programs: str, forbidden: Forbidden) -> str:
    prefix, _, name = home_of_programs.rpartition("/")
    if not prefix or name not in ("bin", "sbin", "shims", "condabin") or forbidden(os.path.realpath(prefix)):
        return ""
    version_manager = name == "shims" and Path(prefix, "versions").is_dir()
    marked = version_manager or any(Path(prefix, mark).exists() for mark in _MARKS)
    return prefix if marked or _is_python(prefix) else ""


def _is_python(prefix: str) -> bool:
    """Whether a standard library is there."""
    try:
        with os.scandir(f"{prefix}/lib") as entries:
            names = [entry.path for entry in entries if entry.name.startswith("python")]
    except OSError:
        return False
    return any(os.path.isfile(f"{path}/os.py") for path in names)


def base_pythons(environments: Iterable[str], forbidden: Forbidden) -> tuple[list[Mount], list[str]]:
    """The Python installations behind the virtual environments of a workspace, and sentences about those that are
    not shown."""
    mounts: list[Mount] = []
    missing: list[str] = []
    for environment in environments:
        for name in _PYTHONS:
            start = f"{environment}/{name}"
            real, links = follow(start)
            if is_inside(real, environment) or not Path(real).exists():
                continue
            prefix = os.path.dirname(os.path.dirname(real))
            named = os.path.basename(real).startswith(("python", "pypy"))
            if named and os.access(real, os.X_OK) and _is_python(prefix) and not forbidden(prefix):
                outside = [link for link in links if not is_inside(link.path, environment)]
                mounts += [*outside, Mount(path=prefix, how="shown")]
            else:
                missing.append(f"{start!r} is a link to {real!r}, which commands in the sandbox cannot see")
            break
    return mounts, missing


def dangling(directories: Iterable[str], is_shown: Callable[[str], bool]) -> list[str]:
    """Sentences about programs on PATH that are links to what is not shown. A shell would silently take the next
    program of that name."""
    found: list[str] = []
    for place in directories:
        try:
            with os.scandir(place) as entries:
                links = sorted(entry.path for entry in entries if entry.is_symlink())
        except OSError:
            continue
        targets = {path: os.path.realpath(path) for path in links}
        hidden = [path for path, real in targets.items() if os.path.exists(real) and not is_shown(real)]
        found += [
            f"{path!r} is a link to {targets[path]!r}, which commands in the sandbox cannot see" for path in hidden
        ]
    return found
