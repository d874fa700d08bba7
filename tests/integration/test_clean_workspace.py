"""What a command sees of the workspace: the user's files, and not what is ours."""

import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hames.domain.policy import ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.sandbox.local import LocalSandbox
from hames.sandbox.processes import process_tree
from hames.sandbox.walls.listings import filter_program
from hames.sandbox.walls.listings.filter_program import without
from hames.tools.environment import LocalEnvironment
from toolbench import WallClock, Workshop, as_somebody_else, workshop

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


GUARDS = (".claude", ".codex", ".cursor", ".gemini", ".mcp.json", ".vscode")
"""Names that must not be made. While a command with write access runs, something is mounted on each of them."""

LISTING = "import os; print(*(d + '/' + n for d, ds, fs in os.walk('.') for n in (*ds, *fs)), sep='\\n')"


@pytest.mark.parametrize(
    "command",
    [
        "find . -mindepth 1",
        "ls -AR1 | awk '/:$/ {d=substr($0, 1, length($0)-1); next} NF {print d \"/\" $0}'",
        "tar cf - . | tar tf - | grep -v '^./$'",
        "cp -r . /tmp/copy && cd /tmp/copy && find . -mindepth 1",
        f'python3 -c "{LISTING}"',
        f'python3 -c "import os, threading; threading.Thread(target=lambda: {LISTING[11:]}).start()"',
        "du -a . | cut -f2 | grep -v '^.$'",
        "shopt -s dotglob globstar && printf '%s\\n' ./** | grep -v '^./$'",
        "grep -rLZ no-such-text . | tr '\\0' '\\n'; find . -mindepth 1 -type d",
        'perl -MFile::Find -e \'find(sub { print "$File::Find::name\\n" if $_ ne "." }, ".")\'',
    ],
    ids=["find", "ls", "tar", "cp", "python", "thread", "du", "glob", "grep", "perl"],
)
async def test_a_command_lists_what_was_on_the_disk_and_nothing_else(tmp_path: Path, command: str) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    before = {f"./{path.relative_to(tmp_path)}" for path in tmp_path.rglob("*")} | {"./a.txt"}
    async with shop_with_a_log(tmp_path, WorkspaceWrite()) as shop:
        done = await shop.do("shell", command=command)
        assert not done.failed, done.text
        assert {line.rstrip("/") for line in done.told.splitlines()} == before
    assert {path.name for path in tmp_path.iterdir()} == {".git", ".harness", "a.txt"}, "nothing of it is left"


async def test_a_process_in_the_background_does_not_show_guards_to_others(tmp_path: Path) -> None:
    async with shop_with_a_log(tmp_path, WorkspaceWrite()) as shop:
        await shop.do("shell", command="read line", background=True)
        assert (tmp_path / ".claude").is_dir()
        assert (await shop.do("shell", command="ls -A")).told == "a.txt\n"
        described = await LocalEnvironment(LocalSandbox(), WallClock()).describe(str(tmp_path))
        assert described.entries == ("a.txt",)


async def test_git_tells_of_no_guard(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    async with shop_with_a_log(tmp_path, WorkspaceWrite()) as shop:
        for command, told in (
            ("git status --porcelain --ignored --untracked-files=all", "?? a.txt\n"),
            ("git ls-files --others --directory", "a.txt\n"),
            ("git clean -ndx", "Would remove a.txt\n"),
            ("git add -A && git diff --cached --name-only", "a.txt\n"),
            ("git stash list; git worktree list | wc -l", "1\n"),
        ):
            assert (await shop.do("shell", command=command)).told == told


@pytest.mark.parametrize("policy", [WorkspaceWrite(), ReadOnly()], ids=lambda policy: type(policy).__name__)
async def test_the_top_of_the_workspace_has_the_users_files_only(tmp_path: Path, policy: SandboxPolicy) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text("{}")
    async with shop_with_a_log(tmp_path, policy) as shop:
        assert (await shop.do("shell", command="ls -A")).told == ".claude\na.txt\n", "their own .claude is theirs"
        (tmp_path / ".mcp.json").write_text("{}")
        assert (await shop.do("shell", command="ls -A")).told == ".claude\n.mcp.json\na.txt\n"


async def test_what_is_not_listed_is_guarded_all_the_same(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".git/hooks").joinpath("pre-commit.sample").unlink(missing_ok=True)
    attempts = "; ".join(
        f"echo x > {name}; mkdir -p {name}/x; echo x > {name}/settings.json; ln -s a.txt {name}; "
        f"mkdir t; mv -T t {name}; cp a.txt {name}; rm -rf {name}; mv {name} away; git mv -f a.txt {name}"
        for name in (*GUARDS, ".git/commondir", ".harness")
    )
    async with shop_with_a_log(tmp_path, WorkspaceWrite()) as shop:
        await shop.do("shell", command=f"ls -A; {attempts}; echo x > .git/hooks/pre-commit; mv .git/hooks .git/h")
        hidden = await shop.do("shell", command="cat .harness/threads/ses_1/events.jsonl")
    assert hidden.failed
    assert "needle" not in hidden.told
    assert not any((tmp_path / name).exists() or (tmp_path / name).is_symlink() for name in GUARDS)
    assert not (tmp_path / ".git/commondir").exists()
    assert not (tmp_path / ".git/hooks/pre-commit").exists()
    assert (tmp_path / ".harness/threads/ses_1/events.jsonl").read_text() == '{"text": "needle"}\n'


async def test_listings_of_a_large_directory_are_complete_while_signals_arrive(tmp_path: Path) -> None:
    """It takes many system calls to list it, and a signal in between must not lose entries."""
    for number in range(2000):
        (tmp_path / f"file-{number:04d}").touch()
    program = (
        "import os, signal; signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(14, False); "
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001); "
        "print({len(os.listdir('.')) for _ in range(10)})"
    )
    async with shop_with_a_log(tmp_path, WorkspaceWrite()) as shop:
        assert (await shop.do("shell", command=f'python3 -c "{program}"')).told == "{2001}\n"


async def test_a_new_filter_program_takes_over_when_one_was_killed(tmp_path: Path) -> None:
    async with shop_with_a_log(tmp_path, WorkspaceWrite()) as shop:
        assert (await shop.do("shell", command="ls -A")).told == "a.txt\n"
        killed = _filter_programs()
        assert killed
        for program in killed:
            os.kill(program, signal.SIGKILL)
        assert (await shop.do("shell", command="ls -A")).told == "a.txt\n"
        assert _filter_programs() and not _filter_programs() & killed


def _filter_programs() -> set[int]:
    ours = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in process_tree.children(os.getpid())}
    return {child for child, words in ours.items() if b"filter_program" in words}


def test_names_are_hidden_from_commands_of_a_user_without_privileges(tmp_path: Path) -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")

    async def list_in_sandbox(workspace: Path) -> str:
        sandbox = LocalSandbox(environ={"HOME": "/nonexistent"})
        try:
            async with workshop(workspace, walls=sandbox) as shop:
                return (await shop.do("shell", command="touch a.txt; ls -A; mkdir .claude")).told
        finally:
            sandbox.close()

    def act_there() -> str:
        if not os.access(sys.executable, os.X_OK):
            sys.executable = python or "nothing"
        if not os.access(filter_program.__file__, os.R_OK):
            return "skip"
        return anyio.run(list_in_sandbox, workspace)

    here = anyio.run(list_in_sandbox, tmp_path)  # also imports what is imported late, while it can still be read
    with as_somebody_else() as (place, act):
        workspace = place / "ws"
        workspace.mkdir()
        workspace.chmod(0o777)
        there = act(act_there)
    if there == "skip" or python is None:
        pytest.skip("another user cannot read the program")
    assert here.startswith("a.txt\nmkdir:")
    assert there == here


def test_a_listing_loses_only_the_hidden_names() -> None:
    names = [b".", b"..", b".claude", b".claude2", b"x" * 255, b".mcp.json", b"a b"]
    listing = b"".join(_entry(name) for name in names)
    kept = without(listing, frozenset((b".claude", b".mcp.json")))
    assert kept == b"".join(_entry(name) for name in names if name not in (b".claude", b".mcp.json"))
    assert without(b"", frozenset((b".claude",))) == b""


def _entry(name: bytes) -> bytes:
    length = (19 + len(name) + 1 + 7) // 8 * 8
    return (struct.pack("<QqHB", 1, 1, length, 4) + name).ljust(length, b"\0")
