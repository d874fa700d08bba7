"""Whatever is done to a tree of repositories, nothing new in it can run afterwards, and what was there stays."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from hames.sandbox.walls.after_command.checks import AfterCommand
from hames.sandbox.walls.after_command.git.config import ConfigJudge, UnreadableConfig, read_config

HARMFUL = b"[core]\n\tfsmonitor = ./x\n[alias]\n\tst = !x\n"
HARMLESS = b"[user]\n\tname = me\n"
PLACES = ("", "a", "a/b", "vendor/lib", "node_modules/p/q")
Change = Callable[[Path], None]


def repository(git: Path) -> None:
    for name in ("objects", "refs", "hooks"):
        (git / name).mkdir(parents=True, exist_ok=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    if not (git / "config").exists():
        (git / "config").write_bytes(b"[core]\n\tbare = false\n")


def git_directory(top: Path, place: str, bare: bool) -> Path:
    return top / place / ("store" if bare else ".git")


def make(place: str, bare: bool, config: bytes, hook: int) -> Change:
    def change(top: Path) -> None:
        git = git_directory(top, place, bare)
        if not git.is_file() and not git.is_symlink():
            repository(git)
            with (git / "config").open("ab") as file:
                file.write(config)
            if hook and not (git / "hooks").is_symlink():
                (git / "hooks/pre-commit").write_bytes(b"#!/bin/sh\n" + config)
                (git / "hooks/pre-commit").chmod(hook)

    return change


def point(place: str, target: str, link: bool) -> Change:
    def change(top: Path) -> None:
        (top / place).mkdir(parents=True, exist_ok=True)
        git = top / place / ".git"
        if not os.path.lexists(git):
            git.symlink_to(target) if link else git.write_text(f"gitdir: {target}\n")

    return change


def move(source: str, target: str) -> Change:
    def change(top: Path) -> None:
        if (top / source).is_dir() and not os.path.lexists(top / target):
            (top / target).parent.mkdir(parents=True, exist_ok=True)
            (top / source).rename(top / target)

    return change


def pause_rebase(place: str, line: str) -> Change:
    def change(top: Path) -> None:
        git = git_directory(top, place, False)
        if git.is_dir():
            (git / "rebase-merge").mkdir(exist_ok=True)
            (git / "rebase-merge/git-rebase-todo").write_text(f"pick 1234 x\n{line}\n")

    return change


def link_hooks(place: str) -> Change:
    def change(top: Path) -> None:
        git = git_directory(top, place, False)
        if (git / "hooks").is_dir() and not (git / "hooks").is_symlink():
            (git / "hooks").rename(git / "real")
            (git / "hooks").symlink_to("real")

    return change


def set_uid(place: str) -> Change:
    def change(top: Path) -> None:
        (top / place).mkdir(parents=True, exist_ok=True)
        (top / place / "program").touch()
        (top / place / "program").chmod(0o4755)

    return change


places = st.sampled_from(PLACES)
changes = st.one_of(
    st.builds(
        make, places, st.booleans(), st.sampled_from([b"", HARMFUL, HARMLESS]), st.sampled_from([0, 0o644, 0o755])
    ),
    st.builds(point, places, st.sampled_from(["store", "../b/.git", "/nonexistent/git", "../.git"]), st.booleans()),
    st.builds(
        move, st.sampled_from(["a", "a/.git", "vendor", "a/store", "store"]), st.sampled_from(["b", "b/.git", "c/d"])
    ),
    st.builds(pause_rebase, places, st.sampled_from(["exec x", "x y", "pick 1", "\texec\tz"])),
    st.builds(link_hooks, places),
    st.builds(set_uid, places),
)


def live(top: Path) -> dict[str, tuple[str, ...]]:
    """Everything that git would run or be led by, found without the code that is tested."""
    found: dict[str, tuple[str, ...]] = {}
    harmful = ConfigJudge((), inside=lambda path: True).harmful
    for directory, names, files in os.walk(top):
        here, entries = Path(directory), {*names, *files}
        if ".git" in files or (here / ".git").is_symlink():
            pointer = here / ".git"
            target = os.path.realpath(pointer)
            if pointer.is_file() and not pointer.is_symlink():
                target = os.path.realpath(here / pointer.read_text().strip().removeprefix("gitdir: "))
            if not target.startswith(f"{top}/"):
                found[f"{pointer}"] = (target,)
        if here.name != ".git" and not {"HEAD", "objects", "refs"} <= entries:
            continue
        if (here / "config").is_file():
            try:
                kept = [item for item in read_config((here / "config").read_bytes()) if harmful(item)]
            except UnreadableConfig:
                kept = []
            for item in kept:
                found[f"{here}/config {item.key} {item.value}"] = ()
        if (here / "hooks").is_dir():
            for hook in (here / "hooks").iterdir():
                if hook.stat().st_mode & 0o111 and "disabled-by-hames" not in hook.name:
                    found[f"{hook}"] = (hook.read_text(),)
        todo = here / "rebase-merge/git-rebase-todo"
        if todo.is_file():
            for line in todo.read_text().splitlines():
                if line.split()[:1] in (["exec"], ["x"]):
                    found[f"{todo} {line}"] = ()
    return found


def contents(top: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (stat.S_IMODE(path.lstat().st_mode), path.read_bytes() if path.is_file() else b"")
        for path in sorted(top.rglob("*"))
    }


def special(top: Path) -> set[int]:
    """By inode: one of the user's own may have been moved."""
    return {path.lstat().st_ino for path in top.rglob("*") if path.is_file() and path.lstat().st_mode & 0o6000}


@settings(max_examples=150, deadline=None)
@given(st.lists(changes, max_size=6), st.lists(st.lists(changes, max_size=4), min_size=1, max_size=3))
def test_nothing_new_can_run_and_what_was_there_stays(before: list[Change], commands: list[list[Change]]) -> None:
    top = Path(os.path.realpath(tempfile.mkdtemp(prefix="hames-test-")))
    try:
        after = AfterCommand()
        for change in before:
            change(top)
        owned = live(top)
        set_uids = special(top)
        for command in commands:
            check = after.begin((str(top),), home="/nonexistent")
            for change in command:
                change(top)
            check.finish()
            new = {name: what for name, what in live(top).items() if owned.get(name) != what}
            assert new == {}
            assert special(top) <= set_uids
            # A second look finds nothing more to do.
            settled = contents(top)
            again = after.begin((str(top),), home="/nonexistent")
            assert again.finish() == []
            assert contents(top) == settled
    finally:
        shutil.rmtree(top)
