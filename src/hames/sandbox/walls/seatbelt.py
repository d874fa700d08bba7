"""macOS walls: a profile for `sandbox-exec`. Written against the same port and untested: nobody has run it on a Mac.

The tool is deprecated and still what agents use there. Paths in a profile must be real ones: `/tmp` is a link.
"""

from collections.abc import Sequence

from hames.domain.guardrails import GUARDED, GUARDED_WHERE_THEY_EXIST
from hames.sandbox.walls.view.secret_paths import HOME_SECRETS

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
VERIFIED = False

_BASE = """(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow ipc-posix-sem)
(allow ipc-posix-shm)
(allow pseudo-tty)
(allow file-read*)
(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))
(allow file-ioctl (literal "/dev/null") (literal "/dev/zero"))
"""

_OTHERS = ("/Users", "/Volumes", "/private/tmp", "/private/var/folders", "/private/var/root")

_GIT = ("hooks", "config", "commondir", "config.worktree", "modules", "worktrees")


def profile(
    *,
    roots: Sequence[str],
    home: str,
    scratch: str,
    network: bool,
    hidden: Sequence[str] = (),
    readable: Sequence[str] = (),
    private_home: bool = False,
) -> str:
    """The rules, last match wins. All paths are real paths; `scratch` is a private temporary directory. `private_home`:
    of the home directories only what is `readable` can be read."""
    lines = [_BASE]
    if private_home:
        lines += [f"(deny file-read-data (subpath {_quote(path)}))" for path in (home, *_OTHERS)]
        lines += [f"(allow file-read* (subpath {_quote(path)}))" for path in readable]
    secrets = (f"{home}/{name}" for name in (*HOME_SECRETS, "Library/Keychains", "Library/Application Support"))
    lines += [f"(deny file-read* (subpath {_quote(path)}))" for path in (*secrets, *hidden)]
    for root in (*roots, scratch):
        lines += [f"(allow file-read* file-write* (subpath {_quote(root)}))"]
    for root in roots:
        guarded = [name for name in GUARDED if name != ".git"]
        guarded += [*GUARDED_WHERE_THEY_EXIST, *(f".git/{name}" for name in _GIT)]
        lines += [f"(deny file-write* (subpath {_quote(f'{root}/{name}')}))" for name in guarded]
        lines += [f"(deny file-write* (literal {_quote(f'{root}/.git')}))"]
    if network:
        lines += [
            "(allow network*)",
            "(allow system-socket)",
            '(allow mach-lookup (global-name "com.apple.dnssd.service"))',
        ]
    return "\n".join(lines) + "\n"


def arguments(text: str, argv: Sequence[str]) -> list[str]:
    return [SANDBOX_EXEC, "-p", text, *argv]


def _quote(path: str) -> str:
    """A string of the profile language.

    >>> _quote('/a "b"')
    '"/a \\\\"b\\\\""'
    """
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
