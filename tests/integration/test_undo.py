"""Undo through a real engine, a real sandbox and a model that plays a script."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path

import anyio
import psutil
import pytest

import hames
from hames.domain.errors import InvalidCommand
from hames.domain.events import Noticed, Record
from hames.domain.policy import ReadOnly, WorkspaceWrite
from hames.testing.fakes.model import ScriptedModel, call, say


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "HAMES_STATE": str(tmp_path / "state"),
        "HAMES_CONFIG": str(tmp_path / "none"),
    }


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.mark.needs("bwrap")
async def test_what_tools_and_commands_did_is_undone_redone_and_told(
    workspace: Path, environment: Mapping[str, str]
) -> None:
    (workspace / "old.txt").write_text("old\n")
    model = ScriptedModel(
        [call("write", path="new.txt", content="new\n")],
        [call("shell", command="echo more >> old.txt; mkdir made; echo x > made/file; ln -s old.txt link")],
        [say("done")],
        [say("nothing to do")],
        [call("shell", command="rm old.txt")],
        [say("gone")],
    )
    with anyio.fail_after(60):
        async with hames.open_engine(
            cwd=workspace,
            provider=model,
            approval_policy="never",
            sandbox=WorkspaceWrite(),
            environment=environment,
        ) as engine:
            thread = await engine.start_thread()
            first = await thread.run("go")
            await thread.run("look")
            last = await thread.run("delete it")
            assert not (workspace / "old.txt").exists()
            seen = await thread.undo(preview=True)
            assert (seen.turns, [one.path for one in seen.restored]) == ((last.id,), ["old.txt"])
            assert not (workspace / "old.txt").exists()
            await thread.undo()
            assert (workspace / "old.txt").read_text() == "old\nmore\n"
            report = await thread.undo()
            assert report.turns == (first.id,)
            assert sorted(path.name for path in workspace.iterdir()) == [".harness", "old.txt"]
            assert (workspace / "old.txt").read_text() == "old\n"
            assert not (await thread.undo()).restored
            assert (await thread.undo(redo=True)).turns == (first.id,)
            assert (workspace / "made/file").read_text() == "x\n"
            await thread.undo(first.id, paths=["made"])
            assert (workspace / "new.txt").exists()
            assert not (workspace / "made").exists()
            told = [record.event async for record in _records(thread)]
    notices = [event for event in told if isinstance(event, Noticed) and event.name in ("undone", "redone")]
    assert [event.message for event in notices] == [
        "1 change undone",
        "5 changes undone",
        "5 changes redone",
        "2 changes undone",
    ]


async def _records(thread: hames.LocalThread) -> AsyncGenerator[Record]:
    state = await thread.read()
    async with aclosing(thread.follow(replay=True)) as changes:
        async for change in changes:
            yield change.record
            if change.record.seq >= state.seq:
                return


@pytest.mark.needs("bwrap")
async def test_commands_that_only_read_and_read_only_turns_take_no_checkpoint(
    workspace: Path, environment: Mapping[str, str], tmp_path: Path
) -> None:
    model = ScriptedModel([call("shell", command="ls")], [say("done")], [call("shell", command="touch x")], [say("no")])
    with anyio.fail_after(60):
        async with hames.open_engine(
            cwd=workspace, provider=model, approval_policy="never", environment=environment
        ) as engine:
            await (await engine.start_thread()).run("look")
            await (await engine.start_thread(sandbox=ReadOnly())).run("try")
    assert not (tmp_path / "state" / "checkpoints").exists()


async def test_undo_can_be_turned_off(workspace: Path, environment: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("undo_mb = 0\n")
    model = ScriptedModel([call("write", path="new.txt", content="new\n")], [say("done")])
    with anyio.fail_after(60):
        async with hames.open_engine(
            cwd=workspace,
            provider=model,
            approval_policy="never",
            environment={**environment, "HAMES_CONFIG": str(tmp_path / "config.toml")},
        ) as engine:
            thread = await engine.start_thread()
            await thread.run("go")
            with pytest.raises(InvalidCommand, match="undo is off"):
                await thread.undo()


async def test_there_is_no_undo_in_a_home_directory(environment: Mapping[str, str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    model = ScriptedModel([call("write", path="new.txt", content="new\n")], [say("done")])
    with anyio.fail_after(60):
        async with hames.open_engine(
            cwd=home, provider=model, approval_policy="never", environment=environment
        ) as engine:
            thread = await engine.start_thread()
            await thread.run("go")
            with pytest.raises(InvalidCommand, match="home directory"):
                await thread.undo()


async def test_a_checkpoint_survives_the_process_that_takes_it(workspace: Path, environment: Mapping[str, str]) -> None:
    model = ScriptedModel(
        [call("write", path="a", content="1")],
        [say("one")],
        [say("nothing ran, I know")],
        [call("write", path="b", content="2")],
        [say("two")],
        [say("nothing ran, I know")],
    )
    with anyio.fail_after(60):
        async with hames.open_engine(
            cwd=workspace, provider=model, approval_policy="never", environment=environment
        ) as engine:
            thread = await engine.start_thread()
            await thread.run("one")
            children = psutil.Process().children()
            program = next(one for one in children if any("checkpoints/program.py" in word for word in one.cmdline()))
            program.kill()
            await thread.run("two")
            assert (await thread.undo()).restored[0].path == "b"
            assert (await thread.undo()).restored[0].path == "a"
