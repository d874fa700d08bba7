"""Looks at what a sandboxed command left behind that would run outside the sandbox later.

Before a command the state that belongs to the user is recorded; after it everything is compared. New git state that
can run a program is made inert, set-uid and set-gid bits are dropped, task files of editors and agents are named. Every
sentence goes into the result of the command.

Of commands that run at the same time in one workspace, the last to end is followed by the look: what another one is
still at work on is left alone until then.
"""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from hames.sandbox.paths import is_inside, root_of
from hames.sandbox.walls.after_command.git import config
from hames.sandbox.walls.after_command.git.config import UnreadableConfig
from hames.sandbox.walls.after_command.git.disarm import Disarmed, Disarmer
from hames.sandbox.walls.after_command.git.state import GitState, Kind
from hames.sandbox.walls.after_command.notes import bit_notes, disarm_notes
from hames.sandbox.walls.after_command.pending_checks import PendingCheck, PendingChecks, Snapshot
from hames.sandbox.walls.after_command.task_files import task_notes
from hames.sandbox.walls.after_command.tree_walk import (
    SPECIAL_BITS,
    OutOfTime,
    TooManyFiles,
    Tree,
    TreeContents,
    file_system_time,
    special_search_result,
    start_special_search,
)
from hames.sandbox.walls.beneath_root import drop_mode_bits, open_directory

log = logging.getLogger(__name__)

SMALL = 3_000
"""Files and directories that are looked at right here. More are searched by a process of their own."""

BEFORE_SECONDS = 10.0
"""How long a command may be held back to record the state before it."""

AFTER_SECONDS = 3.0
"""How long its result may be held back. Then the look goes on behind it."""

_MOST_WATCHED = 8
_GLOBAL_CONFIGS = (".gitconfig", ".config/git/config")
# A link can bring hooks with it, and a pointer a whole repository: these come first, then the rest is read again.
_PHASES: tuple[tuple[Kind, ...], ...] = (("config", "pointer", "common", "link"), ("hook", "todo", "strategy"))


class AfterCommand:
    """One for a sandbox. `directory` is where unfinished looks are remembered; empty for nowhere."""

    def __init__(self, directory: str = "") -> None:
        self._pending = PendingChecks(directory)
        self._watches: dict[tuple[str, ...], _Watch] = {}
        self._lock = threading.Lock()
        self._recovered = False
        self._late: list[str] = []

    def begin(
        self, roots: Sequence[str], *, home: str, skip: Collection[str] = (), background: bool = False
    ) -> "Check":
        """Records what there is. Call it before the command can run; `skip` are directories that it cannot change.
        `background`: nobody waits for its end, so the others are followed by a look all the same."""
        self.recover()
        key = tuple(roots)
        with self._lock:
            watch = self._watches.pop(key, None) or _Watch(key, self._pending.open())
            self._watches[key] = watch
            for old in list(self._watches)[:-_MOST_WATCHED]:
                if self._watches[old].close():
                    del self._watches[old]
        watch.enter(home, frozenset(skip), background=background)
        return Check(self, watch, background=background)

    def has_unfinished(self) -> bool:
        """Whether there may be something for `recover` to look at. Quick."""
        return self._pending.any_left()

    def recover(self) -> None:
        """Looks at what commands left whose harness was killed. The first call does it, others return."""
        with self._lock:
            if self._recovered:
                return
            self._recovered = True
            self._pending.recover(self._recover_one)

    def _recover_one(self, snapshot: Snapshot) -> bool:
        roots = tuple(map(os.fsdecode, snapshot.roots))
        shut = frozenset(map(os.fsdecode, snapshot.shut))
        try:
            notes = _compare(snapshot, {root: Tree(root) for root in roots}, limit=0, elapsed=0, skip=shut)
        except Exception:
            log.exception("after_command.recover")
            return False
        for note in notes:
            log.warning("after_command.recovered", extra={"note": note})
        self._late += [f"From an earlier command that was interrupted: {note}" for note in notes]
        return True

    def late_notes(self) -> list[str]:
        with self._lock:
            notes, self._late = self._late, []
        return notes

    def close(self) -> None:
        with self._lock:
            for watch in self._watches.values():
                watch.close()
            self._watches.clear()


class Check:
    """Of one command."""

    def __init__(self, owner: AfterCommand, watch: "_Watch", *, background: bool = False) -> None:
        self._owner = owner
        self._watch = watch
        self._background = background
        self._finished = False

    def inspect(self) -> list[str]:
        """Looks at what a command in the background left so far."""
        return [] if self._finished else [*self._owner.late_notes(), *self._watch.look()]

    def finish(self) -> list[str]:
        """Once nothing of the command runs any more. Returns sentences for its result; the second call none."""
        if self._finished:
            return []
        self._finished = True
        return [*self._owner.late_notes(), *self._watch.leave(background=self._background)]


class _Watch:
    """A set of roots that commands run in."""

    def __init__(self, roots: tuple[str, ...], pending: PendingCheck | None) -> None:
        self._roots = roots
        self._trees = {root: Tree(root) for root in roots}
        self._pending = pending
        self._lock = threading.Lock()
        """Held while the state is read, also by the thread that goes on behind a result."""
        self._users = 0
        self._background = 0
        self._said: set[str] = set()
        """Notes of looks that were followed by no new snapshot."""
        self._snapshot: Snapshot | None = None
        """From before the first command that has not been followed by a look."""
        self._skip: frozenset[str] = frozenset()
        self._started = 0.0
        self._late: list[str] = []

    def enter(self, home: str, skip: frozenset[str], *, background: bool = False) -> None:
        with self._lock:
            self._count(background=background, more=1)
            if self._snapshot is not None:
                self._skip &= skip
                return
            try:
                self._skip = skip
                self._snapshot = _record(self._trees, home, skip)
                self._started = time.monotonic()
                if self._pending is not None:
                    self._pending.begin(self._snapshot)
            except BaseException:
                self._count(background=background, more=-1)
                raise

    def _count(self, *, background: bool, more: int) -> None:
        if background:
            self._background += more
        else:
            self._users += more

    def leave(self, *, background: bool = False) -> list[str]:
        self._lock.acquire()
        self._count(background=background, more=-1)
        return self._look()

    def look(self) -> list[str]:
        self._lock.acquire()
        return self._look()

    def _look(self) -> list[str]:
        """Unless a command is still at work. Releases the lock, or leaves that to the thread that goes on."""
        snapshot = self._snapshot
        late, self._late = self._late, []
        if self._users or snapshot is None:
            self._lock.release()
            return late
        if all(tree.entries <= SMALL for tree in self._trees.values()):
            try:
                notes = self._compare(snapshot, limit=SMALL * 2)
            except TooManyFiles:
                pass
            else:
                self._lock.release()
                return [*late, *notes]
        behind = _Behind(self, snapshot)
        try:
            behind.start()
        except RuntimeError:  # no thread left: a bomb went off
            behind.run()
        else:
            behind.join(AFTER_SECONDS)
        with behind.handover:
            if behind.notes is not None:
                return [*late, *behind.notes]
            behind.overdue = True
        count = sum(tree.entries for tree in self._trees.values())
        return [
            *late,
            f"The workspace is so large ({count:,} files) that checking what this command left behind takes longer"
            f" than {AFTER_SECONDS:g} s. The check goes on, and the result of the next command says what it found."
            " Until then a git hook or setting that the command left would run outside the sandbox",
        ]

    def _compare(self, snapshot: Snapshot, limit: int) -> list[str]:
        """Raises `TooManyFiles`."""
        try:
            elapsed = time.monotonic() - self._started
            notes = _compare(snapshot, self._trees, limit=limit, elapsed=elapsed, skip=self._skip)
        except TooManyFiles:
            raise
        except Exception as error:
            # The snapshot stays: the next look compares with it again.
            log.exception("after_command.look")
            return [
                f"What this command left behind could not be checked: {error}. Check it yourself before you use"
                f" git here"
            ]
        if self._background:
            # A new snapshot would believe what the program in the background made since the look a moment ago.
            fresh = [note for note in notes if note not in self._said]
            self._said.update(fresh)
            return fresh
        self._said.clear()
        self._snapshot = None
        if self._pending is not None:
            self._pending.end()
        return notes

    def finish_behind(self, behind: "_Behind", snapshot: Snapshot) -> None:
        notes = self._compare(snapshot, limit=0)
        with behind.handover:
            behind.notes = notes
            if behind.overdue:
                self._late += [f"From an earlier command: {note}" for note in notes]
        self._lock.release()

    def close(self) -> bool:
        """Forgets it, unless it is in use or something is still to be looked at."""
        if self._users or self._background or self._snapshot is not None:
            return False
        if self._pending is not None:
            self._pending.close()
            self._pending = None
        return True


class _Behind(threading.Thread):
    """A look that may take longer than a result can wait. If the process ends first, the next one looks again."""

    def __init__(self, watch: _Watch, snapshot: Snapshot) -> None:
        super().__init__(name="after-command", daemon=True)
        self._watch = watch
        self._snapshot = snapshot
        self.handover = threading.Lock()
        self.notes: list[str] | None = None
        self.overdue = False

    def run(self) -> None:
        self._watch.finish_behind(self, self._snapshot)


def _record(trees: dict[str, Tree], home: str, skip: frozenset[str]) -> Snapshot:
    roots = tuple(trees)
    since = {root: file_system_time(root) for root in roots}
    seen, complete = TreeContents(), True
    deadline = time.monotonic() + BEFORE_SECONDS
    for root, tree in trees.items():
        try:
            seen.add(tree.look(since[root], special=False, skip=skip, deadline=deadline))
        except OutOfTime:
            complete = False
    hooks_paths = _hooks_paths(home)
    pieces = GitState(roots, hooks_paths).read(seen.git, seen.pointers)
    return Snapshot(
        roots=tuple(map(os.fsencode, roots)),
        hooks_paths=tuple(map(os.fsencode, hooks_paths)),
        since=tuple(since.values()),
        pieces={os.fsencode(path): piece for path, piece in pieces.items()},
        tasks=_identities(seen.tasks),
        shut=tuple(map(os.fsencode, sorted(skip))),
        complete=complete,
    )


def _compare(
    snapshot: Snapshot, trees: dict[str, Tree], *, limit: int, elapsed: float, skip: frozenset[str]
) -> list[str]:
    """Compares, makes inert, and says what it did. Raises `TooManyFiles`."""
    roots = tuple(map(os.fsdecode, snapshot.roots))
    since: dict[str, int] = {}
    seen = TreeContents()
    for root, before in zip(roots, snapshot.since, strict=True):
        now = file_system_time(root)
        # A clock that was set back in the meantime must not make new files look old.
        since[root] = min(before, now - int(elapsed * 1e9)) if elapsed else before
        seen.add(_read_tree(trees[root], now, limit=limit, skip=skip))
    disarmed = _disarm(snapshot, roots, seen, min(since.values(), default=0), skip)
    dropped, stuck = _drop_bits(seen.special, roots, since)
    tasks = [
        os.fsdecode(path)
        for path, identity in _identities(seen.tasks).items()
        if snapshot.tasks.get(path) != identity and (snapshot.complete or identity[-1] >= min(since.values()))
    ]
    return [*disarm_notes(disarmed, roots), *bit_notes(dropped, stuck, roots), *task_notes(tasks, roots)]


def _read_tree(tree: Tree, now: int, *, limit: int, skip: frozenset[str]) -> TreeContents:
    if limit:
        return tree.look(now, special=True, skip=skip, limit=limit)
    search: subprocess.Popen[bytes] | None = start_special_search(tree.root)
    try:
        seen = tree.look(now, special=False, skip=skip)
        # `find` cannot list what only we can list, for a moment.
        found = special_search_result(search) if search is not None and not seen.hidden else None
        if found is None:
            return tree.look(now, special=True, skip=skip)
        seen.special = found
        return seen
    finally:
        if search is not None:
            search.kill()
            search.communicate()


def _disarm(
    snapshot: Snapshot, roots: tuple[str, ...], seen: TreeContents, since: int, shut: frozenset[str]
) -> list[Disarmed]:
    before = {os.fsdecode(path): piece for path, piece in snapshot.pieces.items()}
    hooks_paths = tuple(map(os.fsdecode, snapshot.hooks_paths))
    disarmer = Disarmer(before, roots)
    done: list[Disarmed] = []
    pieces = GitState(roots, hooks_paths, before).read(seen.git, seen.pointers)
    for phase in _PHASES:
        if done:
            pieces = GitState(roots, hooks_paths, before).read(seen.git, seen.pointers)
        for path, piece in pieces.items():
            # What the command could not change, the user did in the meantime.
            if piece.kind not in phase or any(is_inside(path, shut_path) for shut_path in shut):
                continue
            if snapshot.complete or piece.changed >= since:
                one = disarmer.disarm(path, piece)
                done += [one] if one is not None else []
    return done


def _drop_bits(paths: Iterable[str], roots: tuple[str, ...], since: dict[str, int]) -> tuple[list[str], list[str]]:
    """Of regular files that were made or changed since then; also returns those that could not be changed.

    A file of the user's own stays as it is.
    """
    dropped: list[str] = []
    stuck: list[str] = []
    for path in paths:
        root = root_of(path, roots)
        directory, _, name = path.rpartition("/")
        if root is None:
            continue
        try:
            with open_directory(root, directory) as here:
                if os.stat(name, dir_fd=here, follow_symlinks=False).st_ctime_ns >= since[root]:
                    drop_mode_bits(here, name, SPECIAL_BITS)
                    dropped.append(path)
        except FileNotFoundError:
            continue
        except OSError:
            stuck.append(path)
    return dropped, stuck


def _identities(paths: Iterable[str]) -> dict[bytes, tuple[int, ...]]:
    found: dict[bytes, tuple[int, ...]] = {}
    for path in paths:
        try:
            about = Path(path).lstat()
        except OSError:
            continue
        found[os.fsencode(path)] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return found


def _hooks_paths(home: str) -> tuple[str, ...]:
    """Where the user's own configuration says that hooks are, in every repository."""
    found: list[str] = []
    for name in _GLOBAL_CONFIGS:
        try:
            content = Path(home, name).read_bytes()
            if b"hookspath" in content.lower():
                found += [item.value or "" for item in config.read_config(content) if item.key == "core.hookspath"]
        except (OSError, UnreadableConfig):
            continue
    return tuple(path for path in found if path and not path.startswith("~"))
