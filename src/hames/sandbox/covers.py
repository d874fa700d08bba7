"""What lies on the disk and is nobody's business inside a sandbox: keys and passwords, and other programs' sockets.

A listening socket is reached through a path, whatever the network namespace says, so each one is covered.
What starts to listen after the program has started is not.
"""

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from hames.sandbox.mounts import Mount

SECRETS: tuple[str, ...] = (
    ".1password",
    ".aws",
    ".azure",
    ".bash_history",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".config/1Password",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/hames",
    ".config/heroku",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".docker",
    ".gem/credentials",
    ".gemini/oauth_creds.json",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/hames",
    ".local/share/keyrings",
    ".local/state/hames",
    ".mozilla",
    ".mysql_history",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".ssh",
    ".terraform.d",
    ".thunderbird",
    ".vault-token",
    ".yarnrc.yml",
    ".zsh_history",
)
"""Below the home directory."""

# Readable to us only when we are root, and root is who runs harnesses in containers.
_SYSTEM_SECRETS = ("/etc/shadow", "/etc/ssl/private", "/run/secrets", "/var/run/secrets")

_OCTAL = re.compile(r"\\([0-7]{3})")

_SOCKETS = ("/var/run/docker.sock", "/var/run/containerd/containerd.sock", "/var/lib/lxd/unix.socket")


def secret_mounts(home: str, *, more: Sequence[str], keep: Sequence[str]) -> list[Mount]:
    """Covers for all of them that exist. A writable root that a person named (`keep`) is not covered itself."""
    at_home = [f"{home}/{name}" for name in _worth_a_look(home)]
    names = (*at_home, *_SYSTEM_SECRETS, *_host_keys(), *more)
    found = {os.path.realpath(name) for name in names if os.access(name, os.R_OK)}
    return [_cover(path) for path in sorted(found) if path not in keep]


def _worth_a_look(home: str) -> Sequence[str]:
    """One listing instead of fifty questions. A directory that cannot be listed may still be entered."""
    try:
        there = frozenset(os.listdir(home))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return SECRETS
    return [name for name in SECRETS if name.partition("/")[0] in there]


def _host_keys() -> list[str]:
    try:
        return [entry.path for entry in os.scandir("/etc/ssh") if entry.name.endswith("_key")]
    except OSError:
        return []


def socket_mounts() -> list[Mount]:
    """Covers for all sockets that have a path."""
    paths = {path for path in (*_bound(), *_mounted(), *_SOCKETS) if _is_socket(path)}
    return [Mount(path=path, how="masked") for path in sorted({os.path.realpath(path) for path in paths})]


def _bound() -> list[str]:
    """Everything bound to a path in our network namespace, also what takes datagrams and never listens."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    columns = (line.split(maxsplit=7) for line in lines)
    return [fields[7] for fields in columns if len(fields) == 8 and fields[7].startswith("/")]


def _mounted() -> list[str]:
    """Sockets that were mounted into a container: their listener is in another namespace, and not on the list."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    return [_OCTAL.sub(lambda found: chr(int(found[1], 8)), line.split(" ", 5)[4]) for line in lines]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116
    except OSError:
        return False


def _cover(path: str) -> Mount:
    return Mount(path=path, how="hidden" if Path(path).is_dir() else "masked")
