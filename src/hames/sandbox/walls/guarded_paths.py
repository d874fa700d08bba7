"""The guard rails inside a writable directory: git's own programs, and what other agents and editors obey.

`git commit` works; `hooks`, `config` and whatever else makes git run a program stay read-only. A mount point
cannot be renamed or unlinked from inside, and nothing links across it, so each guarded name is one. What does
not exist gets a placeholder for the time of the run.
"""

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from hames.domain.guardrails import GUARDED, GUARDED_WHERE_THEY_EXIST, PLACEHOLDER_MODE
from hames.domain.value import Value
from hames.sandbox.paths import is_inside, read_start
from hames.sandbox.walls.mounts import Mount

_MENTIONS = re.compile(r"^\s*(path|hookspath)\s*=\s*\"?([^\"\n#;]+)", re.IGNORECASE | re.MULTILINE)

_GLOBAL_CONFIGS = (".gitconfig", ".config/git/config")

SAME_DIRECTORY = ".\n"
"""As `.git/commondir` it changes nothing. Without a guard, that file could move git's configuration elsewhere."""


UNFINISHED_MODE = 0o600
"""Of a file until it has its content."""


class GuardedPaths(Value):
    """`directories` and `files` are placeholders to make; `links` are guarded names that are symbolic links, which
    cannot be mount points and are compared after the run."""

    mounts: tuple[Mount, ...] = ()
    directories: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()


class _Survey:
    """Looks at one writable root and collects what has to be guarded there."""

    def __init__(self, root: str, home: str) -> None:
        self.root = Path(root)
        self.home = home
        self.mounts: list[Mount] = []
        self.pins: list[Mount] = []
        self.directories: list[str] = []
        self.files: list[tuple[str, str]] = []
        self.links: list[tuple[str, str]] = []

    def take(self, hidden: Sequence[str] = ()) -> GuardedPaths:
        for path in hidden:
            self.hold_place(Path(path))
        for name in GUARDED:
            if name != ".git":
                self.guard(self.root / name)
        for name in GUARDED_WHERE_THEY_EXIST:
            if str(self.root) == self.home or os.path.lexists(self.root / name):
                self.guard(self.root / name)
        self.git(self.root / ".git")
        self.from_outside()
        shut = [mount.path for mount in self.mounts if mount.how != "write"]
        # A directory that is only held in place must not reopen one that is shut.
        pins = [pin for pin in self.pins if not any(is_inside(pin.path, path) for path in shut)]
        return GuardedPaths(
            mounts=(*pins, *self.mounts),
            directories=tuple(dict.fromkeys(self.directories)),
            files=tuple(dict.fromkeys(self.files)),
            links=tuple(self.links),
        )

    def guard(self, path: Path) -> None:
        """Nothing of it can be changed, now or when it would appear."""
        mode = _mode(path)
        if mode is None or _is_placeholder(path, mode):
            self.directories.append(str(path))
            self.mounts.append(Mount(path=str(path), how="hidden"))
        elif stat.S_ISLNK(mode):
            self.links.append((str(path), str(path.readlink())))
            self.hold(Path(os.path.realpath(path)))
        else:
            self.mounts.append(Mount(path=str(path), how="read"))

    def guard_file(self, path: Path, content: str = "") -> None:
        """The same for a file that git would stumble over if it were a directory."""
        mode = _mode(path)
        if mode is None or _is_placeholder(path, mode, content):
            self.files.append((str(path), content))
        if mode is not None and stat.S_ISLNK(mode):
            self.links.append((str(path), str(path.readlink())))
        else:
            self.mounts.append(Mount(path=str(path), how="read"))

    def hold(self, path: Path, *, directory: bool = True) -> None:
        """Read-only where it is inside the root, with every directory above it held in place."""
        if path == self.root or not is_inside(str(path), str(self.root)) or not path.parent.is_dir():
            return
        for parent in path.relative_to(self.root).parents[:-1]:
            self.pins.append(Mount(path=str(self.root / parent), how="write"))
        # A file may be the placeholder of another run, which is still using it.
        if directory or path.is_dir() or path.is_symlink():
            self.guard(path)
        else:
            self.guard_file(path)

    def hold_place(self, path: Path) -> None:
        """The same for a path that may be missing, also together with directories above it."""
        if not is_inside(str(path), str(self.root)) or path == self.root:
            return
        if path.is_symlink():
            self.guard(path)
        while not path.parent.is_dir():
            path = path.parent
        self.hold(path, directory=False)

    def read(self, *paths: Path) -> None:
        self.mounts += [Mount(path=str(path), how="read") for path in paths if path.exists()]

    def git(self, git: Path) -> None:
        mode = _mode(git)
        if mode is None:
            return  # `git init` works; what it leaves is looked at when the command has ended
        if stat.S_ISDIR(mode) and not _is_placeholder(git, mode):
            self.repository(git)
            return
        self.guard(git)
        if stat.S_ISREG(mode) and (admin := linked_worktree(git)) is not None:
            common = admin.parent.parent
            self.repository(common)
            self.mounts.append(Mount(path=str(admin), how="write"))
            self.read(common / "HEAD", common / "index", admin / "commondir", admin / "gitdir")
            if _has_worktree_config(common):
                self.guard_file(admin / "config.worktree")

    def repository(self, git: Path) -> None:
        self.mounts.append(Mount(path=str(git), how="write"))
        self.guard(git / "hooks")
        self.hook_links(git / "hooks")
        self.guard_file(git / "config")
        self.guard_file(git / "commondir", SAME_DIRECTORY)
        self.foreign_worktrees(git / "worktrees")
        if _has_worktree_config(git):
            self.guard_file(git / "config.worktree")
        self.mentioned(git / "config", self.root)

    def mentioned(self, config: Path, top: Path) -> None:
        """What git's configuration includes, and where it takes hooks from. `top` is where the files are."""
        for key, value in _MENTIONS.findall(read_start(config)):
            hooks = key.lower() == "hookspath"
            named = Path(value.strip().replace("~", self.home, 1) if value.strip()[:2] == "~/" else value.strip())
            self.hold(Path(os.path.realpath((top if hooks else config.parent) / named)), directory=hooks)

    def from_outside(self) -> None:
        """Files in the root that the user's own settings, or a repository around the root, take hooks from."""
        for name in _GLOBAL_CONFIGS:
            self.mentioned(Path(self.home, name), self.root)
        if (self.root / ".git").exists():
            return
        top = next((parent for parent in self.root.parents if (parent / ".git").is_dir()), None)
        if top is not None:
            self.mentioned(top / ".git/config", top)
            self.hook_links(top / ".git/hooks")

    def hook_links(self, hooks: Path) -> None:
        """A hook that is a link runs what it leads to, which may be an ordinary file of the project."""
        try:
            links = [Path(entry.path) for entry in os.scandir(hooks) if entry.is_symlink()]
        except OSError:
            return
        for link in links:
            self.hold(Path(os.path.realpath(link)), directory=False)

    def foreign_worktrees(self, worktrees: Path) -> None:
        """Worktrees that lie outside the root. Those inside it are looked at when the command has ended."""
        try:
            admins = [Path(entry.path) for entry in os.scandir(worktrees)]
        except OSError:
            return
        for admin in admins:
            checkout = os.path.realpath(Path(worktrees, admin, read_start(admin / "gitdir").strip()))
            if not is_inside(checkout, str(self.root)):
                self.guard(admin)


def find_guarded_paths(
    root: str, *, home: str, hidden: Sequence[str] = (), read_only: Sequence[str] = ()
) -> GuardedPaths:
    """What has to be guarded in one writable root. `root` is a real path. `hidden` and `read_only` are further places,
    real paths or not, that nobody may make, replace or move."""
    return _Survey(root, home).take((*hidden, *read_only))


def _mode(path: Path) -> int | None:
    try:
        return path.lstat().st_mode
    except OSError:
        return None


def _is_placeholder(path: Path, mode: int, content: str = "") -> bool:
    """Left by a run that was killed: nobody else makes an empty thing of this mode under these names."""
    if stat.S_ISDIR(mode):
        return stat.S_IMODE(mode) == PLACEHOLDER_MODE and not any(path.iterdir())
    if not stat.S_ISREG(mode):
        return False
    same = stat.S_IMODE(mode) == PLACEHOLDER_MODE and read_start(path) == content
    return same or is_unfinished(path, content)


def is_unfinished(path: Path, content: str) -> bool:
    """A placeholder whose content was never written, because the process or the machine stopped. It has to be dealt
    with: git refuses a repository with an empty `commondir`."""
    try:
        about = path.lstat()
    except OSError:
        return False
    ours = about.st_uid == os.geteuid() and stat.S_IMODE(about.st_mode) in (UNFINISHED_MODE, PLACEHOLDER_MODE)
    return bool(content) and ours and stat.S_ISREG(about.st_mode) and about.st_size == 0


def _has_worktree_config(git: Path) -> bool:
    return "worktreeconfig" in read_start(git / "config").lower()


def linked_worktree(dot_git: Path) -> Path | None:
    """The administrative directory of a linked worktree, if it is one that its repository knows.

    The `.git` file came with the workspace and may point anywhere; the way back is in the repository.
    """
    text = read_start(dot_git)
    if not text.startswith("gitdir: "):
        return None
    admin = Path(os.path.realpath(dot_git.parent / text.removeprefix("gitdir: ").strip()))
    if admin.parent.name != "worktrees" or read_start(admin / "commondir").strip() != "../..":
        return None
    back = read_start(admin / "gitdir").strip()
    common = admin.parent.parent
    if not back or os.path.realpath(back) != str(dot_git) or not (common / "objects").is_dir():
        return None
    return admin
