"""Limits of one command: there by default, told in words, and no hindrance to ordinary programs."""

import os
import shutil
from pathlib import Path

import pytest
from home import place, sandbox
from walls import run

from hames.domain.policy import DangerFullAccess, SandboxPolicy, WorkspaceWrite
from hames.ports import Limits
from hames.sandbox.local import LocalSandbox
from hames.sandbox.processes.environment import SYSTEM_PATH
from hames.sandbox.processes.limits import default_memory_bytes
from hames.sandbox.proof.targets import interpreter
from hames.tools.registry import ToolLimits
from hames.tools.shell import ShellLimits
from toolbench import workshop

pytestmark = pytest.mark.needs("bwrap", "bash")

BOTH: list[SandboxPolicy] = [WorkspaceWrite(), DangerFullAccess()]


def named(policy: SandboxPolicy) -> str:
    return type(policy).__name__


def has(program: str) -> str:
    found = shutil.which(program, path=":".join(SYSTEM_PATH))
    if found is None:
        pytest.skip(f"needs {program}")
    return found


async def told(root: Path, policy: SandboxPolicy, command: str, limits: ShellLimits | None = None) -> str:
    """What the model reads after a command that failed."""
    walls = LocalSandbox()
    try:
        chosen = ToolLimits(shell=limits or ShellLimits())
        async with workshop(root, walls=walls, policy=policy, limits=chosen) as shop:
            done = await shop.do("shell", command=command)
            assert done.failed, done.text
            return done.text
    finally:
        walls.close()


@pytest.mark.parametrize("policy", BOTH, ids=named)
async def test_limits_are_there_by_default(policy: SandboxPolicy) -> None:
    with place() as base:
        (base / "ws").mkdir()
        done = await run("ulimit -S -d; ulimit -H -f; ulimit -S -f; ulimit -S -u; ulimit -c", base / "ws", policy)
    memory, *files, processes, core = done.text.split()
    assert int(memory) == default_memory_bytes() // 1024
    assert files == [str(16 << 20)] * 2
    assert 4096 <= int(processes) < 1_000_000
    assert core == "0"


@pytest.mark.parametrize("policy", BOTH, ids=named)
@pytest.mark.parametrize("command", ["truncate -s 1T sparse", "dd if=/dev/zero of=sparse bs=1 count=1 seek=1T"])
async def test_a_sparse_file_of_a_terabyte_is_refused_and_the_limit_is_named(
    tmp_path: Path, policy: SandboxPolicy, command: str
) -> None:
    text = await told(tmp_path / "w", policy, command)
    assert "file size limit: one file may have 16 GiB (max_file_mb)" in text
    assert (tmp_path / "w/sparse").stat().st_size <= 16 << 30


async def test_a_program_killed_for_a_large_file_is_told_why(tmp_path: Path) -> None:
    limits = ShellLimits(file_bytes=1 << 20)
    text = await told(tmp_path / "w", WorkspaceWrite(), "head -c 5000000 /dev/zero > big", limits)
    assert "file size limit: one file may have 1 MiB (max_file_mb)" in text
    assert (tmp_path / "w/big").stat().st_size <= 1 << 20


@pytest.mark.parametrize("policy", BOTH, ids=named)
async def test_a_process_that_wants_too_much_memory_is_told_how_much_there_is(
    tmp_path: Path, policy: SandboxPolicy
) -> None:
    python = shutil.which("python3", path=":".join(SYSTEM_PATH)) or interpreter()
    limits = ShellLimits(memory_bytes=300 << 20)
    text = await told(tmp_path / "w", policy, f"{python} -c 'x = bytearray(1 << 30)'", limits)
    assert "memory limit: a command may use 300 MiB memory (max_memory_mb)" in text


@pytest.mark.parametrize("policy", BOTH, ids=named)
async def test_processes_that_use_too_much_memory_together_are_ended_and_told_why(
    tmp_path: Path, policy: SandboxPolicy
) -> None:
    """Each is below the limit of one process; and each has lifted that limit."""
    python = has("python3")
    hog = "import time; x = bytearray(120 << 20); x[::4096] = b'x' * len(x[::4096]); time.sleep(100)"
    command = f'ulimit -d unlimited; for i in 1 2 3 4; do {python} -c "{hog}" & done; wait'
    text = await told(tmp_path / "w", policy, command, ShellLimits(memory_bytes=300 << 20, default_seconds=60))
    assert "ended: it used more than 300 MiB of memory" in text
    assert "ran longer" not in text


async def test_memory_that_a_fork_shares_is_counted_once(tmp_path: Path) -> None:
    python = has("python3")
    forks = (
        "import os, time\nx = bytearray(150 << 20)\nx[::4096] = b'x' * len(x[::4096])\n"
        "kids = [os.fork() or (time.sleep(2), os._exit(0)) for _ in range(6)]\n[os.wait() for _ in kids]\nprint('fine')"
    )
    walls = LocalSandbox()
    with place() as base:
        (base / "ws").mkdir()
        (base / "ws/forks.py").write_text(forks)
        done = await run(f"{python} forks.py", base / "ws", sandbox=walls, limits=Limits(memory_bytes=400 << 20))
    walls.close()
    assert (done.text, done.notes) == ("fine\n", ())


async def test_a_fork_that_fails_is_told_the_limit(tmp_path: Path) -> None:
    text = await told(
        tmp_path / "w",
        WorkspaceWrite(),
        "for i in $(seq 3000); do sleep 30 & done; wait",
        ShellLimits(processes=60, default_seconds=50),
    )
    assert "process limit: a command may have 60 processes" in text or "more than 60 processes" in text


async def test_a_full_private_directory_is_explained(tmp_path: Path) -> None:
    text = await told(tmp_path / "w", WorkspaceWrite(), "echo 'cp: No space left on device'; exit 1")
    assert "large files belong in the workspace" in text


async def test_words_about_limits_in_the_output_of_a_command_that_succeeds_mean_nothing(tmp_path: Path) -> None:
    walls = LocalSandbox()
    async with workshop(tmp_path / "w", walls=walls, policy=WorkspaceWrite()) as shop:
        done = await shop.do("shell", command="echo 'MemoryError: File too large, No such file or directory: /data/x'")
    walls.close()
    assert "limit" not in done.text
    assert "extra_read" not in done.text


ORDINARY = {
    "java": ("java", "java -version 2>&1 | head -1", "version"),
    "java with a heap": ("java", "java -Xmx512m -XshowSettings:vm -version 2>&1", "512.00M"),
    "node": ("node", "node -e 'console.log(6 * 7)'", "42"),
    "node with WebAssembly": ("node", "node -e 'new WebAssembly.Memory({initial: 1000}); console.log(6 * 7)'", "42"),
    "node with workers": (
        "node",
        'node -e \'const w = require("worker_threads"); for (let i = 0; i < 8; i++) '
        'new w.Worker("console.log(42)", {eval: true})\'',
        "42",
    ),
    "go": ("go", "go version", "go1"),
    "threads": (
        "python3",
        "python3 -c 'import threading as t; [t.Thread(target=print, args=(7,)).start() for _ in range(200)]'",
        "7",
    ),
}


@pytest.mark.parametrize("name", ORDINARY)
async def test_programs_that_reserve_much_memory_run(name: str) -> None:
    program, command, expected = ORDINARY[name]
    has(program)
    with place() as base:
        (base / "ws").mkdir()
        (base / "home").mkdir()
        done = await run(command, base / "ws", sandbox=sandbox(base / "home"))
    assert done.code == 0, done.text
    assert expected in done.text


async def test_a_sanitizer_is_told_how_to_lift_the_limit(tmp_path: Path) -> None:
    has("gcc")
    build = "echo 'int main(void) { return 0; }' > a.c && gcc -fsanitize=address a.c -o a"
    with place() as base:
        (base / "ws").mkdir()
        done = await run(f"{build} && echo built", base / "ws")
        if "built" not in done.text:
            pytest.skip("needs gcc with AddressSanitizer")
        lifted = await run("ulimit -d unlimited; ASAN_OPTIONS=detect_leaks=0 ./a && echo ran", base / "ws")
        assert lifted.text == "ran\n"
        shutil.copytree(base / "ws", tmp_path / "w")
    text = await told(tmp_path / "w", WorkspaceWrite(), "./a")
    assert "ulimit -d unlimited" in text


def test_the_default_is_three_quarters_of_what_there_is() -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 1 << 30 <= default_memory_bytes() <= max(1 << 30, machine * 3 // 4)
