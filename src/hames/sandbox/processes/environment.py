"""What a child finds in its environment: a list of names that may pass, never a list of names that may not.

Every key, token and socket address of the parent stays behind because nobody named it.
"""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hames.ports.sandbox import JOB_VARIABLE
from hames.sandbox.paths import root_of

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

JOB = JOB_VARIABLE

_MOST_ENTRIES = 64
_PASSED = ("LANG", "LANGUAGE", "LOGNAME", "TZ", "USER")


COPY_NOT_LINK = {"UV_LINK_MODE": "copy", "pnpm_config_package_import_method": "copy"}
"""What package managers install is a file of its own and not a second name for one in a cache. Older versions of pnpm
are told by a file (`rendered_config`): npm warns about every variable it does not know."""


def child_environment(
    parent: Mapping[str, str],
    *,
    home: str,
    job: str,
    extra_path: Sequence[str] = (),
    user_path: Sequence[str] = (),
    inherit: Sequence[str] = (),
    tmp: str = "",
    private_home: bool = False,
) -> dict[str, str]:
    """The whole environment of a child. `inherit` are further names a person chose, taken from `parent`.

    `user_path` is what the user's own PATH has, in that order. `tmp` is the private temporary directory behind walls.
    Caches go to it, unless the home directory is private, too.
    """
    names = (*_PASSED, *inherit, *(name for name in parent if name.startswith("LC_")))
    child = {name: parent[name] for name in names if name in parent}
    child.setdefault("LANG", "C.UTF-8")
    child |= {
        "HOME": home,
        "PATH": ":".join(dict.fromkeys((*extra_path, *user_path, *SYSTEM_PATH))),
        "SHELL": "/bin/sh",
        "TERM": "dumb",
        "TMPDIR": tmp or parent.get("TMPDIR", "/tmp"),
        # A pager would wait for a key that nobody presses, a password prompt for a password.
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        JOB: job,
    }
    if tmp:
        child |= COPY_NOT_LINK
    if tmp and not private_home:
        child |= {"XDG_CACHE_HOME": f"{tmp}/.cache", "npm_config_cache": f"{tmp}/.npm"}
    return child


def safe_directories(directories: Sequence[str], *, writable: Sequence[str]) -> tuple[str, ...]:
    """Those that may stand on a child's PATH: nobody else can put a program there, and neither can the agent."""
    absolute = (os.path.realpath(name) for name in directories if name.startswith("/") and ":" not in name)
    return tuple(real for real in absolute if _is_safe(real) and root_of(real, writable) is None)


def safe_user_path(path: str, *, writable: Sequence[str], is_shown: Callable[[str], bool]) -> tuple[str, ...]:
    """Of the user's own PATH, in its order: the system's directories, and the safe ones that the program can see."""
    found: list[str] = []
    for entry in path.split(":")[:_MOST_ENTRIES]:
        if entry in SYSTEM_PATH:
            found.append(entry)
        else:
            found += [real for real in safe_directories([entry], writable=writable) if is_shown(real)]
    return tuple(found)


def _is_safe(directory: str) -> bool:
    try:
        about = Path(directory).stat()
    except OSError:
        return False
    is_writable_to_others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(about.st_mode) and not is_writable_to_others and about.st_uid in (0, os.getuid())
