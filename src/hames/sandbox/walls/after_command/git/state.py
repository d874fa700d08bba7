"""Everything below a writable root that can make git run a program, file by file.

A `Piece` is one such file: a configuration, a hook, the todo list of a paused rebase, a pointer to another git
directory. Pieces are read before a command and after it; `git_disarm` makes new ones inert.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Literal

from msgspec import structs

from hames.domain.value import Value
from hames.private_files import descriptor
from hames.sandbox.paths import root_of
from hames.sandbox.walls.after_command.git import config
from hames.sandbox.walls.after_command.git.config import GitSetting, UnreadableConfig
from hames.sandbox.walls.beneath_root import ASIDE, PLACE, open_directory, open_listed, read_file

Kind = Literal["config", "hook", "todo", "strategy", "pointer", "common", "link"]
"""`pointer` is a `.git` that is no directory, `common` a `commondir` file, `link` a link instead of a directory."""

_KEPT_BYTES = 256 * 1024
"""Of a file that may have to be put back. A longer one is compared by its times and put aside when it changed."""

X_BITS = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
_MOST_INCLUDES = 100


class Piece(Value):
    """`identity` changes whenever the file, or what it leads to, does. `changed` is the latest change time of the
    file and the directory it is in. `content` is missing if the file is too long or cannot be read."""

    kind: Kind
    identity: str
    changed: int
    runs: bool = True
    """A hook without an executable bit does not."""
    in_tree: bool = False
    """A hook in a directory that the user's own settings name, beside the files of the project."""
    content: bytes | None = None
    mode: int = 0o644
    target: str | None = None
    """Of a link."""
    leads_to: str = ""
    """The git directory inside the roots that a pointer names."""

    def same(self, other: "Piece | None") -> bool:
        return other is not None and (self.kind, self.identity, self.runs) == (other.kind, other.identity, other.runs)


class GitState:
    """Reads the pieces of a set of git directories. `roots` are real paths; nothing outside them is looked at.

    `hooks_paths` are where the user's own settings, outside the roots, say that hooks are. `known` is the state before
    the command: a file or directory that a setting names is only looked at if the setting was there already. A new
    setting is disabled anyway, and could name any file of the project.
    """

    def __init__(
        self, roots: tuple[str, ...], hooks_paths: Iterable[str] = (), known: Mapping[str, Piece] | None = None
    ) -> None:
        self._roots = roots
        self._hooks_paths = tuple(hooks_paths)
        self._known = known
        self.pieces: dict[str, Piece] = {}
        self._directories: dict[str, str] = {}
        """Git directories that were read, each with the one it shares its settings with."""
        self._hooks_named: dict[str, list[str]] = {}

    def read(self, directories: Iterable[str], pointers: Iterable[str]) -> dict[str, Piece]:
        worktrees: list[tuple[str, str]] = []
        waiting = [(git, False) for git in directories]
        for path in pointers:
            self._read_pointer(path, "pointer")
            if (piece := self.pieces.get(path)) is not None and piece.leads_to:
                waiting.append((piece.leads_to, False))
                worktrees.append((os.path.dirname(path), piece.leads_to))
        while waiting:
            git, shared = waiting.pop()
            if git in self._directories:
                continue
            with suppress(OSError):
                waiting += self._read_directory(git, shared=shared)
                worktrees.append((os.path.dirname(git) if git.lower().endswith("/.git") else git, git))
        for top, git in worktrees:
            common = self._directories.get(git, git)
            for named in (*self._hooks_paths, *self._hooks_named.get(common, ()), *self._hooks_named.get(git, ())):
                self._read_hooks(os.path.realpath(os.path.join(top, named)), in_tree=True)
        return self.pieces

    def _read_directory(self, git: str, *, shared: bool) -> list[tuple[str, bool]]:
        """Returns the git directories it leads to. `shared`: another one takes its settings from here.

        Raises `OSError`.
        """
        root = root_of(git, self._roots)
        if root is None:
            return []
        with open_directory(root, git) as here:
            names = set(os.listdir(here))
            # Whatever git would not take for a git directory is an ordinary directory of the project.
            needed = {"objects", "refs"} if shared else {"HEAD"}
            if not git.lower().endswith("/.git") and not needed <= names:
                return []
            self._directories[git] = git
            for name in ("config", "config.worktree"):
                if name in names:
                    self._read_config(here, git, name, git)
            for name in ("hooks", "rebase-merge", "sequencer"):
                if name in names:
                    # One that cannot be read must not keep the others from being read.
                    with suppress(OSError):
                        self._read_below(here, git, name)
            if "commondir" not in names:
                return []
        self._read_pointer(f"{git}/commondir", "common")
        common = self.pieces.get(f"{git}/commondir")
        if common is None or not common.leads_to:
            return []
        self._directories[git] = common.leads_to
        return [(common.leads_to, True)]

    def _read_below(self, here: int, git: str, name: str) -> None:
        if self._is_link(here, git, name):
            return
        with descriptor(os.open(name, PLACE, dir_fd=here)) as place, descriptor(open_listed(place)) as listed:
            if name == "hooks":
                self._read_hook_files(listed, f"{git}/hooks", in_tree=False)
            elif name == "sequencer":
                self._read_file(listed, f"{git}/sequencer", "opts", "strategy")
            else:
                self._read_file(listed, f"{git}/rebase-merge", "strategy", "strategy")
                self._read_file(listed, f"{git}/rebase-merge", "git-rebase-todo", "todo")

    def _read_config(self, here: int, directory: str, name: str, git: str) -> None:
        path = f"{directory}/{name}"
        if path in self.pieces or len(self.pieces) > _MOST_INCLUDES * (1 + len(self._directories)):
            return
        self._read_file(here, directory, name, "config")
        piece = self.pieces.get(path)
        if piece is None or piece.content is None or b"path" not in piece.content.lower():
            return
        try:
            settings = config.read_config(piece.content)
        except UnreadableConfig:
            return
        for setting in settings:
            value = setting.value or ""
            if not self._was_there(path, setting):
                continue
            if setting.key == "core.hookspath" and value:
                self._hooks_named.setdefault(git, []).append(value)
            elif setting.key == "include.path" or (
                setting.key.startswith("includeif.") and setting.key.endswith(".path")
            ):
                self._read_included(os.path.realpath(os.path.join(directory, value)), git)

    def _was_there(self, path: str, setting: GitSetting) -> bool:
        if self._known is None:
            return True
        before = self._known.get(path)
        if before is None or before.content is None:
            return False
        try:
            known = config.read_config(before.content)
        except UnreadableConfig:
            return False
        return any((item.key, item.value) == (setting.key, setting.value) for item in known)

    def _read_included(self, path: str, git: str) -> None:
        root, (directory, name) = root_of(path, self._roots), os.path.split(path)
        if root is not None and path != root:
            with suppress(OSError), open_directory(root, directory) as here:
                self._read_config(here, directory, name, git)

    def _read_hooks(self, directory: str, *, in_tree: bool) -> None:
        """Every file in it but samples: names of hooks come and go with versions of git."""
        directory = os.path.realpath(directory)
        root = root_of(directory, self._roots)
        if root is not None:
            with suppress(OSError), open_directory(root, directory) as here:
                self._read_hook_files(here, directory, in_tree=in_tree)

    def _read_hook_files(self, here: int, directory: str, *, in_tree: bool) -> None:
        for name in os.listdir(here):
            if not name.endswith(".sample") and ASIDE not in name:
                self._read_file(here, directory, name, "hook", in_tree=in_tree)

    def _read_pointer(self, path: str, kind: Kind) -> None:
        directory, name = os.path.split(path)
        root = root_of(path, self._roots)
        if root is None:
            return
        with suppress(OSError), open_directory(root, directory) as here:
            self._read_file(here, directory, name, kind)
        piece = self.pieces.get(path)
        if piece is None:
            return
        named = _pointed_path(piece)
        if named is None:
            del self.pieces[path]  # git calls it invalid and stops
            return
        target = os.path.realpath(os.path.join(directory, named)) if named else ""
        # What /proc names is another place for every process.
        is_inside = root_of(target, self._roots) is not None and not named.startswith(("/proc/", "/dev/"))
        identity, leads_to = f"{piece.identity} {target}", target if is_inside else ""
        self.pieces[path] = structs.replace(piece, identity=identity, leads_to=leads_to, runs=not leads_to)

    def _is_link(self, here: int, directory: str, name: str) -> bool:
        about = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISLNK(about.st_mode):
            path = f"{directory}/{name}"
            target = os.readlink(name, dir_fd=here)
            identity = f"{target} {os.path.realpath(path)}"
            self.pieces[path] = Piece(kind="link", identity=identity, changed=about.st_ctime_ns, target=target)
            if name == "hooks":
                self._read_hooks(path, in_tree=True)
        return stat.S_ISLNK(about.st_mode)

    def _read_file(self, here: int, directory: str, name: str, kind: Kind, *, in_tree: bool = False) -> None:
        path = f"{directory}/{name}"
        try:
            about, content = read_file(here, name, _KEPT_BYTES)
        except OSError:
            return
        if stat.S_ISDIR(about.st_mode):
            return
        changed = max(about.st_ctime_ns, os.fstat(here).st_ctime_ns)
        target = os.readlink(name, dir_fd=here) if stat.S_ISLNK(about.st_mode) else None
        if target is not None:
            real = os.path.realpath(path)
            inside = root_of(real, self._roots) is not None
            identity = f"{target} {real} {_identity_at(real) if inside else ''}"
            if kind == "config":
                content = self._read_through_link(real)
        elif content is not None:
            identity = hashlib.sha256(content).hexdigest()
        else:
            identity = f"{about.st_ino} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"
        runs = kind != "hook" or target is not None or bool(about.st_mode & X_BITS)
        self.pieces[path] = Piece(
            kind=kind,
            identity=identity,
            changed=changed,
            content=content,
            mode=stat.S_IMODE(about.st_mode) if target is None else 0o644,
            target=target,
            runs=runs,
            in_tree=in_tree,
        )

    def _read_through_link(self, real: str) -> bytes | None:
        root = root_of(real, self._roots)
        if root is None or real == root:
            return None
        with suppress(OSError), open_directory(root, os.path.dirname(real)) as here:
            return read_file(here, os.path.basename(real), _KEPT_BYTES)[1]
        return None


def _pointed_path(piece: Piece) -> str | None:
    """The path that a pointer holds. Empty: one that we cannot read and git perhaps can. None: no path at all."""
    if piece.target is not None:
        return piece.target
    if piece.content is None or b"\0" in piece.content:
        return ""
    text = piece.content.decode("utf-8", "surrogateescape").rstrip("\r\n")
    if piece.kind == "common":
        return text
    return text.removeprefix("gitdir: ") if text.startswith("gitdir: ") else None


def _identity_at(path: str) -> str:
    """Of what a link leads to."""
    directory, name = os.path.split(path)
    try:
        with descriptor(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as here:
            about, content = read_file(here, name, _KEPT_BYTES)
    except OSError:
        return ""
    if content is not None:
        return f"{hashlib.sha256(content).hexdigest()} {bool(about.st_mode & X_BITS)}"
    return f"{about.st_ino} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"
