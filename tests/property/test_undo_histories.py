"""Undo and redo of random histories, byte for byte: what a turn did goes, what other hands did stays."""

import os
import random
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest

from hames.checkpoints.scan import CheckpointLimits
from hames.checkpoints.store import CheckpointStore

GIT = shutil.which("git") or ""
TICK_NS = 25_000_000


def tree(root: Path) -> dict[bytes, tuple[object, ...]]:
    """Everything but `.git`, with types, modes, contents and targets."""
    found: dict[bytes, tuple[object, ...]] = {}
    top = os.fsencode(root)
    for directory, directories, files in os.walk(top):
        directories[:] = [name for name in directories if name != b".git"]
        for name in directories + files:
            path = os.path.join(directory, name)
            about = os.lstat(path)
            key = os.path.relpath(path, top)
            if stat.S_ISLNK(about.st_mode):
                found[key] = ("link", os.readlink(path))
            elif stat.S_ISDIR(about.st_mode):
                found[key] = ("directory", stat.S_IMODE(about.st_mode))
            else:
                with open(path, "rb") as file:
                    found[key] = ("file", stat.S_IMODE(about.st_mode), file.read())
    return found


def after_a_tick() -> int:
    """A moment that no earlier file time can be taken for."""
    until = time.time_ns() + TICK_NS
    while (now := time.time_ns()) < until:
        os.sched_yield()
    return now


class Hands:
    """Makes random changes below a directory that nobody else touches."""

    def __init__(self, root: Path, draw: random.Random) -> None:
        self.root = os.fsencode(root)
        self.draw = draw
        self.made = 0

    def paths(self, *, directories: bool) -> list[bytes]:
        found: list[bytes] = []
        for directory, below, files in os.walk(self.root):
            below[:] = [name for name in below if name != b".git"]
            links = [name for name in below if os.path.islink(os.path.join(directory, name))]
            found += [os.path.join(directory, name) for name in ([] if directories else [*files, *links])]
            found += [os.path.join(directory, name) for name in below if directories and name not in links]
        return sorted(found)

    def name(self) -> bytes:
        self.made += 1
        kinds = (b"plain-%d", b"line\nbreak-%d", b"not-\xff-utf8-%d", b"-dash %d", "ü-%d".encode())
        place = self.draw.choice([self.root, *self.paths(directories=True)])
        return os.path.join(place, self.draw.choice(kinds) % self.made)

    def content(self) -> bytes:
        return self.draw.choice(
            [b"", b"text\r\nwith carriage returns\r\n", self.draw.randbytes(self.draw.randrange(1, 5000)), b"a\n" * 300]
        )

    def change(self) -> None:
        files, directories = self.paths(directories=False), self.paths(directories=True)
        plain = [path for path in files if not os.path.islink(path)]
        kind = self.draw.randrange(12)
        if kind in (0, 1) or not files:
            self.write(self.name())
        elif kind in (2, 3) and plain:
            self.write(self.draw.choice(plain))
        elif kind == 4:
            os.unlink(self.draw.choice(files))
        elif kind == 5 and plain:
            os.chmod(self.draw.choice(plain), self.draw.choice([0o600, 0o644, 0o755, 0o444, 0o4755 & 0o777]))
        elif kind == 6:
            os.symlink(self.draw.choice([b"plain-1", b"/etc/passwd", b"../..", b"nowhere"]), self.name())
        elif kind == 7:
            os.rename(self.draw.choice(files), self.name())
        elif kind == 8 and directories:
            source = self.draw.choice(directories)
            target = os.path.join(self.root, b"moved-%d" % self.made)
            self.made += 1
            os.rename(source, target)
        elif kind == 9:
            os.mkdir(self.name(), self.draw.choice([0o755, 0o700]))
        elif kind == 10 and directories:
            shutil.rmtree(self.draw.choice(directories))
        elif directories:  # a file becomes a directory, a directory a link
            gone = self.draw.choice(files)
            os.unlink(gone)
            os.mkdir(gone)
            self.write(os.path.join(gone, b"inside"))

    def write(self, path: bytes) -> None:
        with open(path, "wb") as file:
            file.write(self.content())


def history(seed: int, place: Path) -> None:
    draw = random.Random(seed)
    workspace, kept = place / "workspace", place / "kept"
    theirs, others = workspace / "agent", workspace / "others"
    theirs.mkdir(parents=True)
    others.mkdir()
    nested = theirs / "nested"
    nested.mkdir()
    subprocess.run([GIT, "init", "-q", str(nested)], check=True)
    (nested / "of-nested").write_text("nested\n")
    agent, person = Hands(theirs, draw), Hands(others, draw)
    for hands in (agent, person):
        for _ in range(8):
            hands.change()
    store = CheckpointStore(str(kept), str(workspace), git=GIT, excluded=[], limits=CheckpointLimits())
    before = tree(theirs)
    turns = [f"turn-{number}" for number in range(draw.randrange(1, 4))]
    states = [before]
    for turn in turns:
        after_a_tick()
        store.begin("thread", turn, [])
        windows: list[tuple[int, int]] = []
        for _ in range(draw.randrange(1, 3)):
            start = after_a_tick()
            for _ in range(draw.randrange(1, 8)):
                agent.change()
            windows.append((start, time.time_ns()))
            after_a_tick()
            person.change()
        store.end(turn, windows)
        states.append(tree(theirs))
    of_others = tree(others)

    def undo(chosen: list[str], *, redo: bool = False) -> None:
        report = store.undo(chosen, windows={}, redo=redo, paths=[], overwrite=False, preview=False)
        conflicts = [path for path, _ in report["conflicts"] if path.startswith("agent")]
        assert not conflicts and not report["left"], report
        assert tree(others) == of_others, "what others did was touched"

    for number in reversed(range(len(turns))):
        undo([turns[number]])
        assert tree(theirs) == states[number], f"seed {seed}: undo of turn {number}"
    for number, turn in enumerate(turns):
        undo([turn], redo=True)
        assert tree(theirs) == states[number + 1], f"seed {seed}: redo of turn {number}"
    undo(turns)
    assert tree(theirs) == before, f"seed {seed}: undo of all turns at once"


@pytest.mark.parametrize("seed", range(20))
def test_what_a_turn_did_goes_and_what_others_did_stays(seed: int, tmp_path: Path) -> None:
    history(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 520))
def test_five_hundred_histories(seed: int, tmp_path: Path) -> None:
    history(seed, tmp_path)
