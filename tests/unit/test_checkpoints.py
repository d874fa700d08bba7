"""Checkpoints of a workspace: limits, conflicts, hostile repositories, damage, kills."""

import os
import shutil
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest
from tests.property.test_undo_histories import after_a_tick, tree

from hames.checkpoints import restore
from hames.checkpoints.history import KILLED
from hames.checkpoints.scan import CheckpointLimits
from hames.checkpoints.store import CheckpointStore

GIT = shutil.which("git") or ""


class Bench:
    """A workspace with its store, and turns that write when they say so."""

    def __init__(self, place: Path, **limits: float) -> None:
        self.workspace = place / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.kept = place / "kept"
        self.limits = CheckpointLimits(**limits)  # type: ignore[arg-type]
        self.store = self.opened()
        self.number = 0

    def opened(self) -> CheckpointStore:
        """As another process opens it."""
        return CheckpointStore(str(self.kept), str(self.workspace), git=GIT, excluded=[], limits=self.limits)

    def begin(self, name: str = "", wanted: tuple[str, ...] = ()) -> str:
        self.wanted = wanted
        self.number += 1
        name = name or f"turn-{self.number}"
        after_a_tick()
        self.begun = self.store.begin("thread", name, list(wanted))
        self.since = after_a_tick()
        return name

    def end(self, name: str) -> None:
        self.store.end(name, [(self.since, time.time_ns())], self.wanted)
        after_a_tick()

    def undo(
        self, *turns: str, redo: bool = False, overwrite: bool = False, preview: bool = False
    ) -> dict[str, object]:
        return self.store.undo(list(turns), windows={}, redo=redo, paths=[], overwrite=overwrite, preview=preview)

    def path(self, name: str) -> Path:
        return self.workspace / name


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_file_that_others_changed_since_is_a_conflict_and_stays(bench: Bench) -> None:
    bench.path("both").write_text("before\n")
    bench.path("only").write_text("before\n")
    turn = bench.begin()
    bench.path("both").write_text("by the turn\n")
    bench.path("only").write_text("by the turn\n")
    bench.end(turn)
    bench.path("both").write_text("by a person\n")
    report = bench.undo(turn)
    assert report["restored"] == [["only", "changed back"]]
    assert report["conflicts"] == [("both", "it has been changed since")]
    assert bench.path("both").read_text() == "by a person\n"
    assert bench.undo(turn, overwrite=True)["restored"] == [["both", "changed back"]]
    assert bench.path("both").read_text() == "before\n"


def test_an_undo_of_several_turns_says_whose_each_path_is(bench: Bench) -> None:
    bench.path("both").write_text("before\n")
    first = bench.begin()
    bench.path("both").write_text("by the first\n")
    bench.path("new").write_text("by the first\n")
    bench.end(first)
    second = bench.begin()
    bench.path("both").write_text("by the second\n")
    bench.end(second)
    assert bench.undo(first, second)["by_turn"] == {first: ["both", "new"], second: ["both"]}
    assert bench.undo(first, second, redo=True)["by_turn"] == {first: ["both", "new"], second: ["both"]}


def test_a_preview_changes_nothing(bench: Bench) -> None:
    turn = bench.begin()
    bench.path("new").write_text("x")
    bench.end(turn)
    assert bench.undo(turn, preview=True)["restored"] == [["new", "removed"]]
    assert bench.path("new").exists()


def test_what_a_person_writes_while_the_turn_thinks_is_not_the_turns(bench: Bench) -> None:
    bench.path("person").write_text("before\n")
    turn = bench.begin()
    bench.path("agent").write_text("x")
    first = (bench.since, time.time_ns())
    after_a_tick()
    bench.path("person").write_text("in between\n")
    bench.path("made by a person").write_text("x")
    since = after_a_tick()
    bench.path("agent").write_text("y")
    bench.store.end(turn, [first, (since, time.time_ns())])
    report = bench.undo(turn)
    assert report["restored"] == [["agent", "removed"]]
    assert bench.path("person").read_text() == "in between\n"
    assert bench.path("made by a person").exists()


def test_two_turns_at_once_are_undone_one_by_one(bench: Bench) -> None:
    one = bench.begin("one")
    two = bench.begin("two")
    first = after_a_tick()
    bench.path("of one").write_text("1")
    middle = time.time_ns()
    second = after_a_tick()
    bench.path("of two").write_text("2")
    last = time.time_ns()
    bench.store.end(one, [(first, middle)])
    bench.store.end(two, [(second, last)])
    assert bench.undo(one)["restored"] == [["of one", "removed"]]
    assert bench.path("of two").read_text() == "2"
    assert bench.undo(two)["restored"] == [["of two", "removed"]]


def test_a_file_that_two_turns_may_have_written_is_asked_about(bench: Bench) -> None:
    one, two = bench.begin("one"), bench.begin("two")
    since = after_a_tick()
    bench.path("whose").write_text("1")
    window = (since, time.time_ns())
    bench.store.end(one, [window])
    bench.store.end(two, [window])
    assert bench.undo(one)["conflicts"] == [("whose", "another turn was writing at the same moment")]
    assert bench.path("whose").exists()


def test_ignored_directories_are_left_out_and_ignored_files_are_not(bench: Bench) -> None:
    subprocess.run([GIT, "init", "-q", str(bench.workspace)], check=True)
    bench.path(".gitignore").write_text("build/\n.env\n")
    bench.path("build").mkdir()
    bench.path("build/out").write_text("1")
    bench.path(".env").write_text("SECRET=1\n")
    turn = bench.begin()
    shutil.rmtree(bench.path("build"))
    bench.path(".env").unlink()
    bench.path(".git/HEAD").write_text("changed\n")
    bench.end(turn)
    report = bench.undo(turn)
    assert report["restored"] == [[".env", "brought back"]]
    assert report["left"] == [("build", "ignored by the project")]
    assert bench.path(".env").read_text() == "SECRET=1\n"
    assert bench.path(".git/HEAD").read_text() == "changed\n"


def test_no_program_of_the_repository_runs(bench: Bench, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    run = f"sh -c 'echo ran >> {marker}; cat'"
    for place in (bench.workspace, bench.path("module")):
        subprocess.run([GIT, "init", "-q", str(place)], check=True)
        hook = place / ".git/hooks/post-index-change"
        hook.write_text(f"#!/bin/sh\necho ran >> {marker}\n")
        hook.chmod(0o755)
        for key in ("filter.evil.clean", "filter.evil.process", "core.fsmonitor", "diff.evil.textconv"):
            subprocess.run([GIT, "-C", str(place), "config", key, run], check=True)
        (place / ".gitattributes").write_text("* filter=evil diff=evil\n")
        (place / "file").write_text("x\r\n")
    turn = bench.begin()
    bench.path("file").write_text("y\n")
    bench.path("module/file").write_text("y\n")
    bench.end(turn)
    bench.undo(turn)
    assert bench.path("file").read_bytes() == bench.path("module/file").read_bytes() == b"x\r\n"
    assert not marker.exists()


def test_a_link_in_the_place_of_a_directory_leads_nothing_outside(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("by the turn\n")
    bench.path("inside").mkdir()
    bench.path("inside/file").write_text("before\n")
    turn = bench.begin()
    bench.path("inside/file").write_text("by the turn\n")
    bench.path("inside/new").write_text("x")
    bench.end(turn)
    shutil.rmtree(bench.path("inside"))
    bench.path("inside").symlink_to(outside)
    (outside / "new").write_text("x")
    report = bench.undo(turn, overwrite=True)
    assert tree(outside) == {b"file": ("file", 0o644, b"by the turn\n"), b"new": ("file", 0o644, b"x")}, report


def test_what_is_no_file_is_left_alone(bench: Bench) -> None:
    os.mkfifo(bench.path("pipe"))
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(bench.workspace)
        server.bind("socket")
        os.chdir("/")
    with bench.path("huge").open("wb") as file:
        file.truncate(1 << 40)
    turn = bench.begin()
    assert bench.begun["left"] == 3
    bench.path("pipe").unlink()
    bench.path("huge").unlink()
    bench.path("small").write_text("x")
    bench.end(turn)
    report = bench.undo(turn)
    assert report["restored"] == [["small", "removed"]]
    assert [path for path, _ in report["left"]] == ["huge", "pipe"]  # type: ignore[attr-defined]


def test_beyond_the_limits_what_a_tool_changes_is_kept_all_the_same(tmp_path: Path) -> None:
    bench = Bench(tmp_path, files=2, new_bytes=10)
    for number in range(5):
        bench.path(f"file-{number}").write_text(f"before {number}\n" * 10)
    turn = bench.begin(wanted=("file-3",))
    for number in range(5):
        bench.path(f"file-{number}").write_text("after\n")
    bench.end(turn)
    bench.undo(turn)
    assert bench.path("file-3").read_text() == "before 3\n" * 10
    assert bench.path("file-0").read_text() == "after\n"


def test_a_change_that_keeps_size_and_time_is_seen(bench: Bench) -> None:
    bench.path("file").write_text("1234")
    about = bench.path("file").stat()
    turn = bench.begin()
    bench.path("file").write_text("abcd")
    os.utime(bench.path("file"), ns=(about.st_atime_ns, about.st_mtime_ns))
    bench.end(turn)
    bench.undo(turn)
    assert bench.path("file").read_text() == "1234"


def test_damaged_content_is_refused_and_named(bench: Bench) -> None:
    bench.path("file").write_text("before, and long enough to be worth the trouble\n" * 9)
    bench.path("other").write_text("another\n")
    turn = bench.begin()
    bench.path("file").write_text("after")
    bench.path("other").write_text("after")
    bench.end(turn)
    pack = bench.kept / "pack"
    content = bytearray(pack.read_bytes())
    content[60] ^= 1
    pack.write_bytes(bytes(content))
    bench.store = bench.opened()
    report = bench.undo(turn)
    assert len(report["restored"]) == 1  # type: ignore[arg-type]
    assert report["conflicts"][0][1] == "the kept content is damaged or missing"  # type: ignore[index]
    assert "after" in (bench.path("file").read_text(), bench.path("other").read_text())


def test_a_torn_store_is_a_shorter_one(bench: Bench) -> None:
    bench.path("file").write_text("before\n")
    turn = bench.begin()
    bench.path("file").write_text("after\n")
    bench.end(turn)
    for name in ("pack", "changes.jsonl", "turns.jsonl", "manifest.json"):
        with (bench.kept / name).open("r+b") as file:
            file.truncate(max(0, (bench.kept / name).stat().st_size - 3))
    bench.store = bench.opened()
    again = bench.begin("again")
    bench.path("file").write_text("again\n")
    bench.end(again)
    assert bench.undo(again)["restored"] == [["file", "changed back"]]
    assert bench.path("file").read_text() == "after\n"


def test_another_process_takes_the_checkpoints_over(bench: Bench) -> None:
    bench.path("file").write_text("before\n")
    turn = bench.begin()
    bench.path("file").write_text("after\n")
    # Killed here: nobody says that the turn has ended, or when it last wrote.
    bench.store = bench.opened()
    after_a_tick()
    bench.path("file of a person").write_text("x")
    report = bench.undo(turn)
    assert report["restored"] == []
    assert report["conflicts"] == [("file", KILLED), ("file of a person", KILLED)]
    assert bench.undo(turn, overwrite=True)["restored"] == [
        ["file", "changed back"],
        ["file of a person", "removed"],
    ]
    assert bench.path("file").read_text() == "before\n"


def test_a_turn_that_goes_on_in_another_process_is_sure_of_what_it_does_there(bench: Bench) -> None:
    turn = bench.begin()
    bench.path("before the kill").write_text("1")
    after_a_tick()
    bench.store = bench.opened()
    bench.store.begin("thread", turn, [], first=True)
    bench.since = after_a_tick()
    bench.path("after it").write_text("2")
    bench.end(turn)
    report = bench.undo(turn)
    assert report["restored"] == [["after it", "removed"]]
    assert report["conflicts"] == [("before the kill", KILLED)]


@pytest.mark.parametrize("at", range(8))
def test_a_restore_that_was_killed_is_finished_by_the_next_process(bench: Bench, at: int) -> None:
    bench.path("kept").mkdir()
    for number in range(3):
        bench.path(f"kept/{number}").write_text(f"before {number}\n")
    before = tree(bench.workspace)
    turn = bench.begin()
    shutil.rmtree(bench.path("kept"))
    bench.path("new").mkdir()
    bench.path("new/file").write_text("x")
    bench.path("link").symlink_to("new")
    bench.end(turn)
    child = os.fork()
    if not child:  # pragma: no cover - another process
        count = 0
        one = restore.Restore._one

        def counted(self: restore.Restore, root: int, step: restore.RestoreStep) -> str:
            nonlocal count
            if count == at:
                os.kill(os.getpid(), 9)
            count += 1
            return one(self, root, step)

        restore.Restore._one = counted  # type: ignore[method-assign]
        bench.undo(turn)
        os._exit(0)
    os.waitpid(child, 0)
    bench.store = bench.opened()
    bench.begin("next")
    assert tree(bench.workspace) == before


@pytest.mark.parametrize("turns", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_store_stays_inside_its_limit(tmp_path: Path, turns: int) -> None:
    bench = Bench(tmp_path, store_bytes=200_000)
    for number in range(turns):
        turn = f"turn-{number}"
        bench.store.begin("thread", turn, [])
        bench.path("file").write_bytes(os.urandom(3000))
        bench.store.end(turn, [(0, time.time_ns())])
    sizes = {path.name: path.stat().st_size for path in bench.kept.iterdir() if path.is_file()}
    assert sizes["pack"] <= 200_000, sizes
    assert sum(sizes.values()) < 600_000, sizes
    assert bench.undo(f"turn-{turns - 1}")["restored"] == [["file", "changed back"]]


def test_nobody_else_can_read_what_is_kept(bench: Bench) -> None:
    bench.path("file").write_text("x")
    bench.begin()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in bench.kept.iterdir() if path.is_file()}
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE(bench.kept.stat().st_mode) == 0o700
