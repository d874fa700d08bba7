"""The checkpoints of one workspace: taken before a turn's first write and after its last, and used to take it back."""

import fcntl
import json
import os
import time
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from hames.checkpoints.history import ChangeHistory, Effect, TurnRecord
from hames.checkpoints.left_out import ignored_directories
from hames.checkpoints.pack import Pack
from hames.checkpoints.restore import Move, Refused, Restore, RestoreStep, same
from hames.checkpoints.scan import DIRECTORY, FILE, IGNORED, LEFT, CheckpointLimits, Entry, Manifest, Scan

_SAVE_EVERY = 50
_SHOWN_LEFT = 20
_MOST_TURNS = 1_200
_ROOM = 0.8
"""Of the limit: what a store that was too large has afterwards."""


class Planned(NamedTuple):
    step: RestoreStep
    why: str
    """Why it is not done without a yes."""
    between: tuple[Entry | None, ...] = ()
    """What the turns made of it on the way: where some of them were undone already, it is one of these now."""


class CheckpointStore:
    """Every method takes the lock, so that several processes may use one store. They raise `OSError`."""

    def __init__(
        self, directory: str, workspace: str, *, git: str, excluded: Collection[str], limits: CheckpointLimits
    ) -> None:
        self._directory = directory
        self._workspace = workspace
        self._git = git
        prefix = workspace.rstrip("/") + "/"
        self._excluded = [path.removeprefix(prefix) for path in excluded if path.startswith(prefix)]
        self._limits = limits
        os.makedirs(directory, 0o700, exist_ok=True)
        self._pack = Pack(os.path.join(directory, "pack"))
        self._history = ChangeHistory(directory)
        self._manifest: Manifest = {}
        self._manifest_scan = -1
        self._saved_scan = -1

    @contextmanager
    def _locked(self) -> Generator[None]:
        lock = os.open(os.path.join(self._directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._pack.refresh()
            self._history.refresh()
            self._catch_up()
            if os.path.exists(self._journal):
                Restore(self._workspace, self._pack, self._journal).finish_interrupted()
            yield
        finally:
            os.close(lock)

    @property
    def _journal(self) -> str:
        return os.path.join(self._directory, "restoring.json")

    def begin(self, thread: str, turn: str, wanted: Collection[str], *, first: bool = False) -> dict[str, Any]:
        """Before the `first` write of a turn in a process. Later: makes sure that these paths are kept."""
        with self._locked():
            record = self._history.turns.get(turn)
            if record is not None and first:  # another process began it, and was killed
                record.unsure.append((record.begun_ns, time.time_ns()))
                self._history.write_turn(record)
            if record is None:
                scan = self._scan(wanted)
                record = TurnRecord(thread, turn, scan, time.time_ns())
                self._history.write_turn(record)
                self._pack.sync()
            elif any(self._is_missing(path) for path in wanted):
                self._scan(wanted)
                self._pack.sync()
            left = [(path, one.value) for path, one in self._manifest.items() if _is_reported(one)]
            return {"files": len(self._manifest), "left": len(left), "some": left[:_SHOWN_LEFT]}

    def end(self, turn: str, windows: list[tuple[int, int]], wanted: Collection[str] = ()) -> dict[str, Any]:
        """After the last write of a turn. `wanted` are the paths that it named before."""
        with self._locked():
            record = self._history.turns.get(turn)
            if record is None:
                return {"changes": 0}
            record.windows = windows
            record.end = self._scan(wanted)
            self._history.write_turn(record)
            self._pack.sync()
            changes = len(self._history.effects(record))
            self._make_room()
            return {"changes": changes}

    def changed(self, turns: list[str], windows: dict[str, list[tuple[int, int]]]) -> dict[str, Any]:
        """How many paths each of these turns changed."""
        with self._locked():
            records = self._records(turns, windows)
            return {"turns": {one.turn: len(self._history.effects(one)) for one in records}}

    def undo(
        self,
        turns: list[str],
        *,
        windows: dict[str, list[tuple[int, int]]],
        redo: bool,
        paths: list[str],
        overwrite: bool,
        preview: bool,
    ) -> dict[str, Any]:
        """`turns` are the oldest first. Takes back what they did, or (`redo`) does it again."""
        with self._locked():
            self._scan(())
            records = self._records(turns, windows)
            planned = self._plan(records, redo=redo, paths=paths)
            changed = {one.turn: set(self._history.effects(one)) for one in records}  # before the undo is one as well
            moved = {path for move in _moves(planned) for path in move}
            conflicts = [Refused(one.step.path, one.why) for one in planned if one.why and not _is_left(one.step)]
            left = [
                Refused(one.step.path, one.why)
                for one in planned
                if one.why and _is_left(one.step) and one.step.path not in moved
            ]
            steps = [one.step for one in planned if not one.why or (overwrite and not _is_left(one.step))]
            moves = _moves(planned)
            by_path = {one.path: one for one in steps}
            done = list(by_path)
            if not preview and steps:
                done, refused = Restore(self._workspace, self._pack, self._journal).run(steps, moves)
                done = [path for path in done if path in by_path]
                self._scan(())
                conflicts = [*([] if overwrite else conflicts), *refused]
            elif overwrite:
                conflicts = []
            return {
                "turns": [one.turn for one in records],
                "by_turn": {one.turn: sorted(changed[one.turn].intersection(done)) for one in records},
                "restored": [[path, _action(by_path[path])] for path in sorted(done)],
                "conflicts": sorted(conflicts),
                "left": sorted(left),
            }

    def _records(self, turns: Iterable[str], windows: dict[str, list[tuple[int, int]]]) -> list[TurnRecord]:
        """Their records. One whose process was killed may have written until now."""
        found = [self._history.turns[turn] for turn in turns if turn in self._history.turns]
        for record in found:
            if record.turn in windows:
                record.windows = windows[record.turn]
            elif record.end is None:
                record.unsure = [(record.begun_ns, time.time_ns())]
        return found

    def _plan(self, records: list[TurnRecord], *, redo: bool, paths: list[str]) -> list[Planned]:
        planned: dict[str, Planned] = {}
        for record in records if redo else reversed(records):
            for path, effect in self._history.effects(record).items():
                if paths and not any(path == one or path.startswith(f"{one}/") for one in paths):
                    continue
                planned[path] = _joined(planned.get(path), path, effect, redo=redo)
        return [checked for one in planned.values() if (checked := self._checked(one)) is not None]

    def _checked(self, planned: Planned) -> Planned | None:
        """As things stand now. None: there is nothing to do."""
        step, why, between = planned
        now = self._manifest.get(step.path)
        if same(now, step.then):
            return None
        if _is_left(step) or (now is not None and now.kind == LEFT):
            kept = next((one for one in (step.then, step.now, now) if one is not None and one.kind == LEFT), None)
            why = kept.value if kept is not None else ""
            return Planned(RestoreStep(step.path, now, step.then), why)
        if not any(same(now, one) for one in (step.now, *between)):
            why = "it has been changed since"
        return Planned(RestoreStep(step.path, now, step.then), why)

    def _is_missing(self, path: str) -> bool:
        entry = self._manifest.get(path)
        return entry is not None and entry.kind == LEFT

    def _scan(self, wanted: Collection[str]) -> int:
        limits = self._limits
        if self._pack.size > limits.store_bytes:
            limits = limits._replace(new_bytes=0)
        scan = Scan(
            self._pack,
            self._manifest,
            limits,
            ignored=ignored_directories(self._workspace, self._git, self._directory),
            excluded=self._excluded,
        )
        found = scan.run(self._workspace, wanted)
        number = self._history.add_scan(self._manifest, found)
        self._manifest, self._manifest_scan = found, number
        if self._saved_scan < 0 or number - self._saved_scan >= _SAVE_EVERY:
            self.save()
        return number

    def save(self) -> None:
        """The manifest as it is now, for the next process. What changes later is in the history as well."""
        if self._manifest_scan == self._saved_scan:
            return
        path = os.path.join(self._directory, "manifest.json")
        fresh = f"{path}.{os.getpid()}"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(json.dumps({"scan": self._manifest_scan, "entries": self._manifest}).encode())
        os.rename(fresh, path)
        self._saved_scan = self._manifest_scan

    def _catch_up(self) -> None:
        """What other processes found since."""
        if self._manifest_scan < 0:
            self._load()
        first = self._history.changes[0][0] if self._history.changes else 0
        if first > self._manifest_scan + 1:
            self._load()
        for number, steps in self._history.changes:
            if number > self._manifest_scan:
                for path, step in steps.items():
                    if step.new is None:
                        self._manifest.pop(path, None)
                    else:
                        self._manifest[path] = step.new
        self._manifest_scan = max(self._manifest_scan, self._history.scan)

    def _load(self) -> None:
        self._manifest, self._manifest_scan = {}, 0
        with suppress(OSError, ValueError, TypeError, KeyError):
            with open(os.path.join(self._directory, "manifest.json"), "rb") as file:
                said = json.load(file)
            entries = {path: Entry(*one) for path, one in said["entries"].items()}
            self._manifest, self._manifest_scan = entries, int(said["scan"])

    def _make_room(self) -> None:
        """Keeps the store below its limit: the oldest turns go first."""
        keep = len(self._history.turns)
        if keep > _MOST_TURNS:
            self.save()
            self._history.forget_oldest()
        while self._pack.size > self._limits.store_bytes:
            keep //= 2
            self.save()
            self._history.forget_oldest(keep)
            live = self._history.digests() | {one.value for one in self._manifest.values() if one.kind == FILE}
            self._pack.keep_only(live)
            if not keep or self._pack.size < self._limits.store_bytes * _ROOM:
                return


def _joined(had: Planned | None, path: str, effect: Effect, *, redo: bool) -> Planned:
    now, then = (effect.old, effect.new) if redo else (effect.new, effect.old)
    if had is None:
        return Planned(RestoreStep(path, now, then), effect.why)
    why = had.why or effect.why
    if not same(had.step.then, now):
        why = "it was changed by somebody else between these turns"
    return Planned(RestoreStep(path, had.step.now, then), why, (*had.between, had.step.then))


def _moves(planned: list[Planned]) -> list[Move]:
    """Directories that the turns moved and that hold something that was not kept."""
    came = {
        one.step.now.inode: one.step.path
        for one in planned
        if one.step.now is not None and one.step.then is None and _is_moved_whole(one.step.now)
    }
    return [
        Move(came[one.step.then.inode], one.step.path)
        for one in planned
        if one.step.then is not None
        and one.step.now is None
        and _is_moved_whole(one.step.then)
        and one.step.then.inode in came
    ]


def _is_moved_whole(entry: Entry) -> bool:
    return bool(entry.inode) and (entry.kind == DIRECTORY or entry.value == IGNORED)


def _is_left(step: RestoreStep) -> bool:
    return any(one is not None and one.kind == LEFT for one in (step.now, step.then))


def _is_reported(entry: Entry) -> bool:
    """What the project ignores is left out on purpose."""
    return entry.kind == LEFT and entry.value != IGNORED


def _action(step: RestoreStep) -> str:
    """What happens to the path, in one word."""
    if step.then is None:
        return "removed"
    if step.now is None:
        return "brought back"
    if step.now.kind == step.then.kind and (step.now.value == step.then.value or step.then.kind == DIRECTORY):
        return "permissions"
    return "changed back"
