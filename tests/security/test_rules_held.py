"""Rules in a real engine with real tools and a real sandbox: what is denied happens in no way."""

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
from hames.domain.errors import InvalidCommand
from hames.domain.events import ApprovalRequested, ApprovalResolved, ItemCompleted, TurnEnded
from hames.domain.ids import ThreadId
from hames.domain.items import ToolItem
from hames.domain.options import Overrides
from hames.domain.policy import AlwaysScope, Decision
from hames.domain.rules import Rule
from hames.domain.state import ThreadState
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say
from support import started, until


class Day:
    """A thread of a real engine, and somebody who answers its questions."""

    def __init__(self, engine: Engine, watcher: Watcher, thread_id: ThreadId) -> None:
        self.engine = engine
        self._watcher = watcher
        self._thread_id = thread_id
        self.asked: list[Approval] = []
        self.resolved: list[ApprovalResolved] = []

    async def turn(self, decision: Decision = "reject", scope: AlwaysScope = "thread") -> ToolItem:
        """The last tool's item of one turn."""
        await started(self.engine, self._thread_id)
        last: ToolItem | None = None
        with anyio.fail_after(60):
            while True:
                for change in await until(
                    self._watcher, lambda event: isinstance(event, ApprovalRequested | TurnEnded)
                ):
                    match change.record.event:
                        case ItemCompleted(item=item) if isinstance(item, ToolItem):
                            last = item
                        case ApprovalResolved() as event:
                            self.resolved.append(event)
                        case ApprovalRequested(approval=approval):
                            self.asked.append(approval)
                            answer = ResolveApproval(approval_id=approval.id, decision=decision, scope=scope)
                            await self.engine.execute(answer)
                        case TurnEnded():
                            assert last is not None
                            return last
                        case _:
                            pass


@asynccontextmanager
async def day(
    workspace: Path,
    *calls: tuple[str, dict[str, object]],
    rules: str = "",
    thread_rules: tuple[Rule, ...] = (),
    **flags: str,
) -> AsyncGenerator[Day]:
    replies = [reply for name, arguments in calls for reply in ([call(name, **arguments)], [say("ok")])]
    file = workspace.parent / "config.toml"
    if rules:
        file.write_text(rules)
    environment = {
        "HOME": str(workspace.parent / "home"),
        "HAMES_CONFIG": str(file),
        "HAMES_STATE": str(workspace.parent / "state"),
    }
    options = load({"cwd": str(workspace), **flags}, environment)
    async with open_engine(options, models=OneModel(ScriptedModel(*replies))) as engine:
        thread = await engine.execute(CreateThread(overrides=Overrides(rules=thread_rules)))
        assert isinstance(thread, ThreadState)
        yield Day(engine, await engine.watch(thread.id), thread.id)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    here = tmp_path / "workspace"
    (here / "secrets").mkdir(parents=True)
    (here / "src").mkdir()
    (here / "secrets" / "key.txt").write_text("hunter2\n")
    (here / "src" / "a.pem").write_text("hunter2\n")
    (here / "uv.lock").write_text("locked\n")
    (tmp_path / "home").mkdir()
    return here


def text(item: ToolItem) -> str:
    assert item.result is not None
    return item.result.text + getattr(item, "output", "")


PATHS = """
[[rules]]
action = "deny"
read = "secrets/**"

[[rules]]
action = "deny"
read = "*.pem"

[[rules]]
action = "deny"
write = "*.lock"
"""


@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("policy", ["never", "onRequest"])
async def test_denied_files_are_out_of_reach_for_every_tool_and_every_program(workspace: Path, policy: str) -> None:
    look = "import pathlib; print(pathlib.Path('secrets/key.txt').exists())"
    reading = f'for d in */; do cat $d* 2>&1; done; python3 -c "{look}"'
    writing = "n=uv; echo changed > $n.lock; rm -f uv.loc?; mv src other 2>&1; mv secrets s2 2>&1"
    writing += """; python3 -c "open('uv.' + 'lock', 'w')\""""
    tools: list[tuple[str, dict[str, object]]] = [
        ("read", {"path": "secrets/key.txt"}),
        ("read", {"path": "src/../src/a.pem"}),
        ("grep", {"pattern": "hunter2"}),
        ("grep", {"pattern": "hunter2", "path": "src"}),
        ("edit", {"path": "secrets/key.txt", "old_text": "hunter2", "new_text": "x"}),
        ("write", {"path": "uv.lock", "content": "changed"}),
        ("shell", {"command": reading}),
        ("shell", {"command": "cat secrets/key.txt"}),
        ("shell", {"command": writing}),
        ("shell", {"command": "cp secrets/key.txt b; ln secrets/key.txt c; cat b c; tar cf - . | strings"}),
    ]
    async with day(workspace, *tools, rules=PATHS, approval_policy=policy) as user:
        for name, arguments in tools:
            item = await user.turn("once")
            assert "hunter2" not in text(item).replace("'hunter2'", ""), (name, arguments, text(item))
    assert (workspace / "uv.lock").read_text() == "locked\n"
    assert (workspace / "secrets" / "key.txt").read_text() == "hunter2\n"
    assert not (workspace / "b").exists() or "hunter2" not in (workspace / "b").read_text()


@pytest.mark.needs("bwrap")
async def test_a_denied_command_is_refused_with_the_rule_whatever_was_allowed(workspace: Path) -> None:
    rules = '[[rules]]\naction = "deny"\ncommand = "touch *"\nwhy = "use write"\n\n'
    rules += '[[rules]]\naction = "allow"\ncommand = "*"\n'
    run = ("shell", {"command": "touch marker"})
    hidden = ("shell", {"command": "bash -c 'touch marker'"})
    doubtful = ("shell", {"command": "x=touch; $x marker"})
    async with day(workspace, run, hidden, doubtful, rules=rules) as user:
        for _ in (run, hidden):
            item = await user.turn("always")
            assert item.status == "failed"
            assert item.result is not None
            assert f"deny `touch *` ({workspace.parent}/config.toml:1). use write" in item.result.reason
        assert user.asked == []
        item = await user.turn("reject")
        assert [approval.rule and approval.rule.command for approval in user.asked] == ["touch *"]
        assert user.asked[0].offer is None  # a rule that asks is not answered with a rule that allows
    assert not (workspace / "marker").exists()


@pytest.mark.needs("bwrap")
async def test_an_answer_can_keep_a_rule_for_the_project(workspace: Path) -> None:
    calls = [("shell", {"command": f"touch {name}"}) for name in "abc"]
    async with day(workspace, *calls) as user:
        await user.turn("always", "project")
        assert user.asked[0].offer == Rule(action="allow", command="touch *", project=str(workspace))
        [resolved] = user.resolved
        assert resolved.rule is not None
        assert resolved.grant is None
        assert resolved.rule.source == f"{workspace.parent}/config.toml:1"
        await user.turn()
        assert len(user.asked) == 1
    async with day(workspace, calls[2]) as user:  # in another thread of another process
        await user.turn()
        assert user.asked == []
    assert sorted(path.name for path in workspace.iterdir()) == [".harness", "a", "b", "c", "secrets", "src", "uv.lock"]


@pytest.mark.needs("bwrap")
async def test_a_rule_that_was_not_offered_cannot_be_kept(workspace: Path) -> None:
    async with day(workspace, ("shell", {"command": "rm uv.lock"})) as user:
        with pytest.raises(InvalidCommand, match="no rule for this project was offered"):
            await user.turn("always", "project")
        approval = user.asked[0]
        await user.engine.execute(ResolveApproval(approval_id=approval.id, decision="reject"))
    assert (workspace / "uv.lock").exists()


@pytest.mark.needs("bwrap")
async def test_a_thread_has_rules_of_its_own_and_a_file_that_changes_counts_at_once(workspace: Path) -> None:
    rules = (Rule(action="deny", command="touch *", source="thread"),)
    call_ = ("shell", {"command": "touch marker"})
    async with day(workspace, call_, thread_rules=rules, approval_policy="never") as user:
        item = await user.turn()
        assert item.result is not None
        assert "(thread)" in item.result.reason
    assert not (workspace / "marker").exists()


async def test_reading_can_be_asked_about(workspace: Path) -> None:
    rules = '[[rules]]\naction = "ask"\nread = "secrets/**"\n'
    read = ("read", {"path": "secrets/key.txt"})
    async with day(
        workspace, read, read, ("read", {"path": "uv.lock"}), rules=rules, approval_policy="onRequest"
    ) as user:
        assert (await user.turn("reject")).status == "declined"
        assert "ask read" in user.asked[0].reason
        assert "hunter2" in text(await user.turn("once"))
        await user.turn()
        assert len(user.asked) == 2
