"""Commands and files that a program which speaks ACP hands to us, as its client."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_agents import APPROVALS, agent, follow_turn, models, of, said, say
from hames.app import open_engine
from hames.config.load import load
from hames.domain.approvals import Approval, ChangeFiles
from hames.domain.commands import (
    CreateThread,
)
from hames.domain.items import (
    CommandExecution,
    FileChange,
    ToolCall,
)
from hames.domain.options import Overrides
from hames.domain.policy import ReadOnly
from hames.domain.rules import Rule
from hames.domain.state import ThreadState


async def use_client(folder: Path, words: str, *, decision: str = "once", **overrides: object) -> ThreadState:
    """One turn in a real engine, with our own tools and sandbox."""
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    environment = {"HOME": str(folder), "HAMES_STATE": str(folder / "state"), "PATH": os.environ["PATH"]}
    options = load({"cwd": str(workspace)}, environment)
    house = open_engine(options, models=models(folder), agents={"small": agent(folder)})
    async with house as opened:
        state = await opened.execute(CreateThread(overrides=Overrides(**overrides)))  # type: ignore[arg-type]
        assert isinstance(state, ThreadState)
        return await follow_turn(opened, state, say(state, words), decision=decision)


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("when", ["permitted", "announced", "running", "late"])
@pytest.mark.parametrize("what", ["plain", "named", "bash", "titled"])
async def test_a_command_that_it_tells_of_and_hands_to_us_is_one_item(tmp_path: Path, when: str, what: str) -> None:
    state = await use_client(tmp_path, f"handed {when} {what} echo one; touch made", approval_policy="always")
    assert (tmp_path / "workspace" / "made").exists(), state.turns[-1].items
    [command] = [one for one in state.turns[-1].items if isinstance(one, CommandExecution | ToolCall)]
    assert isinstance(command, CommandExecution)
    assert (command.status, command.exit_code, command.output) == ("completed", 0, "one\n")
    assert said(state) == "handed over"


@pytest.mark.parametrize("when", ["permitted", "announced", "running", "late"])
async def test_a_file_that_it_tells_of_and_hands_to_us_is_one_item(tmp_path: Path, when: str) -> None:
    path = tmp_path / "workspace" / "note.txt"
    before = len(APPROVALS)
    state = await use_client(tmp_path, f"handed {when} write {path} new", approval_policy="always")
    assert path.read_text() == "new"
    [change] = of(state.turns[-1], FileChange)
    assert isinstance(change, FileChange)
    assert (change.status, [one.path for one in change.changes]) == ("completed", [str(path)])
    assert len(APPROVALS) == before + 1


@pytest.mark.needs("bwrap")
async def test_a_command_in_its_terminal_runs_in_our_sandbox_and_is_an_item(tmp_path: Path) -> None:
    hidden = tmp_path / "secret"
    hidden.write_text("x")
    words = f"terminal echo $COLOUR; touch made; cat {hidden}; exit 3"
    state = await use_client(tmp_path, words, approval_policy="always")
    [command] = of(state.turns[-1], CommandExecution)
    assert isinstance(command, CommandExecution)
    assert (command.status, command.exit_code) == ("failed", 3)
    assert command.command == f"export COLOUR='red blue'; {words.removeprefix('terminal ')}"
    assert "No such file" in command.output
    assert (tmp_path / "workspace" / "made").exists()
    assert "exit 3 'red blue" in said(state)
    assert "-32002" in said(state)  # a terminal that was released is gone
    assert [one.intent.command for one in asked(state)] == [command.command]  # type: ignore[union-attr]


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("words", "overrides", "why"),
    [
        ("terminal touch made", {"approval_policy": "always"}, "declined"),
        ("terminal touch made", {"rules": (Rule(action="deny", command="touch *"),)}, "denied"),
        ("terminal touch made", {"agent": "plan", "approval_policy": "never"}, "Read-only file system"),
    ],
)
async def test_a_command_that_may_not_run_does_not(
    tmp_path: Path, words: str, overrides: dict[str, object], why: str
) -> None:
    state = await use_client(tmp_path, words, decision="reject", **overrides)
    assert why in said(state)
    assert not (tmp_path / "workspace" / "made").exists()


@pytest.mark.needs("bwrap")
async def test_a_terminal_that_it_kills_ends(tmp_path: Path) -> None:
    state = await use_client(tmp_path, "terminal echo started; sleep 1000", approval_policy="never")
    [command] = of(state.turns[-1], CommandExecution)
    assert command.status == "interrupted"
    assert "exit None" in said(state)


async def test_its_files_are_read_and_written_through_our_tools(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    note = tmp_path / "workspace" / "note"
    note.write_text("one\ntwo\nthree\n")
    state = await use_client(tmp_path, f"read {note}")
    assert r"{'content': 'one\\ntwo\\n'}".replace("\\\\", "\\") in said(state)
    state = await use_client(tmp_path, f"write {note} new words", approval_policy="always")
    assert note.read_text() == "new words"
    [change] = of(state.turns[-1], FileChange)
    assert "+new words" in change.changes[0].diff  # type: ignore[union-attr]
    assert isinstance(asked(state)[0].intent, ChangeFiles)


@pytest.mark.parametrize(
    ("words", "overrides", "why"),
    [
        ("write {w}/note x", {"approval_policy": "always"}, "declined"),
        ("write {w}/note x", {"rules": (Rule(action="deny", write="{w}/note"),)}, "denied"),
        ("write {w}/note x", {"sandbox": ReadOnly(), "approval_policy": "never"}, "no tool 'write'"),
        ("write {w}/note x", {"agent": "plan", "approval_policy": "never"}, "no tool 'write'"),
        ("write {w}/../outside x", {"approval_policy": "never"}, "outside the workspace"),
        ("write {w}/.git/hooks/post-commit x", {"approval_policy": "never"}, "protected"),
        ("write note x", {"approval_policy": "never"}, "must be an absolute path"),
        ("read {w}/../outside", {}, "outside the workspace"),
        ("read {w}/link", {}, "outside"),
        ("read {w}/note", {"rules": (Rule(action="deny", read="{w}/note"),)}, "denied"),
    ],
)
async def test_a_file_that_is_not_for_it_is_refused(
    tmp_path: Path, words: str, overrides: dict[str, object], why: str
) -> None:
    workspace = tmp_path / "workspace"
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / "note").write_text("kept")
    (tmp_path / "outside").write_text("secret words")
    (workspace / "link").symlink_to(tmp_path / "outside")
    rules = tuple(
        replace(one, write=one.write.format(w=workspace), read=one.read.format(w=workspace))
        for one in overrides.get("rules", ())  # type: ignore[attr-defined]
    )
    given = {**overrides, **({"rules": rules} if rules else {})}
    state = await use_client(tmp_path, words.format(w=workspace), decision="reject", **given)
    assert why in said(state)
    assert "secret words" not in said(state)
    assert (workspace / "note").read_text() == "kept"
    assert (tmp_path / "outside").read_text() == "secret words"
    assert not list((workspace / ".git" / "hooks").iterdir())


def asked(state: ThreadState) -> list[Approval]:
    return [one for one in APPROVALS if one.turn_id == state.turns[-1].id]
