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


HELD = {".claude", ".codex", ".cursor", ".gemini", ".mcp.json", ".vscode", ".harness"}
"""Names that must not be made, and can only be held by something mounted on them."""


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("ls", set()),
        ("ls -A", HELD),
        ("find . -mindepth 1 -maxdepth 1 -printf '%f\\n'", HELD),
        ("find . -path ./.git -prune -o -type f -print", set()),
        ("tar cf - . | tar tf - | sed -E 's,^./,,; s,/$,,; /^$/d'", HELD),
        ("grep -rl '' .", set()),
        ("git status --porcelain --ignored --untracked-files=all | cut -c4-", set()),
        ("git ls-files --others --directory", HELD),
        ("git ls-files --others", set()),
        ("git add -A && git diff --cached --name-only", set()),
        ("du -a --apparent-size -B1 | awk '$1 > 4096 {print $2}'", {"."}),
    ],
)
async def test_a_command_that_writes_sees_the_held_names_in_listings_and_nowhere_else(
    tmp_path: Path, command: str, shown: set[str]
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    sandbox = LocalSandbox()
    try:
        async with workshop(tmp_path, walls=sandbox) as shop:
            done = await shop.do("shell", command=command)
            assert not done.failed, done.text
            names = {name.removeprefix("./").rstrip("/") or "." for name in done.told.split()} - {".git", "./.git"}
            assert {name for name in names if not name.startswith(".git/")} == shown
    finally:
        sandbox.close()
    assert {path.name for path in tmp_path.iterdir()} == {".git"}, "nothing of it is left on the disk"
