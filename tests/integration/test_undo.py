"""Undo through a real engine, a real sandbox and a model that plays a script."""

import itertools
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path

import anyio
import psutil
import pytest

import hames
from hames.app import open_engine
from hames.config.load import load
from hames.domain.errors import InvalidCommand
from hames.domain.events import Noticed, Record
from hames.domain.json import Json
from hames.domain.policy import ReadOnly, WorkspaceWrite
from hames.protocols.bootstrap.session import BootstrapSession
from hames.stdio.connection import Connection, read_lines
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say


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
            assert [turn.undone for turn in (await thread.read()).turns] == [(), (), (f"{workspace}/old.txt",)]
            await thread.undo(first.id, paths=["made"])
            undone = [
                [path.removeprefix(f"{workspace}/") for path in turn.undone] for turn in (await thread.read()).turns
            ]
            assert undone == [["made", "made/file"], [], ["old.txt"]]
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


@pytest.mark.needs("bwrap")
async def test_undo_over_bootstrap(workspace: Path, environment: Mapping[str, str]) -> None:
    options = load({"cwd": str(workspace), "approval_policy": "never"}, environment)
    model = ScriptedModel([call("write", path="new.txt", content="new\n")], [say("done")])
    sent: list[dict[str, Json]] = []
    news = [anyio.Event()]

    class Outbox:
        def write(self, data: bytes) -> None:
            sent.extend(json.loads(line) for line in data.splitlines())
            news[0].set()
            news[0] = anyio.Event()

        async def room(self) -> None: ...

    async with open_engine(options, models=OneModel(model)) as house, anyio.create_task_group() as tasks:
        lines, incoming = anyio.create_memory_object_stream[bytes](10)
        connection = Connection(house, BootstrapSession(), Outbox(), tasks)
        tasks.start_soon(connection.serve, read_lines(incoming))
        numbers = itertools.count(1)

        async def until(wanted: Callable[[dict[str, Json]], bool]) -> dict[str, Json]:
            with anyio.fail_after(60):
                while not (found := [one for one in sent if wanted(one)]):
                    await news[0].wait()
            return found[0]

        async def ask(method: str, **params: Json) -> Json:
            number = next(numbers)
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            await lines.send(json.dumps(request).encode() + b"\n")
            answer = await until(lambda one: one.get("id") == number)
            return answer.get("result") or answer["error"]

        thread_id = (await ask("thread.create"))["thread"]["threadId"]
        turn = await ask("turn.start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        await until(lambda one: one.get("method") == "turn.completed")
        seen = await ask("thread.undo", threadId=thread_id, preview=True)
        assert (seen["turns"], seen["message"]) == ([turn["turnId"]], "1 change would be undone")
        assert (workspace / "new.txt").exists()
        done = await ask("thread.undo", threadId=thread_id, turnId=turn["turnId"], paths=["new.txt"])
        assert done["restored"] == [{"path": "new.txt", "action": "removed"}]
        assert (done["conflicts"], done["notKept"]) == ([], [])
        assert not (workspace / "new.txt").exists()
        (workspace / "new.txt").write_text("mine\n")
        kept = await ask("thread.undo", threadId=thread_id, turnId=turn["turnId"], redo=True)
        assert [one["path"] for one in kept["conflicts"]] == ["new.txt"]
        assert (workspace / "new.txt").read_text() == "mine\n"
        (workspace / "new.txt").unlink()
        await ask("thread.undo", threadId=thread_id, redo=True)
        assert (workspace / "new.txt").read_text() == "new\n"
        assert (await ask("thread.undo", threadId=thread_id, turnId="nope"))["code"] == -32003
        assert (await ask("thread.undo", threadId="nope"))["code"] == -32001
        assert (await ask("thread.undo", threadId=thread_id, paths="new.txt"))["code"] == -32602
        tasks.cancel_scope.cancel()
