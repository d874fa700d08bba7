"""Makes git state inert that a command left behind, so that git outside the sandbox runs nothing of it.

Nothing is thrown away: a file gets a name that git does not look for, a setting becomes a comment. What was there
before the command is the user's own and stays byte for byte.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import assert_never

from hames.domain.value import Value
from hames.sandbox.paths import root_of
from hames.sandbox.walls.after_command.git import config
from hames.sandbox.walls.after_command.git.config import ConfigJudge, UnreadableConfig
from hames.sandbox.walls.after_command.git.state import X_BITS, Piece
from hames.sandbox.walls.beneath_root import (
    ASIDE,
    drop_mode_bits,
    move_aside,
    open_directory,
    replace,
    writable,
)

_EMPTY_CONFIG = b"[core]\n\trepositoryformatversion = 0\n"
_STRATEGIES = frozenset({"ort", "recursive", "resolve", "octopus", "ours", "subtree", ""})
_REBASE_COMMANDS = frozenset(
    {
        *("pick", "revert", "edit", "reword", "fixup", "squash", "break", "label", "reset", "merge", "noop", "drop"),
        *("p", "e", "r", "f", "s", "b", "l", "t", "m", "d", "u", "update-ref"),
    }
)
"""All that a rebase does but `exec`."""


class Disarmed(Value):
    """One file that was made inert, or could not be (`problem`)."""

    path: str
    piece: Piece
    what: tuple[str, ...] = ()
    """Names of settings, or lines."""
    kept_as: str = ""
    restored: bool = False
    problem: str = ""


class Disarmer:
    """Makes new pieces inert. `before` is the user's own state."""

    def __init__(self, before: Mapping[str, Piece], roots: tuple[str, ...]) -> None:
        self._before = before
        self._roots = roots
        # A new worktree gets the hooks of the project with its other files. With the same content they are not new.
        self._trusted = {piece.identity for piece in before.values() if piece.in_tree and piece.runs}

    def disarm(self, path: str, piece: Piece) -> Disarmed | None:
        """None: it was harmless."""
        if not piece.runs or piece.same(self._before.get(path)):
            return None
        if piece.in_tree and piece.target is None and piece.identity in self._trusted:
            return None
        root = root_of(path, self._roots)
        if root is None:
            return None
        directory, name = os.path.split(path)
        try:
            with open_directory(root, directory) as here:
                return self._disarm_in(here, path, name, piece)
        except FileNotFoundError:
            return None
        except OSError as error:
            return Disarmed(path=path, piece=piece, problem=error.strerror or str(error))

    def _disarm_in(self, here: int, path: str, name: str, piece: Piece) -> Disarmed | None:
        match piece.kind:
            case "config":
                return self._disarm_config(here, path, name, piece)
            case "hook":
                return self._disarm_hook(here, path, name, piece)
            case "todo":
                return self._disarm_todo(here, path, name, piece)
            case "strategy":
                return None if _is_known_strategy(name, piece) else self._put_aside(here, path, name, piece)
            case "pointer" | "common" | "link":
                return self._put_aside(here, path, name, piece)
            case _ as never:
                assert_never(never)

    def _put_aside(self, here: int, path: str, name: str, piece: Piece) -> Disarmed:
        owner = os.stat(name, dir_fd=here, follow_symlinks=False)
        kept_as = move_aside(here, name)
        if piece.kind == "hook":
            drop_mode_bits(here, kept_as, X_BITS)
        return Disarmed(
            path=path, piece=piece, kept_as=kept_as, restored=self._put_back(here, path, name, piece, owner)
        )

    def _put_back(self, here: int, path: str, name: str, piece: Piece, owner: os.stat_result) -> bool:
        """What was there before the command, if it was kept."""
        before = self._before.get(path)
        if before is None or (before.kind == "hook" and not before.runs):
            return False
        if before.target is not None:
            if before.target == piece.target:
                return False  # what it leads to has changed, and may well stay so: it is not run any more
            with writable(here):
                os.symlink(before.target, name, dir_fd=here)
        elif before.content is not None:
            replace(here, name, before.content, mode=before.mode, owner=owner)
        else:
            return False
        return True

    def _disarm_hook(self, here: int, path: str, name: str, piece: Piece) -> Disarmed:
        before = self._before.get(path)
        if before is not None and not before.runs and piece.target is None:
            drop_mode_bits(here, name, X_BITS)
            return Disarmed(path=path, piece=piece)
        return self._put_aside(here, path, name, piece)

    def _disarm_config(self, here: int, path: str, name: str, piece: Piece) -> Disarmed | None:
        before = self._before.get(path)
        known = before.content if before is not None else None
        directory = os.path.dirname(path)

        def inside(value: str) -> bool:
            return root_of(os.path.realpath(os.path.join(directory, value)), self._roots) is not None

        try:
            judge = ConfigJudge(config.read_config(known) if known is not None else (), inside=inside)
            if piece.content is None:
                raise UnreadableConfig("too long, or no file")
            harmless, removed = config.without_settings(piece.content, judge.harmful)
        except UnreadableConfig:
            harmless, removed = known if known is not None else _EMPTY_CONFIG, None
        if removed == [] and piece.target is None:
            return None
        owner = os.stat(name, dir_fd=here, follow_symlinks=False)
        kept_as = move_aside(here, name) if removed is None or piece.target is not None else ""
        replace(here, name, harmless, mode=piece.mode, owner=owner)
        what = tuple(dict.fromkeys(setting.key for setting in removed or ()))
        return Disarmed(
            path=path, piece=piece, what=what, kept_as=kept_as, restored=removed is None and known is not None
        )

    def _disarm_todo(self, here: int, path: str, name: str, piece: Piece) -> Disarmed | None:
        if piece.content is None:
            return self._put_aside(here, path, name, piece)
        before = self._before.get(path)
        known = Counter(_programs(before.content or b"") if before is not None else ())
        kept: list[bytes] = []
        removed: list[str] = []
        for line in _lines(piece.content):
            if not _is_program(line):
                kept.append(line)
            elif known[line.strip()] > 0:
                known[line.strip()] -= 1
                kept.append(line)
            else:
                removed.append(line.strip().decode("utf-8", "replace"))
        if not removed:
            return None
        owner = os.stat(name, dir_fd=here, follow_symlinks=False)
        replace(here, f"{name}.{ASIDE}", piece.content, mode=piece.mode, owner=owner)
        replace(here, name, b"".join(kept), mode=piece.mode, owner=owner)
        return Disarmed(path=path, piece=piece, what=tuple(removed), kept_as=f"{name}.{ASIDE}")


def _lines(content: bytes) -> list[bytes]:
    """Split at LF alone, as git does."""
    return [line + b"\n" for line in content.split(b"\n") if line]


def _programs(content: bytes) -> Iterator[bytes]:
    return (line.strip() for line in _lines(content) if _is_program(line))


_COMMAND = re.compile(rb"[ \t]*([^ \t\r\n]*)")


def _is_program(line: bytes) -> bool:
    found = _COMMAND.match(line)
    command = found[1].decode("utf-8", "replace") if found is not None else ""
    return bool(command) and command not in _REBASE_COMMANDS and not command.startswith("#")


def _is_known_strategy(name: str, piece: Piece) -> bool:
    """Git runs a strategy it does not know as `git-merge-NAME`, and the name may hold slashes."""
    if piece.content is None:
        return False
    if name != "opts":
        return piece.content.decode("utf-8", "replace").strip() in _STRATEGIES
    try:
        settings = config.read_config(piece.content)
    except UnreadableConfig:
        return False
    return all(setting.key != "options.strategy" or (setting.value or "") in _STRATEGIES for setting in settings)
