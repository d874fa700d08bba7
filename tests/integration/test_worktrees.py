"""Threads in git worktrees of their own, through a real engine, a real sandbox and real git."""

import shutil
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

import hames
from hames.api.engine import LocalEngine
from hames.domain.commands import CreateThread, FinishWorktree, ForkThread, ListWorktrees
from hames.domain.errors import InvalidCommand
from hames.domain.events import Noticed
from hames.domain.ids import ThreadId
from hames.domain.policy import DangerFullAccess, ExternalSandbox, SandboxPolicy, WorkspaceWrite
from hames.domain.state import ThreadState
from hames.domain.worktrees import NewWorktree, Worktree, WorktreeAction, WorktreeList, WorktreeReport
from hames.testing.fakes.model import ScriptedModel, call, say

pytestmark = pytest.mark.needs("bwrap", "git")


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "HAMES_STATE": str(tmp_path / "state"),
        "HAMES_CONFIG": str(tmp_path / "none"),
    }


def git(where: Path | str, *words: str, code: int = 0) -> str:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *who, *words], cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "shop"
    (place / "src").mkdir(parents=True)
    (place / "cart.txt").write_text("one\ntwo\nthree\n")
    (place / "src" / "tax.txt").write_text("20\n")
    (place / ".gitignore").write_text("*.log\n.harness/\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "Begin")
    return place


@asynccontextmanager
async def opened(
    workspace: Path,
    environment: Mapping[str, str],
    model: ScriptedModel | None = None,
    sandbox: SandboxPolicy | None = None,
) -> AsyncGenerator[LocalEngine]:
    with anyio.fail_after(60):
        async with hames.open_engine(
            cwd=workspace,
            provider=model or ScriptedModel(*[[say("done")]] * 8),
            approval_policy="never",
            sandbox=sandbox or WorkspaceWrite(),
            environment=environment,
        ) as engine:
            yield engine


async def started(engine: LocalEngine, name: str = "", *, changes: bool = False) -> ThreadState:
    state = await engine.execute(CreateThread(worktree=NewWorktree(name=name, changes=changes)))
    assert isinstance(state, ThreadState)
    return state


async def listed(engine: LocalEngine) -> tuple[Worktree, ...]:
    found = await engine.execute(ListWorktrees())
    assert isinstance(found, WorktreeList)
    return found.worktrees


async def finish(engine: LocalEngine, action: WorktreeAction, name: str, **more: str | bool) -> WorktreeReport:
    report = await engine.execute(FinishWorktree(action=action, name=name, **more))  # type: ignore[arg-type]
    assert isinstance(report, WorktreeReport)
    return report


async def notices(engine: LocalEngine, thread_id: str) -> list[str]:
    thread = await engine.open_thread(thread_id)
    await thread.run("look around")
    found: list[str] = []
    last = (await thread.read()).seq
    changes = thread.follow(replay=True)
    async for change in changes:
        if isinstance(event := change.record.event, Noticed) and event.name == "worktree":
            found.append(event.message)
        if change.record.seq >= last:
            break
    await changes.aclose()
    return found


async def test_a_thread_works_in_its_worktree_and_merges_what_it_did(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    model = ScriptedModel(
        [call("shell", command="echo four >> cart.txt && git add -A && git commit -qm 'Add four' && git status -sb")],
        [call("write", path="new.txt", content="new\n")],
        [say("done")],
        [call("shell", command="pwd")],
        [say("done")],
    )
    async with opened(workspace, environment, model) as engine:
        state = await started(engine, "four")
        place = Path(state.settings.cwd)
        assert not place.is_relative_to(workspace)
        assert git(place, "branch", "--show-current").strip() == "hames/four"
        thread = await engine.open_thread(state.id)
        turn = await thread.run("go")
        assert turn.status == "completed"
        assert (workspace / "cart.txt").read_text() == "one\ntwo\nthree\n"
        [tree] = await listed(engine)
        assert (tree.name, tree.base, tree.thread_id, tree.status) == ("four", "main", state.id, "ready")
        assert ([one.partition(" ")[2] for one in tree.commits], tree.uncommitted) == (["Add four"], ("new.txt",))
        seen = await finish(engine, "merge", "four", preview=True)
        assert not seen.done
        assert "new.txt" in seen.message
        done = await finish(engine, "merge", "four", message="Add a file")
        assert (done.done, done.removed) == (True, True), done
        assert (workspace / "cart.txt").read_text().endswith("four\n")
        assert (workspace / "new.txt").read_text() == "new\n"
        assert git(workspace, "log", "--format=%s").split("\n")[:2] == ["Add a file", "Add four"]
        assert git(workspace, "status", "--porcelain") == ""
        assert git(workspace, "branch", "--list", "hames/*") == ""
        assert not place.exists()
        assert await listed(engine) == ()
        assert (await thread.read()).settings.cwd == str(workspace)
        assert len(await notices(engine, state.id)) == 2


async def test_worktrees_of_threads_do_not_touch_each_other_and_hooks_stay_guarded(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    hostile = (
        "echo mine > mine.txt; common=$(git rev-parse --git-common-dir);"
        " echo x > $common/hooks/pre-commit; git config core.hooksPath /tmp; echo x >> $common/config;"
        " for admin in $common/worktrees/*; do echo gone > $admin/HEAD; done;"
        " echo 'ref: refs/heads/evil' > $common/HEAD; git add -A; git commit -qm Mine; git log -1 --format=%s"
    )
    model = ScriptedModel([call("shell", command=hostile)], [say("done")])
    async with opened(workspace, environment, model) as engine:
        other = await started(engine, "other")
        state = await started(engine)
        thread = await engine.open_thread(state.id)
        config, before = workspace / ".git" / "config", (workspace / ".git" / "config").read_text()
        turn = await thread.run("go")
        assert turn.status == "completed"
        assert config.read_text() == before
        assert not (workspace / ".git" / "hooks" / "pre-commit").exists()
        assert git(workspace, "branch", "--show-current").strip() == "main"
        assert git(other.settings.cwd, "branch", "--show-current").strip() == "hames/other"
        assert not Path(other.settings.cwd, "mine.txt").exists()
        names = {tree.name: tree for tree in await listed(engine)}
        assert set(names) == {"other", "thread-1"}
        assert names["other"].commits == ()


@pytest.mark.slow
async def test_uncommitted_changes_are_said_and_taken_along_on_request(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    (workspace / "cart.txt").write_bytes(b"changed\r\n\xff")
    (workspace / "src" / "tax.txt").unlink()
    (workspace / "src" / "run.sh").write_text("#!/bin/sh\n")
    (workspace / "src" / "run.sh").chmod(0o700)
    (workspace / "link").symlink_to("/etc/hostname")
    (workspace / "debug.log").write_text("noise\n")
    async with opened(workspace, environment) as engine:
        plain = await started(engine, "plain")
        assert "Uncommitted changes stay where they are: cart.txt, src/tax.txt" in (await notices(engine, plain.id))[0]
        assert Path(plain.settings.cwd, "cart.txt").read_text() == "one\ntwo\nthree\n"
        forked = await engine.execute(
            ForkThread(thread_id=plain.id, worktree=NewWorktree(name="of-plain", changes=True))
        )
        assert isinstance(forked, ThreadState)
        taking = await started(engine, "taking", changes=True)
        place = Path(taking.settings.cwd)
        assert (place / "cart.txt").read_bytes() == b"changed\r\n\xff"
        assert not (place / "src" / "tax.txt").exists()
        assert (place / "src" / "run.sh").stat().st_mode & 0o777 == 0o700
        assert str((place / "link").readlink()) == "/etc/hostname"
        assert not (place / "debug.log").exists()
        assert "Ignored files were not taken along: debug.log" in (await notices(engine, taking.id))[0]
        (place / "cart.txt").write_text("in the worktree\n")
        again = await engine.execute(ForkThread(thread_id=taking.id, worktree=NewWorktree(name="two", changes=True)))
        assert isinstance(again, ThreadState)
        assert Path(again.settings.cwd, "cart.txt").read_text() == "in the worktree\n"
        assert git(workspace, "status", "--porcelain").count("\n") == 4


async def test_a_conflict_is_shown_and_nothing_is_half_done(workspace: Path, environment: Mapping[str, str]) -> None:
    async with opened(workspace, environment) as engine:
        state = await started(engine, "clash")
        Path(state.settings.cwd, "cart.txt").write_text("theirs\n")
        (workspace / "cart.txt").write_text("ours\n")
        git(workspace, "commit", "-qam", "Ours")
        head = git(workspace, "rev-parse", "HEAD")
        report = await finish(engine, "merge", "clash")
        assert (report.done, report.conflicts) == (False, ("cart.txt",))
        assert git(workspace, "rev-parse", "HEAD") == head
        assert git(workspace, "status", "--porcelain") == ""
        assert not (workspace / ".git" / "MERGE_HEAD").exists()
        git(workspace, "reset", "-q", "--hard", "HEAD~")
        (workspace / "cart.txt").write_text("not committed\n")
        with pytest.raises(InvalidCommand, match=r"would be overwritten: cart\.txt"):
            await finish(engine, "merge", "clash")
        assert (workspace / "cart.txt").read_text() == "not committed\n"
        assert not (workspace / ".git" / "MERGE_HEAD").exists()


async def test_work_that_is_nowhere_else_is_dropped_only_by_name(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    async with opened(workspace, environment) as engine:
        state = await started(engine, "risky")
        place = Path(state.settings.cwd)
        for make in (
            lambda: (place / "loose.txt").write_text("x"),
            lambda: (git(place, "add", "-A"), git(place, "commit", "-qm", "Loose")),
            lambda: (place / "run.log").write_text("x"),
        ):
            make()
            seen = await finish(engine, "drop", "risky", preview=True)
            assert seen.loses
            for wrong in ("", "yes", "other"):
                with pytest.raises(InvalidCommand, match=r"loose\.txt|Loose"):
                    await finish(engine, "drop", "risky", discard=wrong)
        assert place.exists()
        kept = await finish(engine, "keep", "risky")
        assert kept.done
        assert [tree.status for tree in await listed(engine)] == ["kept"]
        done = await finish(engine, "drop", "risky", discard="risky")
        assert done.removed
        assert not place.exists()
        assert git(workspace, "branch", "--list", "hames/*") == ""
        clean = await started(engine, "clean")
        assert (await finish(engine, "drop", "clean")).removed
        assert not Path(clean.settings.cwd).exists()
        assert list((workspace / ".git" / "worktrees").glob("*")) == []


@pytest.mark.slow
async def test_where_there_is_no_commit_no_repository_or_no_free_name_a_sentence_says_so(
    workspace: Path, environment: Mapping[str, str], tmp_path: Path
) -> None:
    for name in ("plain", "fresh"):
        (tmp_path / name).mkdir()
    git(tmp_path / "fresh", "init", "-q")
    async with opened(tmp_path / "plain", environment) as engine:
        with pytest.raises(InvalidCommand, match="is not in a git repository"):
            await started(engine)
    async with opened(tmp_path / "fresh", environment) as engine:
        with pytest.raises(InvalidCommand, match="has no commit yet"):
            await started(engine)
    async with opened(workspace, environment) as engine:
        for bad in ("a b", "../x", "x.lock", "-x", "a/b", "x" * 64, "a..b", "é"):
            with pytest.raises(InvalidCommand, match="cannot be the name of a worktree"):
                await started(engine, bad)
        git(workspace, "branch", "hames/taken")
        with pytest.raises(InvalidCommand, match="there is a branch 'hames/taken' already"):
            await started(engine, "taken")
        await started(engine, "mine")
        with pytest.raises(InvalidCommand, match="there is a worktree 'mine' already"):
            await started(engine, "mine")
        assert [tree.name for tree in await listed(engine)] == ["mine"]
        git(workspace, "worktree", "add", "-q", str(tmp_path / "elsewhere"), "hames/taken")
        with pytest.raises(InvalidCommand, match="there is a branch 'hames/taken' already"):
            await started(engine, "taken")
    assert await _threads(workspace, environment) == 1


async def _threads(workspace: Path, environment: Mapping[str, str]) -> int:
    async with opened(workspace, environment) as engine:
        return len((await engine.list_threads()).threads)


@pytest.mark.slow
async def test_bare_sparse_detached_linked_and_nested_places(
    workspace: Path, environment: Mapping[str, str], tmp_path: Path
) -> None:
    model = ScriptedModel(*[reply for _ in range(8) for reply in ([call("shell", command=COMMIT)], [say("done")])])
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(workspace), str(bare))
    async with opened(bare, environment, model) as engine:
        state = await started(engine, "of-bare")
        thread = await engine.open_thread(state.id)
        await thread.run("go")
        assert (await finish(engine, "merge", "of-bare")).removed
        assert git(bare, "log", "-1", "--format=%s", "main").strip() == "More"
    sparse = tmp_path / "sparse"
    git(tmp_path, "clone", "-q", str(workspace), str(sparse))
    git(sparse, "sparse-checkout", "set", "src")
    async with opened(sparse, environment, model) as engine:
        state = await started(engine, "thin")
        thread = await engine.open_thread(state.id)
        await thread.run("go")
        done = await finish(engine, "merge", "thin")
        assert done.removed, done
        assert git(sparse, "log", "-1", "--format=%s").strip() == "More"
    linked = tmp_path / "linked"
    git(workspace, "worktree", "add", "-q", "-b", "side", str(linked))
    async with opened(linked, environment, model) as engine:
        state = await started(engine, "of-linked")
        await (await engine.open_thread(state.id)).run("go")
        assert (await finish(engine, "merge", "of-linked")).removed
        assert git(linked, "log", "-1", "--format=%s").strip() == "More"
        assert git(workspace, "log", "-1", "--format=%s").strip() == "Begin"
    git(linked, "checkout", "-q", "--detach")
    async with opened(linked, environment, model) as engine:
        await started(engine, "loose")
        with pytest.raises(InvalidCommand, match="name the branch to merge into"):
            await finish(engine, "merge", "loose")
        assert (await finish(engine, "merge", "loose", into="side")).done
    async with opened(workspace / "src", environment, model) as engine:
        state = await started(engine, "deep")
        assert state.settings.cwd.endswith("/deep/src")
        turn = await (await engine.open_thread(state.id)).run("go")
        assert turn.status == "completed"
        assert "gone" not in (await finish(engine, "drop", "deep", discard="deep")).message


COMMIT = "mkdir -p src; date +%N > src/more.txt; git add --sparse -A; git commit -qm More; git status -sb"


@pytest.mark.slow
async def test_a_submodule_is_refused_and_its_parent_is_not(
    workspace: Path, environment: Mapping[str, str], tmp_path: Path
) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    git(parent, "init", "-q", "-b", "main")
    git(parent, "submodule", "--quiet", "add", str(workspace), "lib")
    git(parent, "commit", "-qm", "Begin")
    async with opened(parent, environment) as engine:
        state = await started(engine, "top", changes=True)
        assert "Submodules are not checked out" in (await notices(engine, state.id))[0]
        assert (await finish(engine, "drop", "top")).removed
    async with opened(parent / "lib", environment) as engine:
        with pytest.raises(InvalidCommand, match="is a submodule"):
            await started(engine)


@pytest.mark.slow
async def test_nothing_that_a_kill_leaves_is_unknown_or_cannot_be_dropped(
    workspace: Path, environment: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is there before git begins, so each point at which the process can die is one of these."""
    from hames.sandbox.local import LocalSandbox
    from hames.worktrees.local import LocalWorktrees

    class Killed(BaseException):
        pass

    async def killed(*_: object, **__: object) -> None:
        raise Killed

    for name in ("made", "claim"):
        place = LocalWorktrees(tmp_path / "trees", tmp_path / "state", LocalSandbox(environ=environment))
        monkeypatch.setattr(place, "_remove", killed)
        if name == "made":
            monkeypatch.setattr(place, "_made", killed)
            with pytest.raises(Killed):
                await place.add(str(workspace), NewWorktree(name=name), WorkspaceWrite())
        else:
            await place.add(str(workspace), NewWorktree(name=name), WorkspaceWrite())
    async with opened(workspace, environment) as engine:
        assert [(tree.name, tree.status) for tree in await listed(engine)] == [
            ("made", "unfinished"),
            ("claim", "ready"),
        ]
        for name in ("made", "claim"):
            assert (await finish(engine, "drop", name)).removed
        assert await listed(engine) == ()
        assert git(workspace, "branch", "--list", "hames/*") == ""
        state = await started(engine, "deleted")
        shutil.rmtree(state.settings.cwd)
        assert [tree.status for tree in await listed(engine)] == ["missing"]
        assert (await finish(engine, "drop", "deleted")).removed
        assert list((workspace / ".git" / "worktrees").glob("*")) == []
        state = await started(engine, "swapped")
        shutil.move(state.settings.cwd, tmp_path / "aside")
        Path(state.settings.cwd).mkdir()
        Path(state.settings.cwd, "precious").write_text("of somebody else")
        with pytest.raises(InvalidCommand, match="is not the directory that was made"):
            await finish(engine, "drop", "swapped")


@pytest.mark.slow
async def test_what_is_committed_on_no_branch_or_on_another_one_is_not_forgotten(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    async with opened(workspace, environment) as engine:
        state = await started(engine, "loose")
        place = Path(state.settings.cwd)
        git(place, "switch", "-q", "--detach")
        git(place, "commit", "-q", "--allow-empty", "-m", "On no branch")
        with pytest.raises(InvalidCommand, match="On no branch"):
            await finish(engine, "drop", "loose")
        with pytest.raises(InvalidCommand, match="no branch is checked out"):
            await finish(engine, "merge", "loose")
        git(place, "switch", "-q", "-C", "hames/loose")
        (place / ".vscode").mkdir()
        (place / ".vscode" / "tasks.json").write_text("{}")
        with pytest.raises(InvalidCommand, match=r"protected files: \.vscode/tasks\.json"):
            await finish(engine, "merge", "loose")
        assert not (workspace / ".vscode").exists()


@pytest.mark.slow
async def test_a_thread_that_is_gone_leaves_its_worktree_in_the_list(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    from hames.domain.commands import DeleteThread

    async with opened(workspace, environment) as engine:
        state = await started(engine, "orphan")
        await engine.execute(DeleteThread(thread_id=ThreadId(state.id)))
        assert [tree.name for tree in await listed(engine)] == ["orphan"]
        assert (await finish(engine, "drop", "orphan")).removed


@pytest.mark.parametrize("policy", [DangerFullAccess(), ExternalSandbox(), WorkspaceWrite()])
async def test_programs_that_a_repository_names_do_not_run_outside_the_sandbox_when_a_worktree_is_made(
    workspace: Path, environment: Mapping[str, str], policy: SandboxPolicy, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    (workspace / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
    for name in ("filter.x.clean", "filter.x.smudge", "diff.x.textconv", "diff.external", "core.fsmonitor"):
        git(workspace, "config", name, f"touch {marks}/{name}; cat")
    (workspace / "cart.txt").write_text("changed\n")
    async with opened(workspace, environment, sandbox=policy) as engine:
        made = await started(engine, "try", changes=True)
        assert Path(made.settings.cwd, "cart.txt").read_text() == "changed\n"
        assert [tree.name for tree in await listed(engine)] == ["try"]
        await finish(engine, "drop", "try", discard="try")
    assert list(marks.iterdir()) == []
