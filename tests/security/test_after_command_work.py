"""What goes on working while leftovers of commands are searched, what the user is told, and what is never touched."""

# A script is easier to read on one line.
# ruff: noqa: E501

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from left_behind import BITS, BY_USER, GIT, HONEST, PRELUDE, TOUCHES, USERS_OWN, scene
from walls import Outcome, as_user, run, users

from hames.domain.policy import DangerFullAccess, WorkspaceWrite
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.walls import landlock
from hames.sandbox.walls.after_command import checks, tree_walk

pytestmark = pytest.mark.needs("bwrap", "bash", "git")


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


@pytest.mark.parametrize("user", BY_USER)
@pytest.mark.parametrize("group", range(4))
def test_ordinary_work_with_git_goes_on(group: int, user: str) -> None:
    assert as_user(user, "test_after_command_work:run_honest", list(HONEST)[group::4]) == {}


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
    assert as_user(user, "test_after_command_work:run_users_own") == {}


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
    assert as_user(user, "test_after_command_work:run_bits") == {}


async def test_notes_say_what_was_disabled_and_where_it_is_kept() -> None:
    with scene() as stage:
        done = await stage.inside(
            "repo sub; script sub/.git/hooks/post-commit; git -C sub config core.fsmonitor .git/x; cp /bin/true x; "
            "chmod 4755 x; mkdir -p pkg/.vscode .husky; echo '{}' > pkg/.vscode/tasks.json; echo 'npm test' > .husky/pre-commit"
        )
        assert done.notes == (
            "Disabled 'core.fsmonitor' in the git settings 'sub/.git/config': git could run a program outside the"
            " sandbox because of it. Kept there as comments.",
            "Disabled the git hooks 'post-commit' in 'sub/.git/hooks': git would have run them outside the sandbox."
            " Kept as 'post-commit.disabled-by-hames'",
            "Removed the set-uid and set-gid bits from 'x': whoever runs such a file runs it as its owner",
            *done.notes[3:],
        )
        assert sorted(done.notes[3:]) == [
            "The command wrote '.husky/pre-commit': git runs it as a hook once husky is installed, for example by the"
            " next `npm install`",
            "The command wrote 'pkg/.vscode/tasks.json': VS Code can run the tasks and programs it names when the"
            " folder is opened",
        ]
        assert "# Disabled by hames: fsmonitor = .git/x" in (stage.here / "sub/.git/config").read_text()
        again = await stage.inside("git -C sub status; touch pkg/other")
        assert (again.code, again.notes) == (0, ())


async def test_a_hook_of_the_users_that_was_changed_is_put_back() -> None:
    with scene() as stage:
        stage.outside("$G init -q sub; printf '#!/bin/sh\\necho mine\\n' > sub/.git/hooks/pre-commit")
        hook = stage.here / "sub/.git/hooks/pre-commit"
        hook.chmod(0o750)
        done = await stage.inside("evil > sub/.git/hooks/pre-commit")
        assert [note.partition(":")[0] for note in done.notes] == [
            "Restored the git hooks 'pre-commit' in 'sub/.git/hooks'"
        ]
        assert (hook.read_text(), hook.stat().st_mode & 0o777) == ("#!/bin/sh\necho mine\n", 0o750)
        assert "touch" in hook.with_name("pre-commit.disabled-by-hames").read_text()


async def test_a_setting_cannot_turn_our_own_hands_against_the_project() -> None:
    """Whatever a new setting or pointer names is an ordinary file, and stays as it is."""
    with scene() as stage:
        stage.outside(
            "mkdir -p src/hooks tools; printf 'a: 1\\n' > src/config; printf '#!/bin/sh\\n' > src/hooks/run; cp src/hooks/run tools"
        )
        stage.outside("chmod +x src/hooks/run tools/run")
        done = await stage.inside(
            "repo sub; cd sub; git config core.hooksPath ../tools; git config include.path ../../src/config; cd ..; "
            "mkdir two three; echo 'gitdir: ../src' > two/.git; cp -r sub/.git three; echo ../../src > three/.git/commondir; "
            "printf '#!/bin/sh\\n# new\\n' > tools/run; printf '#!/bin/sh\\n# new\\n' > src/hooks/run; echo 'b: 2' > src/config"
        )
        assert done.code == 0, done.text
        assert (stage.here / "src/config").read_text() == "b: 2\n"
        for name in ("src/hooks/run", "tools/run"):
            assert (stage.here / name).read_text() == "#!/bin/sh\n# new\n"
            assert os.access(stage.here / name, os.X_OK)


async def test_commands_that_run_at_the_same_time_do_not_disturb_each_other() -> None:
    with scene() as stage:
        os.mkfifo(stage.here / "gate")
        hook = stage.here / "sub/.git/hooks/post-commit"
        outcomes: list[Outcome] = []

        async def first() -> None:
            outcomes.append(
                await stage.inside("repo sub; script sub/.git/hooks/post-commit; echo > gate; read x < gate")
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            with anyio.fail_after(60):
                gate = await anyio.to_thread.run_sync((stage.here / "gate").read_bytes, abandon_on_cancel=True)
                assert gate == b"\n"
                beside = await stage.inside("true")
                assert hook.exists()
                assert beside.notes == ()
                await anyio.to_thread.run_sync(lambda: (stage.here / "gate").write_text("go\n"))
        assert not hook.exists()
        assert any("post-commit" in note for note in outcomes[0].notes)


async def test_what_the_user_does_at_the_top_meanwhile_stays() -> None:
    """A command cannot change hooks and settings at the top, so whoever did was not the command."""
    with scene() as stage:
        os.mkfifo(stage.here / "gate")
        outcomes: list[Outcome] = []

        async def command() -> None:
            outcomes.append(await stage.inside("echo > gate; read x < gate"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(command)
            with anyio.fail_after(60):
                await anyio.to_thread.run_sync((stage.here / "gate").read_bytes, abandon_on_cancel=True)
                stage.outside("cp /bin/true .git/hooks/pre-commit; git config alias.st '!git status'")
                await anyio.to_thread.run_sync(lambda: (stage.here / "gate").write_text("go\n"))
        assert outcomes[0].notes == ()
        assert (stage.here / ".git/hooks/pre-commit").exists()
        assert stage.outside("git config alias.st").stdout == "!git status\n"


KILLED = """
import sys
from pathlib import Path
import anyio
sys.path.insert(0, {here!r})
from walls import run
from hames.sandbox.local import LocalSandbox, SandboxSettings
sandbox = LocalSandbox(SandboxSettings(state={state!r}))
anyio.run(lambda: run({command!r}, Path({workspace!r}), sandbox=sandbox))
"""


async def test_what_a_command_left_whose_harness_was_killed_is_looked_at_by_the_next() -> None:
    with scene() as stage:
        state = stage.here.parent / "state"
        os.mkfifo(stage.here / "gate")
        stage.outside(
            "$G init -q own; printf '#!/bin/sh\\n' > own/.git/hooks/pre-commit; chmod +x own/.git/hooks/pre-commit"
        )
        command = f"M={stage.marker}; G={GIT!r}; {PRELUDE}\nrepo sub; script sub/.git/hooks/post-commit; cp /bin/true x; chmod 4755 x; echo > gate; sleep 600"
        program = KILLED.format(
            here=str(Path(__file__).parent), state=str(state), command=command, workspace=str(stage.here)
        )
        harness = subprocess.Popen([sys.executable, "-c", program])
        try:
            with anyio.fail_after(60):
                await anyio.to_thread.run_sync((stage.here / "gate").read_bytes, abandon_on_cancel=True)
        finally:
            harness.kill()
            harness.wait()
        assert (stage.here / "sub/.git/hooks/post-commit").exists()
        assert len(list(state.iterdir())) == 1
        sandbox = LocalSandbox(SandboxSettings(state=str(state)))
        await sandbox.recover()
        assert not (stage.here / "sub/.git/hooks/post-commit").exists()
        assert special(stage.here) == []
        assert (stage.here / "own/.git/hooks/pre-commit").exists()
        done = await run("true", stage.here, sandbox=sandbox)
        assert len(done.notes) == 2
        assert all(note.startswith("From an earlier command that was interrupted: ") for note in done.notes)
        sandbox.close()
        assert list(state.iterdir()) == []


async def test_a_large_workspace_is_searched_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with scene() as stage:
        stage.outside(
            "$G init -q own; printf '#!/bin/sh\\n' > own/.git/hooks/pre-commit; chmod +x own/.git/hooks/pre-commit"
        )
        for number in range(200):
            (stage.here / f"d{number}").mkdir()
            for name in range(20):
                (stage.here / f"d{number}/f{name}").touch()
        plant = "repo d150/sub; script d150/sub/.git/hooks/post-commit; chmod 6755 d77/f3"
        done = await stage.inside(plant)
        assert [note.split(" ")[0] for note in done.notes] == ["Disabled", "Removed"]
        assert special(stage.here) == []
        # Nobody waits for it: the result says so, and the next one says what was found.
        monkeypatch.setattr(checks, "AFTER_SECONDS", 0.0)
        (waiting,) = (await stage.inside("rm -rf d150/sub; " + plant)).notes
        assert "The check goes on" in waiting
        monkeypatch.undo()
        late = (await stage.inside("true")).notes
        assert [note.partition(": ")[0] for note in late] == ["From an earlier command"] * 2
        assert not (stage.here / "d150/sub/.git/hooks/post-commit").exists()
        assert (stage.here / "own/.git/hooks/pre-commit").exists()
        # There was no time to record everything: what is older than the command is left alone.
        monkeypatch.setattr(checks, "BEFORE_SECONDS", -1.0)
        monkeypatch.setattr(tree_walk, "_PAUSE_EVERY_SECONDS", 0.0)
        stage.sandbox = stage.fresh_sandbox()
        done = await stage.inside(plant.replace("d150/sub", "d151/sub"))
        assert not (stage.here / "d151/sub/.git/hooks/post-commit").exists()
        assert (stage.here / "own/.git/hooks/pre-commit").exists()


async def test_many_new_files_in_a_small_workspace_are_searched_too() -> None:
    with scene() as stage:
        done = await stage.inside(
            "mkdir d; for i in $(seq 8000); do : > d/$i; done; repo d/sub; script d/sub/.git/hooks/post-commit; chmod 4755 d/77"
        )
        assert [note.split(" ")[0] for note in done.notes] == ["Disabled", "Removed"]
        assert special(stage.here) == []


async def test_every_writable_root_is_looked_at() -> None:
    with scene() as stage:
        more = stage.here.parent / "more"
        more.mkdir()
        policy = WorkspaceWrite(writable_roots=(str(more),))
        words = f"M={stage.marker}; G={GIT!r}; {PRELUDE}\ncd {more}; repo sub; script sub/.git/hooks/post-commit"
        done = await run(words, stage.here, policy, sandbox=stage.sandbox)
        assert not (more / "sub/.git/hooks/post-commit").exists()
        assert f"{more}/sub/.git/hooks" in done.notes[0]


async def test_the_repository_of_a_linked_worktree_is_looked_at() -> None:
    with scene() as stage:
        linked = stage.here.parent / "linked"
        assert stage.outside(f"$G worktree add -q {linked}").returncode == 0
        words = (
            f"M={stage.marker}; G={GIT!r}; {PRELUDE}\necho a > a; git add a; $G commit -qm a; script x; "
            "GIT_SEQUENCE_EDITOR=true $G rebase -q --exec false HEAD~1 || true; common=$(git rev-parse --git-common-dir); "
            'echo "exec $PWD/x" > $(git rev-parse --git-dir)/rebase-merge/git-rebase-todo; '
            "repo r; mkdir -p $common/modules; mv r/.git $common/modules/m; script $common/modules/m/hooks/post-commit"
        )
        done = await run(words, linked, sandbox=stage.sandbox)
        assert done.code == 0, done.text
        assert {note.split(" ")[0] for note in done.notes} == {"Removed", "Disabled"}
        stage.outside("$G rebase --continue", linked)
        assert not stage.marker.exists()
        assert not (stage.here / ".git/modules/m/hooks/post-commit").exists()


@pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
async def test_without_bubblewrap_the_repository_at_the_top_is_put_back() -> None:
    with scene() as stage:
        degraded = SandboxSettings(bubblewrap="/nonexistent/bwrap", allow_degraded=True)
        stage.sandbox = LocalSandbox(degraded, environ={"HOME": str(stage.here.parent / "home")})
        before = (stage.here / ".git/config").read_bytes()
        await stage.inside("script .git/hooks/post-commit; git config core.fsmonitor .git/hooks/post-commit")
        assert stage.ran((".",)) == ""
        assert (stage.here / ".git/config").read_bytes().startswith(before)


async def test_nothing_is_looked_at_where_there_is_no_sandbox() -> None:
    with scene() as stage:
        words = f"M={stage.marker}; G={GIT!r}; {PRELUDE}\nrepo sub; script sub/.git/hooks/post-commit"
        done = await run(words, stage.here, DangerFullAccess(), sandbox=stage.sandbox)
        assert done.notes == ()
        assert (stage.here / "sub/.git/hooks/post-commit").exists()
