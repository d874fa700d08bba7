"""Walking a workspace: everything is seen, an unchanged directory is not listed again, a changed one always is."""

import os
import time
from pathlib import Path

import pytest

from hames.sandbox.walls.after_command import tree_walk
from hames.sandbox.walls.after_command.tree_walk import (
    OutOfTime,
    TooManyFiles,
    Tree,
    file_system_time,
    special_search_result,
    start_special_search,
)

LATER = 10_000_000_000
"""Nanoseconds after which a directory has settled, as far as the walk is concerned."""


def git_directory(path: Path, *names: str) -> Path:
    path.mkdir(parents=True)
    for name in names or ("HEAD", "objects", "refs"):
        (path / name).touch()
    return path


def now() -> int:
    return time.time_ns()


def test_git_directories_are_found_by_what_they_hold_at_any_depth(tmp_path: Path) -> None:
    found = [
        git_directory(tmp_path / "a/.git", "config"),
        git_directory(tmp_path / "b/c/d/e/f/g/h/bare"),
        git_directory(tmp_path / "node_modules/x/.git/modules/y"),
        git_directory(tmp_path / "w", "HEAD", "commondir"),
        git_directory(tmp_path / "case/.Git", "x"),
    ]
    git_directory(tmp_path / "no", "objects", "refs")
    git_directory(tmp_path / "neither", "HEAD", "refs")
    seen = Tree(str(tmp_path)).look(now(), special=False)
    assert set(seen.git) == {*map(str, found), str(tmp_path / "node_modules/x/.git")}


def test_pointers_and_task_files_are_found_and_those_of_packages_are_not_named(tmp_path: Path) -> None:
    for name in (
        "a/.git",
        "a/.vscode/tasks.json",
        "x/.envrc",
        "p/.claude/hooks/run.sh",
        "node_modules/p/.vscode/tasks.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "l").mkdir()
    (tmp_path / "l/.git").symlink_to("../a")
    seen = Tree(str(tmp_path)).look(now(), special=False)
    assert sorted(seen.pointers) == [str(tmp_path / "a/.git"), str(tmp_path / "l/.git")]
    names = {str(Path(path).relative_to(tmp_path)) for path in seen.tasks}
    assert names == {"a/.vscode/tasks.json", "x/.envrc", "p/.claude/hooks/run.sh"}


def test_links_are_not_followed(tmp_path: Path) -> None:
    git_directory(tmp_path / "outside/.git")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/way").symlink_to("../outside")
    (tmp_path / "ws/round").symlink_to(".")
    seen = Tree(str(tmp_path / "ws")).look(now(), special=True)
    assert (seen.git, seen.entries) == ([], 2)


def test_a_settled_directory_is_remembered_and_any_change_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (tmp_path / f"d{number}/e").mkdir(parents=True)
    tree = Tree(str(tmp_path))
    tree.look(now() + LATER, special=False)
    listed: list[str] = []
    scan = os.scandir
    monkeypatch.setattr(tree_walk.os, "scandir", lambda path: (listed.append(str(path)), scan(path))[1])
    assert tree.look(now() + LATER, special=False).git == []
    assert listed == []
    git_directory(tmp_path / "d3/e/.git")
    assert tree.look(now() + LATER, special=False).git == [str(tmp_path / "d3/e/.git")]
    assert listed == [str(tmp_path / "d3/e"), str(tmp_path / "d3/e/.git")]


def test_a_directory_that_has_just_changed_is_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time may not move with the next change."""
    tree = Tree(str(tmp_path))
    tree.look(file_system_time(str(tmp_path)), special=False)
    listed: list[str] = []
    scan = os.scandir
    monkeypatch.setattr(tree_walk.os, "scandir", lambda path: (listed.append(str(path)), scan(path))[1])
    tree.look(tmp_path.stat().st_ctime_ns, special=False)
    assert listed == [str(tmp_path)]


def test_a_changed_mode_is_seen_where_nothing_else_changed(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    program = tmp_path / "d/program"
    program.touch()
    tree = Tree(str(tmp_path))
    assert tree.look(now() + LATER, special=True).special == []
    program.chmod(0o4755)
    assert tree.look(now() + LATER, special=True).special == [str(program)]
    search = start_special_search(str(tmp_path))
    assert search is not None
    assert special_search_result(search) == [str(program)]


def test_without_find_the_search_is_made_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tree_walk, "SYSTEM_PATH", ("/nonexistent",))
    assert start_special_search(str(tmp_path)) is None


def test_a_search_that_was_cut_off_has_found_nothing_out() -> None:
    search = start_special_search("/")
    assert search is not None
    search.kill()
    assert special_search_result(search) is None


def test_limits_are_kept_and_what_was_seen_counts_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        (tmp_path / f"d{number}").mkdir()
    tree = Tree(str(tmp_path))
    with pytest.raises(TooManyFiles):
        tree.look(now(), special=False, limit=100)
    monkeypatch.setattr(tree_walk, "_PAUSE_EVERY_SECONDS", 0.0)
    with pytest.raises(OutOfTime):
        tree.look(now(), special=False, deadline=time.monotonic() - 1)
    assert tree.look(now(), special=False).entries == 300


def test_paths_longer_than_the_kernel_takes_are_walked(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    name = "n" * 200
    for _ in range(40):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.mkdir(".git", dir_fd=here)
    os.close(os.open("program", os.O_CREAT, 0o6755, dir_fd=here))
    os.close(here)
    before = set(Path("/proc/self/fd").iterdir())
    seen = Tree(str(tmp_path)).look(now(), special=True)
    assert len(seen.git) == 1
    assert len(seen.special) == 1
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_the_time_of_the_file_system_is_not_after_what_is_changed_next(tmp_path: Path) -> None:
    for number in range(200):
        since = file_system_time(str(tmp_path))
        (tmp_path / f"f{number}").touch()
        assert (tmp_path / f"f{number}").stat().st_ctime_ns >= since


def test_asking_for_the_time_leaves_the_directory_as_it_is(tmp_path: Path) -> None:
    for mode in (0o755, 0o2775, 0o1777, 0o700):
        tmp_path.chmod(mode)
        changed = tmp_path.stat().st_mtime_ns
        file_system_time(str(tmp_path))
        assert (tmp_path.stat().st_mode & 0o7777, tmp_path.stat().st_mtime_ns) == (mode, changed)
