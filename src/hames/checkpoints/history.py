"""What changed between scans, and which of it each turn did.

A change belongs to a turn if the file was last changed while a tool of that turn was writing: the system's own time of
the change (ctime, which no program can set) says so. All else was done by other hands.
"""

import json
import os
from typing import Any, NamedTuple

from hames.checkpoints.scan import DIRECTORY, Entry, Manifest

_TICK_NS = 20_000_000
"""File times lag behind the clock by some milliseconds."""
_KEPT_TURNS = 1_000
KILLED = "the process of this turn was killed, so somebody else may have changed it"


class PathStep(NamedTuple):
    """How one scan found a path, and how the scan before had found it. None: it was not there."""

    scan: int
    old: Entry | None
    new: Entry | None
    at_ns: int
    """When it changed; of a path that has gone, when its directory last changed."""
    above_ns: tuple[int, ...] = ()
    """When the directories above it last changed, if the file itself did not: then one of them was moved here."""


class TurnRecord:
    """One turn that could write: its scans and when its tools were writing."""

    def __init__(self, thread: str, turn: str, begin: int, begun_ns: int) -> None:
        self.thread = thread
        self.turn = turn
        self.begin = begin
        """The scan before its first write."""
        self.begun_ns = begun_ns
        self.end: int | None = None
        """The scan after its last; None while it runs, or when its process was killed."""
        self.windows: list[tuple[int, int]] = []
        self.unsure: list[tuple[int, int]] = []
        """When it may have written: its process was killed, and nobody knows when exactly."""

    def did(self, step: PathStep) -> bool:
        return self._was_in(self.windows, step)

    def may_have_done(self, step: PathStep) -> bool:
        return self._was_in(self.unsure, step)

    def _was_in(self, windows: list[tuple[int, int]], step: PathStep) -> bool:
        moved = step.above_ns if step.at_ns < self.begun_ns - _TICK_NS else ()
        return any(start - _TICK_NS <= at <= end for at in (step.at_ns, *moved) for start, end in windows)

    def as_said(self) -> dict[str, Any]:
        said = {"thread": self.thread, "turn": self.turn, "begin": self.begin, "begun_ns": self.begun_ns}
        said |= {"windows": self.windows, "unsure": self.unsure}
        return said if self.end is None else {**said, "end": self.end}


class Effect(NamedTuple):
    """What a turn did to a path. `why`: somebody else had a hand in it as well, so nobody can tell whose it is."""

    old: Entry | None
    new: Entry | None
    why: str = ""


class ChangeHistory:
    """Append-only, in two files: what changed, and what the turns did."""

    def __init__(self, directory: str) -> None:
        self._changes_path = os.path.join(directory, "changes.jsonl")
        self._turns_path = os.path.join(directory, "turns.jsonl")
        self._stamp: tuple[int, ...] = ()
        self.scan = 0
        self.changes: list[tuple[int, dict[str, PathStep]]] = []
        self.turns: dict[str, TurnRecord] = {}

    def refresh(self) -> None:
        """Reads what is new. A line that cannot be read is passed over."""
        stamp = (*_stamp(self._changes_path), *_stamp(self._turns_path))
        if stamp == self._stamp:
            return
        self._stamp = stamp
        self.scan, self.changes, self.turns = 0, [], {}
        for said in _lines(self._changes_path):
            number = said["scan"]
            steps = {
                path: PathStep(number, _entry(old), _entry(new), at, tuple(above))
                for path, (old, new, at, above) in said["paths"].items()
            }
            self.changes.append((number, steps))
            self.scan = max(self.scan, number)
        for said in _lines(self._turns_path):
            begun = TurnRecord(said["thread"], said["turn"], said["begin"], said["begun_ns"])
            record = self.turns.setdefault(said["turn"], begun)
            record.end = said.get("end", record.end)
            record.windows = [(start, end) for start, end in said["windows"]]
            record.unsure = [(start, end) for start, end in said["unsure"]]
            self.scan = max(self.scan, record.begin, record.end or 0)

    def add_scan(self, before: Manifest, after: Manifest) -> int:
        """Writes down what is different, and returns the number of this scan. Raises `OSError`."""
        paths: dict[str, Any] = {}
        for path, entry in after.items():
            old = before.get(path)
            if old is not entry and (old is None or old.content != entry.content):
                paths[path] = [old, entry, entry.changed_ns, _changes_above(path, after)]
        for path in before.keys() - after.keys():
            paths[path] = [before[path], None, next(iter(_changes_above(path, after)), 0), ()]
        self.scan += 1
        if paths:
            _append(self._changes_path, {"scan": self.scan, "paths": paths})
            steps = {path: PathStep(self.scan, old, new, at, above) for path, (old, new, at, above) in paths.items()}
            self.changes.append((self.scan, steps))
        self._restamp()
        return self.scan

    def write_turn(self, record: TurnRecord) -> None:
        _append(self._turns_path, record.as_said())
        self.turns[record.turn] = record
        self._restamp()

    def _restamp(self) -> None:
        self._stamp = (*_stamp(self._changes_path), *_stamp(self._turns_path))

    def effects(self, record: TurnRecord) -> dict[str, Effect]:
        """What this turn did, by path."""
        found: dict[str, Effect] = {}
        others = [one for one in self.turns.values() if one.turn != record.turn and _overlap(one, record)]
        last = self.scan if record.end is None else record.end
        for number, steps in self.changes:
            if not record.begin < number <= last:
                continue
            for path, step in steps.items():
                had = found.get(path)
                if not record.did(step) and record.may_have_done(step):
                    found[path] = Effect(had.old if had is not None else step.old, step.new, KILLED)
                    continue
                if not record.did(step):
                    if had is not None or step.old is not None:
                        # It may have been changed by the turn first and by somebody else then.
                        old = had.old if had is not None else step.old
                        found[path] = Effect(old, step.new, "it was also changed by somebody else while the turn ran")
                    continue
                why = had.why if had is not None else ""
                if any(other.did(step) for other in others):
                    why = "another turn was writing at the same moment"
                found[path] = Effect(had.old if had is not None else step.old, step.new, why)
        return {path: one for path, one in found.items() if path and _content(one.old) != _content(one.new)}

    def forget_oldest(self, keep: int = _KEPT_TURNS) -> bool:
        """Drops the oldest turns, and the changes that only they need. False: there is nothing to drop."""
        turns = list(self.turns.values())
        if len(turns) <= keep:
            return False
        self.turns = {one.turn: one for one in turns[len(turns) - keep :]}
        first = min((one.begin for one in self.turns.values()), default=self.scan)
        self.changes = [(number, steps) for number, steps in self.changes if number > first]
        marker = {"scan": self.scan, "paths": {}}
        lines = [
            {"scan": number, "paths": {path: step[1:] for path, step in steps.items()}}
            for number, steps in self.changes
        ]
        _replace(self._changes_path, [marker, *lines])
        _replace(self._turns_path, [one.as_said() for one in self.turns.values()])
        self._restamp()
        return True

    def digests(self) -> set[str]:
        """The contents that the kept changes need."""
        entries = (entry for _, steps in self.changes for step in steps.values() for entry in (step.old, step.new))
        return {entry.value for entry in entries if entry is not None and entry.kind == "file"}


def _changes_above(path: str, after: Manifest) -> tuple[int, ...]:
    """When the directories above a path last changed, the nearest first."""
    found: list[int] = []
    while path:
        path = path.rpartition("/")[0]
        if (above := after.get(path)) is not None and above.kind == DIRECTORY:
            found.append(above.changed_ns)
    return tuple(found)


def _overlap(one: TurnRecord, other: TurnRecord) -> bool:
    return any(start <= until and begin <= end for start, end in one.windows for begin, until in other.windows)


def _content(entry: Entry | None) -> tuple[str, int, str] | None:
    return entry.content if entry is not None else None


def _entry(said: list[Any] | None) -> Entry | None:
    return Entry(*said) if said is not None else None


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        about = os.stat(path)
    except OSError:
        return 0, 0, 0
    return about.st_ino, about.st_size, about.st_mtime_ns


def _lines(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            raw = file.read().splitlines()
    except OSError:
        return []
    found: list[dict[str, Any]] = []
    for line in raw:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # a torn one: its turn can then not be undone
    return found


def _append(path: str, said: object) -> None:
    """A line of its own, whatever a killed process left at the end."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(file).st_size
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        rest = memoryview((b"\n" if torn else b"") + json.dumps(said).encode() + b"\n")
        while rest:
            rest = rest[os.write(file, rest) :]
    finally:
        os.close(file)


def _replace(path: str, lines: list[Any]) -> None:
    fresh = f"{path}.new"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.writelines(json.dumps(line).encode() + b"\n" for line in lines)
    os.rename(fresh, path)
