"""Worktrees over HTTP, with a real server, real git and the sandbox; and agents of others that work in one."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from hames.app import open_engine
from hames.config.load import load
from hames.domain.commands import CreateThread, FinishWorktree, ForkThread, StartTurn
from hames.domain.events import Noticed, TurnEnded
from hames.domain.items import AgentMessage, TextInput
from hames.domain.state import ThreadState
from hames.domain.worktrees import NewWorktree, WorktreeReport
from server_support import serve_process
from support import until
from trust_world import one_turn

pytestmark = pytest.mark.needs("bwrap", "git")
HERE = Path(__file__).parent
WHO = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]


def git(where: Path | str, *words: str) -> str:
    return subprocess.run(["git", *WHO, *words], cwd=where, capture_output=True, text=True, check=True).stdout


def repository(place: Path) -> Path:
    place.mkdir()
    (place / "cart.txt").write_text("one\n")
    (place / ".gitignore").write_text(".harness/\n*.log\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "Begin")
    (place.parent / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    return place


@asynccontextmanager
async def serving(folder: Path, *commands: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """A server whose model runs one command in each turn."""
    script = [one for command in commands for one in ([{"call": "shell", "with": {"command": command}}], "Done.")]
    flags = ("--approval-policy", "never", "--sandbox", "workspaceWrite")
    async with (
        serve_process(folder, script, *flags) as (_, url),
        httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60) as client,
    ):
        yield client


async def asked(client: httpx2.AsyncClient, method: str, path: str, body: object = None, *, code: int = 200) -> Any:
    answer = await client.request(method, path, json=body)
    assert answer.status_code == code, answer.text
    return answer.json()


async def prompt(client: httpx2.AsyncClient, thread_id: str) -> None:
    await asked(client, "POST", f"/prompt?thread={thread_id}", {"content": "go"})
    with anyio.fail_after(60):
        while (await asked(client, "GET", f"/threads/{thread_id}"))["state"]["status"] != "idle":
            await anyio.sleep(0.05)


async def test_a_thread_begins_in_a_worktree_and_is_merged_over_http(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    async with serving(tmp_path, "echo two >> cart.txt; echo new > new.txt") as client:
        made = await asked(client, "POST", "/threads", {"worktree": {"name": "try"}}, code=201)
        thread_id = made["thread"]["id"]
        [row] = (await asked(client, "GET", "/worktrees"))["worktrees"]
        assert (row["name"], row["branch"], row["threadId"]) == ("try", "hames/try", thread_id)
        assert made["thread"]["cwd"] == row["path"] != str(work)
        await prompt(client, thread_id)
        assert (work / "cart.txt").read_text() == "one\n"
        assert (Path(row["path"]) / "cart.txt").read_text() == "one\ntwo\n"
        [row] = (await asked(client, "GET", "/worktrees"))["worktrees"]
        assert sorted(row["uncommitted"]) == ["cart.txt", "new.txt"]
        done = await asked(client, "POST", "/worktrees/finish", {"action": "merge", "threadId": thread_id})
        assert (done["done"], done["removed"], done["conflicts"]) == (True, True, [])
        assert (await asked(client, "GET", "/worktrees"))["worktrees"] == []
        assert (await asked(client, "GET", f"/threads/{thread_id}"))["state"]["thread"]["cwd"] == str(work)
    assert (work / "cart.txt").read_text() == "one\ntwo\n"
    assert (work / "new.txt").read_text() == "new\n"
    assert "hames/try" not in git(work, "branch")


async def test_a_fork_takes_the_files_along_and_is_kept_or_dropped_only_by_its_name(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    (work / "draft.txt").write_text("not committed\n")
    async with serving(tmp_path, "echo agent > only-here.txt") as client:
        first = (await asked(client, "POST", "/threads", {}, code=201))["thread"]["id"]
        fork = {"worktree": {"name": "copy", "changes": True}}
        copy = (await asked(client, "POST", f"/threads/{first}/fork", fork, code=201))["thread"]
        assert (Path(copy["cwd"]) / "draft.txt").read_text() == "not committed\n"
        await prompt(client, copy["id"])
        body = {"action": "keep", "name": "copy"}
        assert (await asked(client, "POST", "/worktrees/finish", body))["removed"] is False
        drop = {"action": "drop", "name": "copy"}
        seen = await asked(client, "POST", "/worktrees/finish", {**drop, "preview": True})
        assert (seen["done"], "2 uncommitted files" in str(seen["loses"])) == (False, True), seen
        refused = await asked(client, "POST", "/worktrees/finish", drop, code=400)
        assert "copy" in str(refused)
        await asked(client, "POST", "/worktrees/finish", {**drop, "discard": "yes"}, code=400)
        assert (Path(copy["cwd"]) / "only-here.txt").exists()
        gone = await asked(client, "POST", "/worktrees/finish", {**drop, "discard": "copy"})
        assert gone["removed"] is True
    assert not Path(copy["cwd"]).exists()
    assert (work / "draft.txt").read_text() == "not committed\n"


async def test_a_conflict_and_a_wrong_name_are_said_and_nothing_is_half_done(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    async with serving(tmp_path, "echo theirs > cart.txt") as client:
        made = (await asked(client, "POST", "/threads", {"worktree": {"name": "try"}}, code=201))["thread"]
        await prompt(client, made["id"])
        (work / "cart.txt").write_text("mine\n")
        git(work, "commit", "-qam", "Mine")
        report = await asked(client, "POST", "/worktrees/finish", {"action": "merge", "name": "try"})
        assert (report["done"], report["conflicts"]) == (False, ["cart.txt"])
        again = await asked(client, "POST", "/threads", {"worktree": {"name": "try"}}, code=400)
        assert "there is a worktree 'try' already" in str(again)
        await asked(client, "POST", "/worktrees/finish", {"action": "merge", "name": "no-such"}, code=400)
        await asked(client, "POST", "/worktrees/finish", {"action": "burn", "name": "try"}, code=400)
    assert (work / "cart.txt").read_text() == "mine\n"
    assert git(work, "status", "--porcelain") == ""


# -- agents with a loop of their own


async def test_another_agent_works_in_the_worktree_and_its_thread_says_where(tmp_path: Path) -> None:
    """It is started in the worktree; people read which one, and a fork says that the files are copies."""
    work = repository(tmp_path / "work")
    (tmp_path / "theirs").mkdir()
    command = [sys.executable, str(HERE / "acp_agent_program.py"), str(tmp_path / "theirs")]
    (tmp_path / "config.toml").write_text(f"[agents.small]\ncommand = {json.dumps(command)}\n")
    environment = {
        "HOME": str(tmp_path),
        "HAMES_CONFIG": str(tmp_path / "config.toml"),
        "HAMES_STATE": str(tmp_path / "state"),
        "PATH": os.environ["PATH"],
    }
    flags = {"cwd": str(work), "model": "small/default", "approval_policy": "onRequest"}
    async with open_engine(load(flags, environment)) as engine:
        first = await engine.execute(CreateThread(worktree=NewWorktree(name="one")))
        assert isinstance(first, ThreadState)
        said = await notices(engine, first, "terminal echo made > made.txt; pwd")
        assert (Path(first.settings.cwd) / "made.txt").read_text() == "made\n"
        assert not (work / "made.txt").exists()
        told = next(words for words in said if "hames/one" in words)
        assert "worktree" in told
        second = await engine.execute(ForkThread(thread_id=first.id, worktree=NewWorktree(name="two", changes=True)))
        assert isinstance(second, ThreadState)
        said = await notices(engine, second, "terminal cat made.txt; pwd")
        assert any("hames/two" in words for words in said)
        state = engine.loaded(second.id)
        assert state is not None
        answer = next(item for item in reversed(state.turns[-1].items) if isinstance(item, AgentMessage))
        assert "made" in answer.text and second.settings.cwd in answer.text
        report = await engine.execute(FinishWorktree(action="merge", name="one"))
        assert isinstance(report, WorktreeReport) and report.done, report
    assert (work / "made.txt").read_text() == "made\n"


async def notices(engine: Any, thread: ThreadState, words: str) -> list[str]:
    watcher = await engine.watch(thread.id)
    start = StartTurn(thread_id=thread.id, content=(TextInput(text=words),))
    await one_turn(engine, thread.id, "once", command=start)
    changes = await until(watcher, lambda event: isinstance(event, TurnEnded))
    watcher.close()
    return [one.record.event.message for one in changes if isinstance(one.record.event, Noticed)]
