"""What a sandboxed command leaves behind must not run a program outside the sandbox later.

Each row plants something from inside, with real git and real bubblewrap, and then ordinary git commands are run
outside. A marker file that only a program outside can make says whether something planted was run.
"""

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from left_behind import BITS, GIT, HONEST, OUTSIDE, PLANTED, PRELUDE, TOUCHES, USERS_OWN
from walls import Outcome, as_user, run, users, workspace

from hames.sandbox.choose import LocalSandbox, Settings

pytestmark = pytest.mark.needs("bwrap", "bash", "git")

_EACH = """
each() {
    timeout 20 /bin/bash --noprofile --norc -c "$1" >/dev/null 2>&1 </dev/null
    if [ -e "$M" ]; then rm "$M"; echo "$1"; fi
}
"""


class Scene:
    """A workspace with a repository of the user's at its top, and a marker beside it."""

    def __init__(self, base: Path, *, repository: bool = True) -> None:
        self.here = base / "ws"
        self.here.mkdir()
        self.marker = base / "marker"
        self.sandbox = LocalSandbox(Settings(), environ={"HOME": str(base / "home"), "PATH": os.environ["PATH"]})
        (base / "home").mkdir()
        if repository:
            self.outside(f"{GIT} init -q . && echo top > top && git add top && {GIT} commit -qm top")

    def outside(self, script: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """As the user, with none of our own protection."""
        return subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-c", script],
            cwd=cwd or self.here,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.here.parent / "home"),
                "M": str(self.marker),
                "G": GIT,
                "EDITOR": "true",
                "PAGER": "cat",
                "GIT_TERMINAL_PROMPT": "0",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    async def inside(self, script: str) -> Outcome:
        words = f"M={self.marker}; G={GIT!r}; export M G; {PRELUDE}\n{script}"
        return await run(words, self.here, sandbox=self.sandbox)

    def ran(self, places: tuple[str, ...]) -> str:
        """Which of the ordinary commands, if any, ran something that was planted."""
        for place in (*places, "."):
            if not (self.here / place).is_dir():
                continue
            done = self.outside(
                _EACH + "\n".join(f"each {shlex.quote(command)}" for command in OUTSIDE), self.here / place
            )
            if done.stdout:
                return f"in {place!r}: {done.stdout}"
        return ""


@contextmanager
def scene(*, repository: bool = True) -> Iterator[Scene]:
    with workspace() as base:
        yield Scene(base, repository=repository)


async def run_rows(names: list[str]) -> dict[str, str]:
    """Every row in a workspace of its own, and what went wrong in it."""
    wrong: dict[str, str] = {}
    for name in names:
        row = PLANTED[name]
        with scene(repository=row.repository) as stage:
            if row.before:
                done = stage.outside(f"set -e; {row.before}")
                assert done.returncode == 0, (name, done.stderr)
            for command in row.commands:
                done = await stage.inside(command)
                if done.code != 0:
                    wrong[f"{name}: could not be planted"] = f"{done.code}: {done.text}"
            if ran := stage.ran(row.places):
                wrong[name] = ran
    return wrong


GROUPS = 8


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("group", range(GROUPS))
def test_nothing_that_was_planted_is_run_by_git_outside(group: int, user: str) -> None:
    assert as_user(user, "test_after_command:run_rows", list(PLANTED)[group::GROUPS]) == {}


async def run_honest(names: list[str]) -> dict[str, str]:
    wrong: dict[str, str] = {}
    for name in names:
        with scene(repository=name != "init at the top") as stage:
            for number, command in enumerate(HONEST[name]):
                done = await stage.inside(command)
                if done.code != 0:
                    wrong[f"{name}, command {number}"] = f"{done.code}: {done.text} {done.notes}"
                    break
                if done.notes and "--exec" not in name:
                    wrong[f"{name}, command {number}: notes"] = str(done.notes)
            if left := [str(path) for path in stage.here.rglob("*disabled-by-hames*") if "--exec" not in name]:
                wrong[f"{name}: left"] = str(left)
    return wrong


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("group", range(2))
def test_ordinary_work_with_git_goes_on(group: int, user: str) -> None:
    assert as_user(user, "test_after_command:run_honest", list(HONEST)[group::2]) == {}


def described(top: Path) -> dict[str, tuple[int, bytes | str]]:
    """Modes and contents of everything that could be the user's own state."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(top.rglob("*")):
        kept = path.parent.name == "hooks" or path.name in {"config", "shared", ".git", "commondir", "check.sh"}
        if kept or path.name in {"own-setuid", "own-setgid", "gid"}:
            about = path.lstat()
            content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
            found[str(path.relative_to(top))] = (about.st_mode, content)
    return found


async def run_users_own() -> dict[str, str]:
    wrong: dict[str, str] = {}
    with scene() as stage:
        done = stage.outside(USERS_OWN)
        assert done.returncode == 0, done.stderr
        before = described(stage.here)
        assert len(before) > 15
        for command in TOUCHES:
            done = await stage.inside(command)
            if done.code or done.notes:
                wrong[command] = f"{done}"
            after = described(stage.here)
            if changed := {name for name in before if before[name] != after.get(name)}:
                wrong[f"{command}: changed"] = str(changed)
    return wrong


@pytest.mark.parametrize("user", users())
def test_the_users_own_hooks_settings_and_bits_stay_as_they_are(user: str) -> None:
    assert as_user(user, "test_after_command:run_users_own") == {}


def special(top: Path) -> list[str]:
    """Found by another program than the one that is tested."""
    done = subprocess.run(
        ["find", str(top), "-type", "f", "-perm", "/6000", "-print"], capture_output=True, check=False
    )
    return done.stdout.decode(errors="replace").splitlines()


async def run_bits() -> dict[str, str]:
    wrong: dict[str, str] = {}
    for name, command in BITS.items():
        with scene() as stage:
            stage.outside("cp /bin/true old")
            done = await stage.inside(command)
            stage.outside("chmod -R u+rwx . 2>/dev/null")
            if done.code or not any("set-uid" in note for note in done.notes):
                wrong[name] = f"{done}"
            if found := special(stage.here):
                wrong[f"{name}: left"] = str(found)
            stage.outside("rm -rf nnn* || python3 -c 'import shutil; shutil.rmtree(\"n\" * 200)'")
    return wrong


@pytest.mark.parametrize("user", users())
def test_no_set_uid_or_set_gid_bit_is_left(user: str) -> None:
    assert as_user(user, "test_after_command:run_bits") == {}
