"""Putting paths back to what they were, each of them only if it still is what it is expected to be.

What is to be done is written down first, so that a killed process leaves something that can be finished.
"""

import hashlib
import json
import os
import secrets
import stat
from contextlib import suppress
from typing import NamedTuple

from hames.checkpoints.pack import DamagedContent, Pack
from hames.checkpoints.scan import DIRECTORY, FILE, LEFT, LINK, Entry, open_parent

_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC


class RestoreStep(NamedTuple):
    """`now` is what the path is expected to be, `then` what it shall be. None: not there."""

    path: str
    now: Entry | None
    then: Entry | None


class Move(NamedTuple):
    """A directory with something in it that was not kept, so it can come back only as a whole."""

    source: str
    target: str


class Refused(NamedTuple):
    path: str
    why: str


def look(root: int, path: str, *, like: Entry | None = None) -> Entry | None:
    """What a path is now. Raises `OSError` when that cannot be told.

    The content is looked at only if it is a file of the size of `like`: otherwise it is another one anyway.
    """
    try:
        with open_parent(root, path) as (parent, name):
            about = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                return Entry(DIRECTORY, about.st_mode & 0o7777)
            if stat.S_ISLNK(about.st_mode):
                return Entry(LINK, 0, os.readlink(name, dir_fd=parent))
            if not stat.S_ISREG(about.st_mode):
                return Entry(LEFT, value="neither a file nor a directory")
            if like is None or like.kind != FILE or like.size != about.st_size:
                return Entry(FILE, about.st_mode & 0o7777, "other", about.st_size)
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
            with open(file, "rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            return Entry(FILE, about.st_mode & 0o7777, digest, about.st_size)
    except (FileNotFoundError, NotADirectoryError):
        return None


def same(one: Entry | None, other: Entry | None) -> bool:
    return (one and one.content) == (other and other.content)


class Restore:
    """One restore of a workspace, from its steps to its end."""

    def __init__(self, workspace: str, pack: Pack, journal: str) -> None:
        self._workspace = workspace
        self._pack = pack
        self._journal = journal
        self._modes: list[tuple[str, int]] = []
        """Of directories. They are set last: one that nobody may write to could not be filled."""

    def run(self, steps: list[RestoreStep], moves: list[Move]) -> tuple[list[str], list[Refused]]:
        """Returns the paths that are done and those that were refused. Raises `OSError` if it cannot begin."""
        self._write_journal(steps, moves)
        done, refused = self._carry_out(steps, moves)
        os.unlink(self._journal)
        return done, refused

    def finish_interrupted(self) -> None:
        """What a killed process began is done now, as far as the paths still are as they were."""
        try:
            with open(self._journal, encoding="ascii") as file:
                said = json.load(file)
        except FileNotFoundError:
            return
        except (OSError, ValueError):
            said = {"steps": [], "moves": []}  # killed while writing it, so nothing was begun
        steps = [RestoreStep(path, now and Entry(*now), then and Entry(*then)) for path, now, then in said["steps"]]
        self._carry_out(steps, [Move(*move) for move in said["moves"]])
        os.unlink(self._journal)

    def _write_journal(self, steps: list[RestoreStep], moves: list[Move]) -> None:
        fresh = f"{self._journal}.new"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(json.dumps({"steps": steps, "moves": moves}).encode())
            file.flush()
            os.fsync(file.fileno())
        os.rename(fresh, self._journal)

    def _carry_out(self, steps: list[RestoreStep], moves: list[Move]) -> tuple[list[str], list[Refused]]:
        done: list[str] = []
        refused: list[Refused] = []
        root = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for move in sorted(moves, key=lambda one: one.target.count("/")):
                with suppress(OSError, DamagedContent):  # then its steps are refused
                    self._move(root, move, steps)
                    steps = _moved(steps, move)
            for step in _in_order(steps):
                try:
                    if why := self._one(root, step):
                        refused.append(Refused(step.path, why))
                    else:
                        done.append(step.path)
                except DamagedContent as damage:
                    refused.append(Refused(step.path, str(damage)))
                except OSError as problem:
                    refused.append(Refused(step.path, problem.strerror or str(problem)))
            for path, mode in reversed(self._modes):
                with suppress(OSError), open_parent(root, path) as (parent, name):
                    _set_mode(parent, name, mode)
            self._modes = []
        finally:
            os.close(root)
        return done, refused

    def _move(self, root: int, move: Move, steps: list[RestoreStep]) -> None:
        parents = [one for one in steps if move.target.startswith(f"{one.path}/") and one.now is None]
        for parent in sorted(parents, key=lambda one: one.path.count("/")):
            self._one(root, parent)
        if look(root, move.source) is None and look(root, move.target) is not None:
            return  # done before we were killed
        with open_parent(root, move.source) as (source, name), open_parent(root, move.target) as (target, wanted):
            os.rename(name, wanted, src_dir_fd=source, dst_dir_fd=target)

    def _one(self, root: int, step: RestoreStep) -> str:
        """Nothing, or why it was not done."""
        now = look(root, step.path, like=step.now)
        if same(now, step.then) or (step.then is not None and same(look(root, step.path, like=step.then), step.then)):
            return ""
        if not same(now, step.now):
            return "it has been changed since"
        match step.then:
            case None:
                self._remove(root, step.path, now)
            case Entry(kind="directory"):
                self._make_directory(root, step.path, now, step.then)
            case Entry(kind="file"):
                self._write(root, step.path, now, step.then)
            case Entry(kind="link"):
                self._link(root, step.path, now, step.then)
            case _:
                return f"it was not kept: {step.then.value}"
        return ""

    @staticmethod
    def _remove(root: int, path: str, now: Entry | None) -> None:
        with open_parent(root, path) as (parent, name):
            if now is not None and now.kind == DIRECTORY:
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)

    def _make_directory(self, root: int, path: str, now: Entry | None, then: Entry) -> None:
        with open_parent(root, path) as (parent, name):
            if now is not None and now.kind != DIRECTORY:
                os.unlink(name, dir_fd=parent)
                now = None
            if now is None:
                os.mkdir(name, 0o700, dir_fd=parent)
            _set_mode(parent, name, then.mode | 0o700)
        self._modes.append((path, then.mode))

    def _write(self, root: int, path: str, now: Entry | None, then: Entry) -> None:
        with open_parent(root, path) as (parent, name):
            if now is not None and now.kind == FILE and now.value == then.value:
                _set_mode(parent, name, then.mode & 0o1777)
                return
            content = self._pack.read(then.value)
            if now is not None and now.kind == DIRECTORY:
                os.rmdir(name, dir_fd=parent)
            fresh = f".{name[:100]}.{secrets.token_hex(4)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with open(os.open(fresh, flags, 0o600, dir_fd=parent), "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fchmod(file.fileno(), then.mode & 0o1777)
                os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                with suppress(OSError):
                    os.unlink(fresh, dir_fd=parent)
                raise

    @staticmethod
    def _link(root: int, path: str, now: Entry | None, then: Entry) -> None:
        with open_parent(root, path) as (parent, name):
            if now is not None and now.kind == DIRECTORY:
                os.rmdir(name, dir_fd=parent)
            fresh = f".{name[:100]}.{secrets.token_hex(4)}"
            os.symlink(then.value, fresh, dir_fd=parent)
            try:
                os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                with suppress(OSError):
                    os.unlink(fresh, dir_fd=parent)
                raise


def _moved(steps: list[RestoreStep], move: Move) -> list[RestoreStep]:
    """The steps once the directory is back: what was done in its new place has to be taken back in the old one."""
    prefix = f"{move.source}/"
    there = {f"{move.target}/{one.path.removeprefix(prefix)}": one.now for one in steps if one.path.startswith(prefix)}
    here = {one.path: one for one in steps}
    found = [
        one._replace(now=there[one.path]) if one.now is None and one.path in there else one
        for one in steps
        if one.path != move.source and not one.path.startswith(prefix)
    ]
    return found + [RestoreStep(path, now, None) for path, now in there.items() if path not in here]


def _in_order(steps: list[RestoreStep]) -> list[RestoreStep]:
    """What goes first, the deepest before what holds it; then what comes, the other way round."""
    goes = [one for one in steps if one.then is None or (one.now and one.now.kind == DIRECTORY != one.then.kind)]
    going = {one.path for one in goes}
    comes = [one for one in steps if one.path not in going]
    return sorted(goes, key=lambda one: -one.path.count("/")) + sorted(comes, key=lambda one: one.path.count("/"))


def _set_mode(parent: int, name: str, mode: int) -> None:
    file = os.open(name, _PLACE, dir_fd=parent)
    try:
        if stat.S_ISLNK(os.fstat(file).st_mode):
            return
        if hasattr(os, "O_PATH"):
            os.chmod(f"/proc/self/fd/{file}", mode)  # a descriptor that only stands for the path
        else:
            os.fchmod(file, mode)
    finally:
        os.close(file)
