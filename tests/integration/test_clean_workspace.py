"""What a command sees of the workspace: the user's files, and not what is ours."""

import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hames.domain.policy import ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.sandbox.local import LocalSandbox
from toolbench import Workshop, workshop

pytestmark = pytest.mark.needs("bwrap")


@asynccontextmanager
async def shop_with_a_log(root: Path, policy: SandboxPolicy) -> AsyncGenerator[Workshop, None]:
    sandbox = LocalSandbox()
    thread = root / ".harness/threads/ses_1"
    thread.mkdir(parents=True)
    (thread / "events.jsonl").write_text('{"text": "needle"}\n')
    (root / "a.txt").write_text("needle\n")
    try:
        async with workshop(root, walls=sandbox, policy=policy) as shop:
            yield shop
    finally:
        sandbox.close()


@pytest.mark.parametrize("policy", [WorkspaceWrite(), ReadOnly()], ids=lambda policy: type(policy).__name__)
async def test_commands_do_not_find_the_threads_own_log(tmp_path: Path, policy: SandboxPolicy) -> None:
    async with shop_with_a_log(tmp_path, policy) as shop:
        found = await shop.do("shell", command="grep -rn needle . ; find . -type f; tar cf - . | tar tf - | grep jsonl")
        assert found.told == "./a.txt:1:needle\n./a.txt\n"
        blocked = await shop.do("shell", command="echo x > .harness/threads/ses_1/events.jsonl")
        assert blocked.failed
    assert (tmp_path / ".harness/threads/ses_1/events.jsonl").read_text() == '{"text": "needle"}\n'


async def test_a_committed_harness_directory_does_not_look_deleted(tmp_path: Path) -> None:
    async with shop_with_a_log(tmp_path, WorkspaceWrite()) as shop:
        for words in (["init", "-q"], ["add", "-A", "-f"]):
            subprocess.run(["git", *words], cwd=tmp_path, check=True)
        status = await shop.do("shell", command="git status --porcelain")
        assert "AD" not in status.told and "A  .harness/threads/ses_1/events.jsonl" in status.told


async def test_searching_tools_leave_out_git_and_the_log(tmp_path: Path) -> None:
    async with shop_with_a_log(tmp_path, WorkspaceWrite()) as shop:
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
        (tmp_path / ".gitignore").write_text("*.log\n")
        (tmp_path / "noise.log").write_text("needle\n")
        for pattern in ("*", "**", "**/*"):
            assert (await shop.do("glob", pattern=pattern)).text == ".gitignore\na.txt"
        assert ".git/" not in (await shop.do("glob", pattern="**/*onfig*")).text
        assert (await shop.do("grep", pattern="needle", glob="**/*")).text.splitlines()[0].startswith("a.txt")
        assert ".harness" not in (await shop.do("grep", pattern="needle", glob="**/*")).text
