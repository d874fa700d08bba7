"""Processes that go on after the call that started them, in the real sandbox of this machine."""

import os
import re
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest
from msgspec.structs import replace

from hames.domain.approvals import Harmless, RunCommand
from hames.domain.items import CommandExecution
from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.sandbox.local import LocalSandbox
from hames.tools.background import BackgroundLimits
from hames.tools.registry import STANDARD, ToolLimits
from toolbench import Workshop, workshop

pytestmark = pytest.mark.needs("bwrap")

SERVER = "exec /usr/bin/python3 -u -m http.server {port} --bind 127.0.0.1"
FETCH = "/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:{port}/\").status)'"


@asynccontextmanager
async def shop_behind(
    root: Path, policy: SandboxPolicy | None = None, limits: ToolLimits = STANDARD
) -> AsyncGenerator[Workshop, None]:
    sandbox = LocalSandbox()
    try:
        async with workshop(root, walls=sandbox, policy=policy or WorkspaceWrite(), limits=limits) as shop:
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


async def test_a_later_command_reaches_a_server_that_an_earlier_call_started(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w") as shop:
        started = await shop.do("shell", command=SERVER.format(port=8123), background=True)
        assert "running in the background as process 1" in started.text
        assert isinstance(started.item, CommandExecution)
        assert (started.item.status, started.item.exit_code) == ("completed", None)
        await shop.do("process", action="wait", process=1, until="Serving", timeout_seconds=60)
        fetched = await shop.do("shell", command=FETCH.format(port=8123))
        assert fetched.text.startswith("200\n")
        assert "GET /" in (await shop.do("process", action="poll", process=1)).text
        assert "running" in (await shop.do("process", action="list")).text
        ended = await shop.do("process", action="signal", process=1, signal="KILL")
        assert "ended with" in ended.text
        assert (await shop.do("shell", command=FETCH.format(port=8123))).failed


async def test_another_policy_and_another_thread_do_not_reach_it(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w") as shop:
        await shop.do("shell", command=SERVER.format(port=8124), background=True)
        await shop.do("process", action="wait", process=1, until="Serving", timeout_seconds=60)
        tighter = await shop.run(await shop.prepare("shell", command=FETCH.format(port=8124)), ReadOnly())
        assert tighter.failed
        shop.place = replace(shop.place, thread_id="ses_2")
        assert (await shop.do("shell", command=FETCH.format(port=8124))).failed


async def test_a_repl_on_a_terminal_answers_what_is_typed(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w") as shop:
        await shop.do("shell", command="/usr/bin/python3 -q", terminal=True)
        typed = await shop.do(
            "process", action="write", process=1, input="print(6 * 7)\n", until="\n42", timeout_seconds=60
        )
        assert "42" in typed.text
        assert isinstance(typed.item, CommandExecution)
        tty = await shop.do(
            "process",
            action="write",
            process=1,
            input="import os; print('tty', os.isatty(0))\n",
            until="tty True",
            timeout_seconds=60,
        )
        assert "did not appear" not in tty.text
        ended = await shop.do(
            "process", action="write", process=1, close_input=True, until="never said", timeout_seconds=60
        )
        assert "process 1: ended with exit code 0" in ended.text


async def test_a_terminal_is_resized_and_interrupted(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w") as shop:
        await shop.do("shell", command="bash --norc -i", terminal=True)
        await shop.do("process", action="resize", process=1, rows=41, columns=97)
        sized = await shop.do(
            "process", action="write", process=1, input="stty size\n", until="41 97", timeout_seconds=60
        )
        assert "did not appear" not in sized.text
        await shop.do(
            "process",
            action="write",
            process=1,
            input="sh -c 'echo go; exec sleep 1000'\n",
            until="\ngo",
            timeout_seconds=60,
        )
        await shop.do("process", action="write", process=1, input="\x03")
        after = await shop.do(
            "process", action="write", process=1, input="echo $((40+3))\n", until="\n43", timeout_seconds=60
        )
        assert "did not appear" not in after.text


async def test_without_a_terminal_input_is_a_pipe_that_can_be_closed(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w") as shop:
        await shop.do("shell", command="echo up; sort; test -t 0 || echo pipe", background=True)
        await shop.do("process", action="write", process=1, input="b\na\n")
        done = await shop.do("process", action="write", process=1, close_input=True, until="pipe", timeout_seconds=60)
        assert done.text.startswith("a\nb\npipe\n")
        await shop.do("process", action="wait", process=1, timeout_seconds=60)
        with pytest.raises(Exception, match="has ended with exit code 0"):
            await shop.prepare("process", action="write", process=1, input="x")
        refused = await shop.do("process", action="resize", process=1, rows=2, columns=2)
        assert refused.failed


async def test_signals_reach_the_program_and_not_its_sandbox(tmp_path: Path) -> None:
    command = "trap 'echo got usr1' USR1; trap 'echo got term; exit 3' TERM; echo ready; while :; do read -t 1 x; done"
    async with shop_behind(tmp_path / "w") as shop:
        await shop.do("shell", command=command, background=True)
        await shop.do("process", action="wait", process=1, until="ready", timeout_seconds=60)
        sent = await shop.do("process", action="signal", process=1, signal="USR1")
        if "got usr1" not in sent.text:
            sent = await shop.do("process", action="wait", process=1, until="got usr1", timeout_seconds=60)
        assert "got usr1" in sent.text and "is running" in sent.text
        await shop.do("process", action="signal", process=1, signal="TERM")
        last = await shop.do("process", action="wait", process=1, timeout_seconds=60)
        assert "ended with exit code 3" in last.text


async def test_all_of_them_end_with_the_thread(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w") as shop:
        for _ in range(3):
            await shop.do(
                "shell", command="sleep 4242.5 & echo up; sleep 4242.5; :", background=True, timeout_seconds=500
            )
        with anyio.fail_after(60):
            while len(left("sleep 4242.5")) < 6:
                await anyio.sleep(0.01)
    assert not [process for process in left("4242.5") if process.name() == "sleep"]


async def test_their_number_is_bounded_and_their_numbers_are_their_own(tmp_path: Path) -> None:
    limits = replace(STANDARD, background=BackgroundLimits(running=2))
    async with shop_behind(tmp_path / "w", limits=limits) as shop:
        for _ in range(2):
            assert not (await shop.do("shell", command="echo up; cat", background=True)).failed
        third = await shop.do("shell", command="echo up; cat", background=True)
        assert third.failed and "2 processes run in the background already" in third.text
        await shop.do("process", action="signal", process=1, signal="KILL")
        again = await shop.do("shell", command="echo up; cat", background=True)
        number = re.search(r"as process (\d+)", again.text)
        assert number and number[1] not in ("1", "2")


async def test_unread_output_is_bounded_and_the_rest_is_in_a_file(tmp_path: Path) -> None:
    limits = replace(STANDARD, background=BackgroundLimits(kept_bytes=4000, told_bytes=1000))
    async with shop_behind(tmp_path / "w", limits=limits) as shop:
        started = await shop.do("shell", command="seq 1 20000; echo end; cat", background=True)
        more = await shop.do("process", action="wait", process=1, until="end", timeout_seconds=60)
        texts = started.text + more.text
        assert len(texts) < 6000 and "bytes omitted" in texts
        await shop.do("process", action="signal", process=1, signal="KILL")
        path = re.findall(r"with `read`: (\S+)\]", texts)[-1]
        assert "15000" in (await shop.do("read", path=path, offset=14990, limit=20)).text


async def test_one_that_ends_at_once_is_told_like_a_command(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w") as shop:
        done = await shop.do("shell", command="echo no; exit 5", background=True)
        assert (done.failed, done.text) == (True, "no\n[exit code 5]")
        assert isinstance(done.item, CommandExecution) and done.item.exit_code == 5


async def test_input_is_judged_like_a_command_and_looking_is_not(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w") as shop:
        await shop.do("shell", command="echo up; cat", background=True)
        write = await shop.prepare("process", action="write", process=1, input="rm -rf /\n")
        assert write.intent == RunCommand(
            command="rm -rf /\n", cwd=str(tmp_path / "w"), repeatable=False, process="process 1: echo up; cat"
        )
        assert (await shop.prepare("process", action="poll", process=1)).intent == Harmless()
        shop.place = replace(shop.place, sandbox=ReadOnly())
        with pytest.raises(Exception, match="another sandbox"):
            await shop.prepare("process", action="write", process=1, input="x\n")


async def test_a_process_outside_the_sandbox_says_so_when_it_gets_input(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w") as shop:
        work = await shop.prepare("shell", command="echo up; cat", background=True)
        await shop.run(work, DangerFullAccess())
        write = await shop.prepare("process", action="write", process=1, input="x\n")
        assert isinstance(write.intent, RunCommand) and write.intent.unsandboxed


async def test_what_a_process_in_the_background_plants_is_made_inert_when_another_command_ends(tmp_path: Path) -> None:
    plant = (
        "git init -q sub && printf '#!/bin/sh\\ntouch /tmp/ran' > sub/.git/hooks/pre-commit && "
        "chmod +x sub/.git/hooks/pre-commit; echo planted; cat"
    )
    async with shop_behind(tmp_path / "w") as shop:
        await shop.do("shell", command=plant, background=True)
        await shop.do("process", action="wait", process=1, until="planted", timeout_seconds=60)
        looked = await shop.do("shell", command="true")
        assert "pre-commit" in looked.text
        hook = tmp_path / "w/sub/.git/hooks/pre-commit"
        assert not hook.exists() or not os.access(hook, os.X_OK)
        assert "pre-commit" not in (await shop.do("shell", command="true")).text


async def test_a_readonly_thread_starts_readonly_processes(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w", ReadOnly()) as shop:
        done = await shop.do("shell", command="touch x || echo refused; cat", background=True)
        more = await shop.do("process", action="poll", process=1)
        assert "refused" in done.text + more.text
    assert not (tmp_path / "w/x").exists()


async def test_private_files_of_long_output_are_gone_with_the_thread(tmp_path: Path) -> None:
    async with shop_behind(tmp_path / "w") as shop:
        done = await shop.do("shell", command="seq 1 100000")
        [path] = re.findall(r"with `read`: (\S+)\]", done.text)
        assert Path(path).stat().st_mode & 0o777 == 0o600
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
        assert "50000" in (await shop.do("read", path=path, offset=50000, limit=1)).text
        assert (await shop.do("read", path=str(Path(path).parent / ".lock"))).failed
    assert not Path(path).parent.exists()
    assert path.startswith(tempfile.gettempdir())


PROXY = "port=${HTTP_PROXY##*:}; (exec 3<>/dev/tcp/127.0.0.1/$port) && echo open $port"


async def test_each_command_in_a_shared_network_has_a_proxy_of_its_own(tmp_path: Path) -> None:
    policy = WorkspaceWrite(network_access=True)
    async with shop_behind(tmp_path / "w", policy) as shop:
        first = await shop.do("shell", command=f"{PROXY}; cat", background=True)
        if "open" not in first.text:
            first = await shop.do("process", action="wait", process=1, until="open", timeout_seconds=60)
        ports = [re.search(r"open (\d+)", first.text)]
        for _ in range(2):
            ports.append(re.search(r"open (\d+)", (await shop.do("shell", command=PROXY)).text))
        assert all(ports) and len({port[1] for port in ports if port}) == 3
        assert ports[0]
        reach = f"(exec 3<>/dev/tcp/127.0.0.1/{ports[0][1]}) && echo open"
        assert "open" in (await shop.do("shell", command=reach)).told
        walled = await shop.run(await shop.prepare("shell", command=reach), WorkspaceWrite())
        assert "open" not in walled.told
