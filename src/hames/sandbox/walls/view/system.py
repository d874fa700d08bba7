"""What a sandboxed program sees of the machine outside the home directory: the system's own directories, by name.

Everything else at the root (`/srv`, `/mnt`, `/data`, other homes, ...) does not exist inside, so other programs'
sockets and files in such directories need no covers.
"""

from functools import cache
from pathlib import Path

from hames.sandbox.paths import is_inside
from hames.sandbox.walls.mounts import Mount, follow
from hames.sandbox.walls.view.secret_paths import holds_something

DIRECTORIES = tuple(
    """
    /usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /sys/devices/system /nix/store /nix/var/nix/profiles /gnu/store
    /snap /run/current-system /run/wrappers /run/opengl-driver /var/cache/fontconfig /var/lib/alternatives /var/lib/dpkg
    /var/lib/gems /var/lib/ghc /var/lib/pacman /var/lib/rpm /var/lib/texmf
    """.split()
)
"""Of /sys only how many processors there are, and what a container may use: a bind mount of all of it would show a
dozen other kernel file systems, and take time for each. Of /var only what programs read: package lists, fonts, and
the parts of language installations that lie there."""

# Where programs keep sockets and the like beside what others need of them.
_MIXED = ("/opt",)

ALWAYS_SHOWN = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")

_LINKS = (
    Mount(path="/var/run", how="link", target="/run"),
    Mount(path="/var/lock", how="link", target="/run/lock"),
    Mount(path="/var/tmp", how="link", target="/tmp"),
)


@cache
def system_mounts() -> tuple[Mount, ...]:
    """Looked up once: what vanishes later is left out by the mount itself."""
    found: list[Mount] = list(_LINKS)
    # Version 2 alone: the first version has a mount for each kind of limit.
    control_groups = ("/sys/fs/cgroup",) if Path("/sys/fs/cgroup/cgroup.controllers").exists() else ()
    for path in (*DIRECTORIES, *control_groups):
        real, links = follow(path)
        shown = [mount.path for mount in found if mount.how != "link"]
        found += [link for link in links if not any(is_inside(link.path, root) for root in shown)]
        if holds_something(real) and not any(is_inside(real, root) for root in shown):
            found.append(Mount(path=real, how="tool" if path.startswith(_MIXED) else "shown"))
    return tuple({mount.path: mount for mount in found}.values())
