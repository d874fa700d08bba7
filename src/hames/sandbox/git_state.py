"""Everything below a writable root that can make git run a program, file by file.

A `Piece` is one such file: a configuration, a hook, the todo list of a paused rebase, a pointer to another git
directory. Pieces are read before a command and after it; `git_disarm` makes new ones inert.
"""

# Paths are strings, because most of them are read from files; files are reached through descriptors.
# ruff: noqa: PTH118, PTH119, PTH120

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Literal

from hames.domain.value import Value
from hames.sandbox import git_config
from hames.sandbox.beneath_root import ASIDE, opened, read_file, root_of
from hames.sandbox.git_config import UnreadableConfig

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

    `hooks_paths` are where the user's own settings, outside the roots, say that hooks are.
    """

    def __init__(self, roots: tuple[str, ...], hooks_paths: Iterable[str] = ()) -> None:
        self._roots = roots
        self._hooks_paths = tuple(hooks_paths)
        self.pieces: dict[str, Piece] = {}
        self._directories: dict[str, str] = {}
        """Git directories that were read, each with the one it shares its settings with."""
        self._hooks_named: dict[str, list[str]] = {}

    def read(self, directories: Iterable[str], pointers: Iterable[str]) -> dict[str, Piece]:
        worktrees: list[tuple[str, str]] = []
        waiting = list(directories)
        for path in pointers:
            self._read_pointer(path, "pointer")
            if (piece := self.pieces.get(path)) is not None and piece.leads_to:
                waiting.append(piece.leads_to)
                worktrees.append((os.path.dirname(path), piece.leads_to))
        while waiting:
            git = waiting.pop()
            if git in self._directories:
                continue
            self._directories[git] = git
            with suppress(OSError):
                waiting += self._read_directory(git)
            top = os.path.dirname(git) if os.path.basename(git).lower() == ".git" else git
            worktrees.append((top, git))
        for top, git in worktrees:
            common = self._directories.get(git, git)
            for named in (*self._hooks_paths, *self._hooks_named.get(common, ()), *self._hooks_named.get(git, ())):
                self._read_hooks(os.path.realpath(os.path.join(top, named)), in_tree=True)
        return self.pieces

    def _read_directory(self, git: str) -> Iterator[str]:
        """Also returns the git directories it leads to."""
        root = root_of(git, self._roots)
        if root is None:
            return
        with opened(root, git) as here:
            for name in ("config", "config.worktree"):
                self._read_config(here, git, name, git)
            self._read_pointer(f"{git}/commondir", "common")
            common = self.pieces.get(f"{git}/commondir")
            if common is not None and common.leads_to:
                self._directories[git] = common.leads_to
                yield common.leads_to
            for name in ("hooks", "rebase-merge", "sequencer"):
                self._read_link(here, git, name)
        self._read_paused(git, "sequencer", "opts", "strategy")
        self._read_paused(git, "rebase-merge", "strategy", "strategy")
        self._read_paused(git, "rebase-merge", "git-rebase-todo", "todo")
        self._read_hooks(f"{git}/hooks")

    def _read_paused(self, git: str, directory: str, name: str, kind: Kind) -> None:
        """A file of an operation that waits to be continued."""
        root = root_of(git, self._roots)
        if root is not None:
            with suppress(OSError), opened(root, f"{git}/{directory}") as here:
                self._read_file(here, f"{git}/{directory}", name, kind)

    def _read_config(self, here: int, directory: str, name: str, git: str) -> None:
        path = f"{directory}/{name}"
        if path in self.pieces or len(self.pieces) > _MOST_INCLUDES * (1 + len(self._directories)):
            return
        self._read_file(here, directory, name, "config")
        piece = self.pieces.get(path)
        if piece is None or piece.content is None or b"path" not in piece.content.lower():
            return
        try:
            settings = git_config.read(piece.content)
        except UnreadableConfig:
            return
        for setting in settings:
            value = setting.value or ""
            if setting.key == "core.hookspath" and value:
                self._hooks_named.setdefault(git, []).append(value)
            elif setting.key == "include.path" or (
                setting.key.startswith("includeif.") and setting.key.endswith(".path")
            ):
                self._read_included(os.path.realpath(os.path.join(directory, value)), git)

    def _read_included(self, path: str, git: str) -> None:
        root = root_of(path, self._roots)
        if root is None or path == root:
            return
        with suppress(OSError), opened(root, os.path.dirname(path)) as here:
            self._read_config(here, os.path.dirname(path), os.path.basename(path), git)

    def _read_hooks(self, directory: str, *, in_tree: bool = False) -> None:
        """Every file in it but samples: names of hooks come and go with versions of git."""
        directory = os.path.realpath(directory)
        root = root_of(directory, self._roots)
        if root is None:
            return
        with suppress(OSError), opened(root, directory) as here, os.scandir(here) as entries:
            for entry in entries:
                if not entry.name.endswith(".sample") and ASIDE not in entry.name:
                    self._read_file(here, directory, entry.name, "hook", in_tree=in_tree)

    def _read_pointer(self, path: str, kind: Kind) -> None:
        directory, name = os.path.split(path)
        root = root_of(path, self._roots)
        if root is None:
            return
        with suppress(OSError), opened(root, directory) as here:
            self._read_file(here, directory, name, kind)
        piece = self.pieces.get(path)
        if piece is None:
            return
        named = _named(piece)
        if named is None:
            del self.pieces[path]  # git calls it invalid and stops
            return
        target = os.path.realpath(os.path.join(directory, named)) if named else ""
        # What /proc names is another place for every process.
        is_inside = root_of(target, self._roots) is not None and not named.startswith(("/proc/", "/dev/"))
        leads_to = target if is_inside else ""
        self.pieces[path] = Piece(
            kind=kind,
            identity=f"{piece.identity} {target}",
            changed=piece.changed,
            content=piece.content,
            target=piece.target,
            leads_to=leads_to,
            runs=not leads_to,
        )

    def _read_link(self, here: int, directory: str, name: str) -> None:
        try:
            about = os.stat(name, dir_fd=here, follow_symlinks=False)
        except OSError:
            return
        if stat.S_ISLNK(about.st_mode):
            path = f"{directory}/{name}"
            target = os.readlink(name, dir_fd=here)
            identity = f"{target} {os.path.realpath(path)}"
            self.pieces[path] = Piece(kind="link", identity=identity, changed=about.st_ctime_ns, target=target)

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
        with suppress(OSError), opened(root, os.path.dirname(real)) as here:
            return read_file(here, os.path.basename(real), _KEPT_BYTES)[1]
        return None


def _named(piece: Piece) -> str | None:
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
    try:
        directory, name = os.path.split(path)
        here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            about, content = read_file(here, name, _KEPT_BYTES)
        finally:
            os.close(here)
    except OSError:
        return ""
    if content is not None:
        return f"{hashlib.sha256(content).hexdigest()} {bool(about.st_mode & X_BITS)}"
    return f"{about.st_ino} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"
