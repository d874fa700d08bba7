"""A worktree that is made, merged or dropped by a process that is killed: nothing of the user's is lost.

The process is killed before and after each of its own system calls that change a file, and each time that the
repository's directory has changed once more, which is when git works. Afterwards the repository is usable, the list of
worktrees says what is left, and dropping cleans it up. `make prove` kills at every place (HAMES_CALL_KILLS=all).
"""

import ctypes
import ctypes.util
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from forked_servers import build_shim
from worktree_process import NAME, worktrees

from hames.domain.policy import WorkspaceWrite
from hames.domain.worktrees import NewWorktree

pytestmark = [pytest.mark.slow, pytest.mark.needs("bwrap", "git"), pytest.mark.timeout(3_600)]

CALL_KILLS = os.environ.get("HAMES_CALL_KILLS", "2")
ACTIONS = ("make", "merge", "drop")
MAKING_FILES = 0x2 | 0x40 | 0x80 | 0x100 | 0x200
"""inotify: written, moved, created, deleted."""
MOST_CHANGES = 60


def git(where: Path, *words: str) -> str:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *who, *words], cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


class Killer:
    """The process that acts, forked for each try."""

    def __init__(self, shim: Path) -> None:
        script = [sys.executable, str(Path(__file__).with_name("worktree_process.py"))]
        environment = {**os.environ, "LD_PRELOAD": str(shim), "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def _ask(self, asked: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self._line()["pid"]

    def _line(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def at_call(self, world: "World", action: str, number: int, *, after: bool) -> int:
        calls = str(world.place / "calls")
        self._ask(world.asked(action) | {"number": number, "after": after, "calls": calls})
        return self._line()["status"]

    def at_change(self, world: "World", action: str, changes: int) -> int:
        """Kills it when the directories of the repository have changed that often."""
        with Changes(world) as seen:
            pid = self._ask(world.asked(action) | {"number": -1, "after": False, "calls": str(world.place / "calls")})
            seen.wait(changes, pid)
        return self._line()["status"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


class Changes:
    """Counts changes of directories with inotify."""

    def __init__(self, world: "World") -> None:
        self._library = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        self._fd = self._library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        dot_git = world.workspace / ".git"
        (world.place / "trees").mkdir(exist_ok=True)
        for path in (world.workspace, dot_git, *dot_git.rglob("*"), *(world.place / "trees").rglob("*")):
            if path.is_dir():
                self._library.inotify_add_watch(self._fd, os.fsencode(path), MAKING_FILES)
        self._library.inotify_add_watch(self._fd, os.fsencode(world.place / "trees"), MAKING_FILES)

    def __enter__(self) -> "Changes":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def wait(self, changes: int, pid: int) -> None:
        seen, process = 0, os.pidfd_open(pid)
        try:
            while seen < changes:
                ready, _, _ = select.select([self._fd, process], [], [], 60)
                if process in ready or not ready:
                    return
                data, at = os.read(self._fd, 1 << 16), 0
                while at < len(data):
                    seen += 1
                    at += 16 + int.from_bytes(data[at + 12 : at + 16], sys.byteorder)
            signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)


class World:
    """A repository with work of the user's own in it, committed and not."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.workspace = place / "shop"
        (place / "home").mkdir(parents=True)
        (place / "home" / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
        self.workspace.mkdir()
        (self.workspace / "cart.txt").write_text("one\ntwo\n")
        (self.workspace / ".gitignore").write_text("*.log\n")
        git(self.workspace, "init", "-q", "-b", "main")
        git(self.workspace, "add", "-A")
        git(self.workspace, "commit", "-qm", "Begin")
        (self.workspace / "mine.txt").write_text("not committed\n")
        (self.workspace / "staged.txt").write_text("staged\n")
        (self.workspace / "x.log").write_text("ignored\n")
        git(self.workspace, "add", "staged.txt")

    def asked(self, action: str) -> dict[str, Any]:
        return {"action": action, "workspace": str(self.workspace), "place": str(self.place)}

    async def prepare(self, action: str) -> None:
        if action == "make":
            return
        made = await worktrees(self.place).add(str(self.workspace), NewWorktree(name=NAME), WorkspaceWrite())
        (Path(made.cwd) / "done.txt").write_text("work of the agent\n")
        (Path(made.cwd) / "cart.txt").write_text("one\ntwo\nthree\n")

    async def check(self, action: str) -> None:
        """What the user has is there, what is left is named, and dropping it leaves nothing."""
        here = self.workspace
        await anyio.to_thread.run_sync(wait_for_sandbox, here)
        assert (here / "mine.txt").read_text() == "not committed\n"
        assert (here / "staged.txt").read_text() == "staged\n"
        assert (here / "x.log").read_text() == "ignored\n"
        assert "staged.txt" in git(here, "diff", "--cached", "--name-only")
        git(here, "fsck", "--strict")
        known = worktrees(self.place)
        left = await known.list(str(here))
        if action == "merge":
            branches = git(here, "branch", "--format=%(refname:short)").split()
            trees = [tree.path for tree in left]
            there = [Path(path, "done.txt").exists() for path in trees]
            there += ["done.txt" in git(here, "ls-tree", "-r", "--name-only", branch) for branch in branches]
            assert any(there), "the work of the worktree is nowhere"
        in_git = [path.name for path in (here / ".git" / "worktrees").glob("*")]
        assert bool(left) or not in_git, "a worktree is left that the list does not name"
        for tree in left:
            assert (await known.finish(tree, "drop", WorkspaceWrite(), discard=NAME)).removed
        assert await known.list(str(here)) == ()
        assert git(here, "branch", "--list", "hames/*") == ""
        assert list((here / ".git" / "worktrees").glob("*")) == []
        again = await known.add(str(here), NewWorktree(name=NAME), WorkspaceWrite())
        await known.finish(again.worktree, "drop", WorkspaceWrite(), discard=NAME)
        assert list((self.place / "trees").glob("*/*")) == []  # placeholders of the sandbox go with the next one made
        git(here, "commit", "-qm", "The user goes on")
        assert (here / "mine.txt").read_text() == "not committed\n"


def wait_for_sandbox(workspace: Path) -> None:
    """Returns when no command of a sandbox is left in the workspace: each holds a lock on it."""
    fd = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    finally:
        os.close(fd)


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    one = Killer(build_shim(tmp_path_factory.mktemp("shim")))
    yield one
    one.close()


def chosen(count: int) -> list[int]:
    numbers = list(range(1, count + 1))
    if CALL_KILLS == "all" or len(numbers) <= int(CALL_KILLS):
        return numbers
    return numbers[:: max(1, len(numbers) // int(CALL_KILLS))][: int(CALL_KILLS)]


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_kill_at_any_own_call_loses_nothing(action: str, killer: Killer, tmp_path: Path) -> None:
    whole = World(tmp_path / "whole")
    await whole.prepare(action)
    assert await anyio.to_thread.run_sync(partial(killer.at_call, whole, action, 0, after=False)) == 0
    calls = (whole.place / "calls").read_text().splitlines()
    assert calls
    for number in chosen(len(calls)):
        for after in (False, True):
            world = World(tmp_path / f"{number}-{after}")
            await world.prepare(action)
            status = await anyio.to_thread.run_sync(partial(killer.at_call, world, action, number, after=after))
            assert status in (-signal.SIGKILL, 0), calls[number - 1]
            try:
                await world.check(action)
            except BaseException as problem:
                raise AssertionError(f"killed {'after' if after else 'before'} {calls[number - 1]!r}") from problem


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_kill_while_git_works_loses_nothing(action: str, killer: Killer, tmp_path: Path) -> None:
    for number in chosen(MOST_CHANGES):
        world = World(tmp_path / str(number))
        await world.prepare(action)
        status = await anyio.to_thread.run_sync(partial(killer.at_change, world, action, number))
        try:
            await world.check(action)
        except BaseException as problem:
            raise AssertionError(f"killed at change {number} of the repository") from problem
        if status == 0:  # it was done before that many changes
            break
