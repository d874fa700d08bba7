"""Real servers that are killed or stopped in the middle of a turn: the next process goes on with it."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from websockets.asyncio.client import connect

from server_support import SyncFollower, events, serve_process

ROOT = Path(__file__).resolve().parents[2]
WRITES = [
    [{"say": "I write."}, {"call": "shell", "with": {"command": "echo begun; echo x >> ran.txt"}}],
    [{"say": "Written."}],
]
SLOW = [[{"call": "shell", "with": {"command": "echo begun; echo x >> ran.txt; sleep 60"}}], [{"say": "I see."}]]
ASKS = ("--approval-policy", "always", "--sandbox", "dangerFullAccess")
NEVER = ("--approval-policy", "never", "--sandbox", "dangerFullAccess")
pytestmark = [pytest.mark.needs("bash")]


async def gone(process: anyio.abc.Process, number: int = signal.SIGKILL) -> int:
    process.send_signal(number)
    with anyio.fail_after(60):
        return await process.wait()


def lines(directory: Path) -> list[str]:
    ran = directory / "work" / "ran.txt"
    return ran.read_text().split() if ran.exists() else []


def client(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, trust_env=False)


def hames(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "HAMES_STATE": str(directory / "state")}
    environment["HAMES_CONFIG"] = str(directory / "none")
    command = [sys.executable, "-c", "import sys; from hames.cli.main import main; sys.exit(main())", *words]
    return subprocess.run(
        [*command, "--cwd", str(directory / "work")],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("protocol", ["sse", pytest.param("sync", marks=pytest.mark.slow)])
async def test_an_approval_outlives_a_killed_server_and_its_answer_runs_the_command_once(
    tmp_path: Path, protocol: str
) -> None:
    async with (
        serve_process(tmp_path, WRITES, *ASKS) as (process, url),
        client(url) as http,
        events(http) as heard,
    ):
        await http.post("/prompt", json={"content": "go"})
        asked = await heard.until("approval")
        await gone(process)
    assert lines(tmp_path) == []
    async with serve_process(tmp_path, WRITES, *ASKS) as (process, url), client(url) as http:
        if protocol == "sse":
            async with events(http) as heard:
                again = await heard.until("approval")
                assert (again["id"], again["timestamp"]) == (asked["id"], asked["timestamp"])
                assert (await http.post(f"/approvals/{asked['id']}", json={"decision": "once"})).status_code == 200
                await heard.until("status", state="idle")
        else:
            async with connect(url.replace("http", "ws", 1) + "/ws", max_size=None, proxy=None) as socket:
                page = SyncFollower(socket)
                state: Any = await page.until(lambda state: bool(state["approvals"]))
                [shown] = state["approvals"]
                assert (shown["id"], shown["askedAt"] // 1000) == (asked["id"], asked["timestamp"])
                await page.send({"type": "approve", "id": asked["id"], "decision": "once"})
                await page.until(lambda state: state["status"] == "idle" and not state["approvals"])
        assert await gone(process, signal.SIGTERM) == 0
    assert lines(tmp_path) == ["x"]


async def test_a_server_that_is_stopped_kills_the_command_and_goes_on_at_the_next_start(tmp_path: Path) -> None:
    async with (
        serve_process(tmp_path, SLOW, *NEVER) as (process, url),
        client(url) as http,
        events(http) as heard,
    ):
        await http.post("/prompt", json={"content": "go"})
        await heard.until("status", state="running_tool")
        with anyio.fail_after(60):
            while not lines(tmp_path):
                await anyio.sleep(0.02)
        assert await gone(process, signal.SIGTERM) == 0
    async with (
        serve_process(tmp_path, SLOW, *NEVER) as (process, url),
        client(url) as http,
        events(http, "/events?after=0") as heard,
    ):
        result = await heard.until("tool_result")
        assert result["result"].startswith("interrupted")
        notice = await heard.until("notice")
        assert notice["message"].startswith("Hames was restarted while this turn ran. The turn continues")
        ended = await heard.until("status", state="idle")
        assert ended["outcome"] == "completed"
    assert lines(tmp_path) == ["x"]


@pytest.mark.slow
async def test_looking_leaves_a_killed_turn_alone_and_run_goes_on_with_it(tmp_path: Path) -> None:
    async with (
        serve_process(tmp_path, SLOW, *NEVER) as (process, url),
        client(url) as http,
        events(http) as heard,
    ):
        await http.post("/prompt", json={"content": "go"})
        await heard.until("status", state="running_tool")
        with anyio.fail_after(60):
            while not lines(tmp_path):
                await anyio.sleep(0.02)
        await gone(process)
    [log] = (tmp_path / "work" / ".harness" / "threads").glob("ses_*/events.jsonl")
    before = log.read_bytes()
    for words in (("threads",), ("threads", "show", "last"), ("threads", "export", "last", "--format", "json")):
        assert hames(tmp_path, *words).returncode == 0, words
    assert log.read_bytes() == before
    assert hames(tmp_path, "threads", "rename", "last", "cut off").returncode == 0
    assert b"turn_ended" not in log.read_bytes()
    went_on = hames(tmp_path, "run", "--continue")
    assert went_on.returncode == 0, went_on.stderr
    assert "I see." in went_on.stdout
    assert "The turn continues: 1 tool call was cut off and may have run" in went_on.stderr
    assert log.read_bytes().count(b'"turn_started"') == log.read_bytes().count(b'"turn_ended"') == 1
    assert lines(tmp_path) == ["x"]
    nothing = hames(tmp_path, "run", "--continue")
    assert nothing.returncode == 2
    assert "the prompt is missing; no turn of this thread was cut off" in nothing.stderr


@pytest.mark.slow
def test_random_kills_over_four_protocols_lose_nothing_and_run_nothing_twice() -> None:
    kills = os.environ.get("HAMES_KILLS", "40")
    command = [sys.executable, str(ROOT / "scripts" / "prove_kills.py"), "--kills", kills, "--seed", "hames"]
    proved = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert proved.returncode == 0, proved.stdout + proved.stderr
