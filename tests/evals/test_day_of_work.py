"""A day's work of 60 actions in a real repository: `auto` asks for what leaves the sandbox and for protected files, and
for nothing else. `ask` asks far more often, which is what `auto` is for."""

import json
import subprocess
from pathlib import Path

import anyio
import pytest

from hames.app import default_settings, open_engine
from hames.config.load import load
from hames.core.engine_rules import EngineRules
from hames.domain.commands import CreateThread, ResolveApproval
from hames.domain.events import ApprovalRequested, TurnEnded
from hames.domain.state import ThreadState
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say
from support import started, until

DAY = [json.loads(line) for line in Path(__file__).with_name("day_of_work.jsonl").read_text().splitlines()]
CART = "class Cart:\n    def __init__(self):\n        self.prices = []\n\n    def total(self):\n        return 0\n"


def repository(where: Path) -> Path:
    (where / "shop").mkdir(parents=True)
    (where / "README.md").write_text("# Shop\n")
    (where / "shop" / "__init__.py").write_text("")
    (where / "shop" / "cart.py").write_text(CART)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(where)]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return where


async def questions(workspace: Path, mode: str) -> list[str]:
    """Why each action was asked about; empty where nobody was. Every question is answered with no."""
    replies = [reply for action in DAY for reply in ([call(action["tool"], **action["arguments"])], [say("ok")])]
    home = workspace.parent / "home"
    home.mkdir()
    environment = {"HOME": str(home), "HAMES_STATE": str(workspace.parent / "state")}
    options = load({"cwd": str(workspace), "mode": mode}, environment)
    asked: list[str] = []
    models = OneModel(ScriptedModel(*replies))
    # Reminders about unfinished work would be answered with the next action.
    rules = EngineRules(defaults=default_settings(options, models), supervises=False)
    async with open_engine(options, models=models, rules=rules) as engine:
        thread = await engine.execute(CreateThread())
        assert isinstance(thread, ThreadState)
        watcher = await engine.watch(thread.id)
        for _ in DAY:
            await started(engine, thread.id)
            asked.append("")
            while True:
                changes = await until(watcher, lambda event: isinstance(event, ApprovalRequested | TurnEnded))
                event = changes[-1].record.event
                if isinstance(event, TurnEnded):
                    break
                assert isinstance(event, ApprovalRequested)
                asked[-1] = event.approval.reason
                await engine.execute(ResolveApproval(approval_id=event.approval.id, decision="reject"))
    return asked


@pytest.mark.slow
@pytest.mark.needs("bwrap", "git", "rg")
@pytest.mark.parametrize("mode", ["auto", "ask"])
async def test_auto_asks_for_exactly_what_leaves_the_sandbox_or_is_protected(mode: str, tmp_path: Path) -> None:
    assert len(DAY) == 60
    with anyio.fail_after(600):
        asked = await questions(repository(tmp_path / "shop"), mode)
    wanted = [action["asks"] for action in DAY]
    for action, reason in zip(DAY, asked, strict=True):
        if action["asks"] or mode == "auto":
            assert bool(reason) == bool(action["asks"]), (action, reason)
            by_host = mode == "ask" and "host" in action["asks"]  # there the question is about the whole command
            assert by_host or action["asks"] in reason, (action, reason)
    count = sum(map(bool, asked))
    assert count == sum(map(bool, wanted)) if mode == "auto" else count > 2 * sum(map(bool, wanted))
