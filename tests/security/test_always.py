"""What `always` allows is what was shown: the same command with the same scripts, and the files of that change."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hames.app import open_engine
from hames.config.load import load
from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.approvals import Approval
from hames.domain.commands import CreateThread, ResolveApproval
from hames.domain.events import ApprovalRequested, ItemCompleted, TurnEnded
from hames.domain.ids import ThreadId
from hames.domain.items import CommandExecution, FileChange
from hames.domain.policy import Decision
from hames.domain.state import ThreadState
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say
from support import started, until

BUILD = {"command": "bash build.sh", "unsandboxed": True, "justification": "it needs the network"}


class Session:
    """A thread of a real engine with real tools, and somebody who answers its questions."""

    def __init__(self, engine: Engine, watcher: Watcher, thread_id: ThreadId) -> None:
        self._engine = engine
        self._watcher = watcher
        self._thread_id = thread_id
        self.items: list[CommandExecution | FileChange] = []

    async def turn(self, decision: Decision = "reject", *, before: object = None) -> list[Approval]:
        """The questions of one turn, each answered with `decision`; `before` happens while they wait."""
        asked: list[Approval] = []
        await started(self._engine, self._thread_id)
        with anyio.fail_after(60):
            while True:
                changes = await until(self._watcher, lambda event: isinstance(event, ApprovalRequested | TurnEnded))
                events = [change.record.event for change in changes]
                for event in events:
                    if isinstance(event, ItemCompleted) and isinstance(event.item, CommandExecution | FileChange):
                        self.items.append(event.item)
                if not isinstance(events[-1], ApprovalRequested):
                    return asked
                asked.append(events[-1].approval)
                if callable(before):
                    before()
                await self._engine.execute(ResolveApproval(approval_id=asked[-1].id, decision=decision))


@asynccontextmanager
async def session(
    workspace: Path, tool: str, *calls: dict[str, object], sandbox: str = "workspaceWrite"
) -> AsyncGenerator[Session]:
    """One turn for each call."""
    replies = [reply for arguments in calls for reply in ([call(tool, **arguments)], [say("ok")])]
    options = load({"cwd": str(workspace), "sandbox": sandbox}, {"HOME": str(workspace.parent / "home")})
    async with open_engine(options, models=OneModel(ScriptedModel(*replies))) as engine:
        thread = await engine.execute(CreateThread())
        assert isinstance(thread, ThreadState)
        yield Session(engine, await engine.watch(thread.id), thread.id)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    here = tmp_path / "workspace"
    here.mkdir()
    (here / "build.sh").write_text("echo built\n")
    return here


@pytest.mark.needs("bash")
async def test_always_for_a_script_ends_when_the_script_changes(workspace: Path) -> None:
    async with session(workspace, "shell", *[BUILD] * 5) as user:
        [first] = await user.turn("always")
        assert [script.path for script in first.intent.scripts] == [f"{workspace}/build.sh"]  # type: ignore[union-attr]
        assert await user.turn() == []
        (workspace / "build.sh").write_text("touch PWNED\n")
        [second] = await user.turn("reject")
        assert second.reason.startswith("runs outside the sandbox (build.sh changed since you allowed this command)")
        assert not (workspace / "PWNED").exists()
        (workspace / "build.sh").write_text("echo built\n")  # what was allowed is allowed again
        assert await user.turn() == []
        (workspace / "build.sh").unlink()
        (workspace / "real.sh").write_text("echo built\n")
        (workspace / "build.sh").symlink_to("real.sh")
        [third] = await user.turn("reject")
        assert "build.sh is now a different symbolic link" in third.reason
    assert [item.status for item in user.items] == ["completed", "completed", "declined", "completed", "declined"]


@pytest.mark.needs("bwrap", "bash")
async def test_always_inside_the_sandbox_is_bound_to_the_script_as_well(workspace: Path) -> None:
    async with session(workspace, "shell", *[{"command": "sh ./build.sh"}] * 3) as user:
        assert len(await user.turn("always")) == 1
        assert await user.turn() == []
        (workspace / "build.sh").write_text("echo changed\n")
        [asked] = await user.turn("reject")
        assert asked.reason == "build.sh changed since you allowed this command"


@pytest.mark.needs("bwrap", "bash")
async def test_always_for_a_command_that_runs_no_script_survives_edits(workspace: Path) -> None:
    (workspace / "test_a.py").write_text("1\n")
    async with session(workspace, "shell", *[{"command": "wc test_a.py && mkdir -p out"}] * 2) as user:
        assert len(await user.turn("always")) == 1
        (workspace / "test_a.py").write_text("2\n")
        assert await user.turn() == []


@pytest.mark.needs("bash")
@pytest.mark.parametrize("decision", ["once", "always"])
async def test_a_script_that_changes_while_the_question_waits_is_not_run(workspace: Path, decision: Decision) -> None:
    def swap() -> None:
        (workspace / "build.sh").write_text("touch PWNED\n")

    async with session(workspace, "shell", BUILD, BUILD) as user:
        assert len(await user.turn(decision, before=swap)) == 1
        [item] = user.items
        assert item.status == "failed"
        assert item.result is not None
        assert item.result.text.startswith("not started: build.sh changed while this waited")
        assert not (workspace / "PWNED").exists()
        assert len(await user.turn("reject")) == 1  # and what it has become is not what was allowed


def write(path: str, content: str = "x\n") -> dict[str, object]:
    return {"path": path, "content": content}


async def test_always_for_a_file_is_for_that_file(workspace: Path) -> None:
    others = ("package.json", "Makefile", "src/a.py", "hames.py", "README.md.bak", "sub/README.md")
    calls = [write("README.md", "1\n"), write("README.md", "2\n"), *map(write, others), write("README.md", "3\n")]
    async with session(workspace, "write", *calls) as user:
        [first] = await user.turn("always")
        assert await user.turn() == []
        for name in others:
            [asked] = await user.turn("reject")
            assert asked.intent.changes[0].path == f"{workspace}/{name}"  # type: ignore[union-attr]
            assert not (workspace / name).exists()
        assert await user.turn() == []
    assert first.reason == "file changes need your approval"
    assert (workspace / "README.md").read_text() == "3\n"


async def test_a_link_in_place_of_an_allowed_file_leads_to_no_other(workspace: Path) -> None:
    (workspace / "package.json").write_text("{}\n")
    async with session(workspace, "write", write("README.md", "1\n"), write("README.md", "2\n")) as user:
        assert len(await user.turn("always")) == 1
        (workspace / "README.md").unlink()
        (workspace / "README.md").symlink_to("package.json")
        await user.turn("reject")
    assert (workspace / "package.json").read_text() == "{}\n"
