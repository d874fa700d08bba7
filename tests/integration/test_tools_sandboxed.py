"""The tools behind the real sandbox of this machine."""

import os
import signal
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest

from hames.domain.items import CommandExecution, Stream
from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.sandbox.local import LocalSandbox
from toolbench import Workshop, workshop

WALLED = [WorkspaceWrite(), ReadOnly()]
EVERY = [*WALLED, DangerFullAccess()]


@asynccontextmanager
async def shop_behind(root: Path, policy: SandboxPolicy) -> AsyncGenerator[Workshop, None]:
    sandbox = LocalSandbox()
    walls = await sandbox.walls()
    if walls.kind == "none" and not isinstance(policy, DangerFullAccess) and os.environ.get("CI") != "true":
        pytest.skip(walls.sentence)
    try:
        async with workshop(root, walls=sandbox, policy=policy) as shop:
            yield shop
    finally:
        sandbox.close()


def left(marker: str) -> list[psutil.Process]:
    """Processes that still run with this on their command line."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if marker in " ".join(process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


async def ended(marker: str) -> None:
    """The port gives the kernel two seconds to take a family down."""
    with anyio.fail_after(60):
        while left(marker):
            await anyio.sleep(0.01)


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: type(policy).__name__)
async def test_a_command_runs_and_is_read(tmp_path: Path, policy: SandboxPolicy) -> None:
    async with shop_behind(tmp_path / "w", policy) as shop:
        done = await shop.do("shell", command="pwd; echo err >&2; cat; exit 4")
    assert (done.told, done.failed) == (f"{tmp_path}/w\nerr\n", True)
    assert isinstance(done.item, CommandExecution)
    assert done.item.exit_code == 4


@pytest.mark.parametrize("policy", WALLED, ids=lambda policy: type(policy).__name__)
async def test_what_the_walls_stop_earns_the_hint(tmp_path: Path, policy: SandboxPolicy) -> None:
    # Not below /tmp: behind the walls that is a place of its own.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as outside:
        async with shop_behind(tmp_path / "w", policy) as shop:
            done = await shop.do("shell", command=f"touch {outside}/escaped")
            assert done.failed
            assert "`unsandboxed`" in done.text
            assert not Path(outside, "escaped").exists()
            work = await shop.prepare("shell", command=f"touch {outside}/allowed", unsandboxed=True, justification="x")
            assert not (await shop.run(work, DangerFullAccess())).failed
            assert Path(outside, "allowed").exists()


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: type(policy).__name__)
async def test_searching_works_behind_every_wall(tmp_path: Path, policy: SandboxPolicy) -> None:
    async with shop_behind(tmp_path / "w", policy) as shop:
        (shop.root / "src").mkdir()
        (shop.root / "src/a.py").write_text("needle\n")
        assert (await shop.do("grep", pattern="need")).text == "src/a.py:1:needle"
        assert (await shop.do("glob", pattern="*.py")).text == "src/a.py"


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize(
    "command",
    [
        "sleep {n} & echo ready; wait",
        "trap '' TERM HUP INT; echo ready; while :; do sleep {n}; done",
        "setsid sleep {n} & echo ready; wait",
        "(setsid sleep {n} >/dev/null 2>&1 &); echo ready; sleep {n}",
        "sleep {n} & kill -STOP $!; echo ready; wait",
        "nohup sleep {n} >/dev/null 2>&1 & echo ready; sleep {n}",
    ],
    ids=["a child", "deaf to signals", "a session of its own", "forked twice", "stopped", "nohup"],
)
async def test_nothing_outlives_a_stop(tmp_path: Path, policy: SandboxPolicy, command: str) -> None:
    number = f"{60_000 + os.getpid()}.{abs(hash((command, str(policy)))) % 10**6}"
    async with shop_behind(tmp_path / "w", policy) as shop:
        work = await shop.prepare("shell", command=command.format(n=number))
        with anyio.fail_after(60), anyio.CancelScope() as scope:

            async def tell(text: str, stream: Stream = "output") -> None:
                assert left(number)
                scope.cancel()

            await work.run(tell, policy)
        assert scope.cancelled_caught
        await ended(number)
        assert not (await shop.do("shell", command="true")).failed


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: type(policy).__name__)
async def test_nothing_outlives_its_command_or_its_time(tmp_path: Path, policy: SandboxPolicy) -> None:
    number = f"{70_000 + os.getpid()}.{abs(hash(str(policy))) % 10**6}"
    async with shop_behind(tmp_path / "w", policy) as shop:
        with anyio.fail_after(60):
            done = await shop.do("shell", command=f"setsid sleep {number} >/dev/null 2>&1 & echo done")
            assert done.told == "done\n"
            await ended(number)
            done = await shop.do("shell", command=f"setsid sleep {number} & echo begun; wait", timeout_seconds=2)
            assert done.text == "begun\n[killed: it ran longer than 2 s]"
            await ended(number)


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize(
    ("command", "told", "code"),
    [
        ("read x; echo got:$x", "got:\n", 0),
        ("exec </dev/tty && echo tty", "", 1),
        ("umask 000; cd /; stty raw 2>/dev/null; echo ok", "ok\n", 0),
        ("kill -9 $$", "", None),
        ("exit 255", "", 255),
    ],
    ids=["reads stdin", "opens the terminal", "changes its surroundings", "dies by a signal", "code 255"],
)
async def test_odd_commands_end_and_the_next_one_is_fine(
    tmp_path: Path, policy: SandboxPolicy, command: str, told: str, code: int | None
) -> None:
    async with shop_behind(tmp_path / "w", policy) as shop:
        with anyio.fail_after(60):
            done = await shop.do("shell", command=command)
        assert isinstance(done.item, CommandExecution)
        assert done.told.startswith(told)
        assert done.item.exit_code in ((code,) if code is not None else (-signal.SIGKILL, 128 + signal.SIGKILL))
        assert (await shop.do("shell", command="umask; pwd")).told.endswith(f"{tmp_path}/w\n")


@pytest.mark.parametrize("policy", [WorkspaceWrite(), DangerFullAccess()], ids=lambda policy: type(policy).__name__)
async def test_fs_4_what_a_walled_command_plants_the_tools_do_not_follow(tmp_path: Path, policy: SandboxPolicy) -> None:
    (tmp_path / "outside").mkdir()
    async with shop_behind(tmp_path / "w", policy) as shop:
        assert not (await shop.do("shell", command=f"ln -s {tmp_path}/outside d")).failed
        assert (await shop.do("write", path="d/x", content="escaped")).failed
        assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    ("policy", "command", "hint"),
    [
        (WorkspaceWrite(), "echo x > /dev/tcp/127.0.0.1/9", "only the workspace is writable, no network"),
        (WorkspaceWrite(network_access=True), "echo x > /dev/tcp/93.184.216.34/80", "through the HTTP proxy that"),
        (
            WorkspaceWrite(network_access=True),
            "getent hosts example.org; bash -c 'echo > /dev/tcp/example.org/80'",
            "proxy",
        ),
    ],
)
async def test_a_program_that_misses_the_network_is_told_how_it_is_reached(
    tmp_path: Path, policy: SandboxPolicy, command: str, hint: str
) -> None:
    """Inside there is no route, so nothing is sent to the public address."""
    async with shop_behind(tmp_path / "w", policy) as shop:
        done = await shop.do("shell", command=command)
    assert done.failed
    assert "it ran in the sandbox" in done.text
    assert hint in done.text


@pytest.mark.needs("curl")
async def test_what_the_proxy_refused_is_told_to_the_model_and_shown_to_people(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w", WorkspaceWrite(network_access=True)) as shop:
        done = await shop.do("shell", command="curl -sS https://169.254.169.254/latest/meta-data")
    sentence = "[refused: 169.254.169.254:443 is a cloud metadata address]"
    assert sentence in done.text
    assert sentence in done.told
