"""What a sandboxed program sees of the machine outside the home directory: the system's own directories, by name.

Everything else at the root (`/srv`, `/mnt`, `/data`, other homes, ...) does not exist inside, so other programs'
sockets and files in such directories need no covers.
"""

import os
import stat
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

from hames.sandbox.mounts import Mount, follow, inside

DIRECTORIES = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    # Of /sys only how many processors there are, and what a container may use. A bind mount of all of it would show
    # a dozen other kernel file systems, and take time for each.
    "/sys/devices/system",
    "/nix/store",
    "/nix/var/nix/profiles",
    "/gnu/store",
    "/snap",
    "/run/current-system",
    "/run/wrappers",
    "/run/opengl-driver",
    # Of /var only what programs read: package lists, fonts, and the parts of language installations that lie there.
    "/var/cache/fontconfig",
    "/var/lib/alternatives",
    "/var/lib/dpkg",
    "/var/lib/gems",
    "/var/lib/ghc",
    "/var/lib/pacman",
    "/var/lib/rpm",
    "/var/lib/texmf",
)

# Where programs keep sockets and the like beside what others need of them.
_MIXED = ("/opt",)

ALWAYS_SHOWN = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")

_LINKS = (
    Mount(path="/var/run", how="link", target="/run"),
    Mount(path="/var/lock", how="link", target="/run/lock"),
    Mount(path="/var/tmp", how="link", target="/tmp"),
)

# Readable to us mostly when we are root, and root is who runs harnesses in containers.
SECRETS = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/sudo_logsrvd.conf",
    "/etc/apt/auth.conf",
    "/etc/apt/auth.conf.d",
    "/etc/docker/key.json",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/NetworkManager/system-connections",
    "/etc/openvpn",
    "/etc/ppp/chap-secrets",
    "/etc/ppp/pap-secrets",
    "/etc/rancher",
    "/etc/security/opasswd",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
    "/run/secrets",
    "/var/run/secrets",
)

# Settings of package tools that may hold a password for a registry.
_SETTINGS = (
    "/etc/pip.conf",
    "/etc/npmrc",
    "/usr/etc/npmrc",
    "/etc/gitconfig",
    "/etc/uv/uv.toml",
    "/etc/xdg/pip/pip.conf",
)
_PASSWORD_WORDS = (b"_auth", b"_password", b"password", b"token", b"extraheader", b"insteadof")


@cache
def system_mounts() -> tuple[Mount, ...]:
    """Looked up once: what vanishes later is left out by the mount itself."""
    found: list[Mount] = list(_LINKS)
    # Version 2 alone: the first version has a mount for each kind of limit.
    control_groups = ("/sys/fs/cgroup",) if Path("/sys/fs/cgroup/cgroup.controllers").exists() else ()
    for path in (*DIRECTORIES, *control_groups):
        real, links = follow(path)
        shown = [mount.path for mount in found if mount.how != "link"]
        found += [link for link in links if not any(inside(link.path, root) for root in shown)]
        if _holds_something(real) and not any(inside(real, root) for root in shown):
            found.append(Mount(path=real, how="tool" if path.startswith(_MIXED) else "shown"))
    return tuple({mount.path: mount for mount in found}.values())


def _holds_something(path: str) -> bool:
    try:
        about = os.stat(path)  # noqa: PTH116
        if not stat.S_ISDIR(about.st_mode):
            return about.st_size > 0
        with os.scandir(path) as entries:
            return any(True for _ in entries)
    except OSError:
        return False


def system_secrets() -> list[str]:
    """Files and directories of the system that hold keys or passwords and that we could read."""
    return [*_known(), *_closed_to_others()]


def _known() -> Iterator[str]:
    yield from (path for path in SECRETS if os.access(path, os.R_OK) and _holds_something(path))
    yield from _host_keys()
    yield from (path for path in _SETTINGS if _holds_password(path))


def _host_keys() -> list[str]:
    try:
        return [entry.path for entry in os.scandir("/etc/ssh") if entry.name.endswith("_key")]
    except OSError:
        return []


def _holds_password(path: str) -> bool:
    try:
        about = os.stat(path)  # noqa: PTH116
    except OSError:
        return False
    return _mentions_password(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=32)
def _mentions_password(path: str, _changed_ns: int, _size: int) -> bool:
    try:
        text = Path(path).read_bytes().lower()
    except OSError:
        return False
    return any(word in text for word in _PASSWORD_WORDS) or b"@" in text.partition(b"://")[2]


def _closed_to_others() -> tuple[str, ...]:
    """As root: whatever in `/etc` an ordinary user could not read. An ordinary user needs no covers for that."""
    if os.geteuid() != 0:
        return ()
    # Deep down the directory is covered with all that is in it: each cover costs time.
    found = {path if path.count("/") < 4 else os.path.dirname(path) for path in _closed("/etc")}  # noqa: PTH120
    return tuple(path for path in sorted(found) if _holds_something(path))


def _closed(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        try:
            about = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(about.st_mode):
            if about.st_mode & stat.S_IXOTH:
                yield from _closed(entry.path)
            else:
                yield entry.path
        elif stat.S_ISREG(about.st_mode) and about.st_size and not about.st_mode & stat.S_IROTH:
            yield entry.path
