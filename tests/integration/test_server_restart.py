"""A server that is killed: whatever a client was told is there when the next one starts, and its turn goes on."""

import signal
from pathlib import Path

import anyio
import httpx2
import pytest

from server_support import EventReader, events, serve_process

SCRIPT = [
    [{"say": "One two three.", "pace_ms": 10}, {"call": "read", "with": {"path": "a.txt"}}],
    [{"say": "Four five six.", "pace_ms": 10}, {"call": "read", "with": {"path": "a.txt"}}],
    [{"say": "The end.", "pace_ms": 10}],
]


async def _heard(reader: EventReader, count: int) -> None:
    for _ in range(count):
        await reader.next()


@pytest.mark.parametrize("told", [2, 5, 8])
async def test_what_was_told_before_a_kill_is_kept_and_told_again(tmp_path: Path, told: int) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("hello")
    async with (
        serve_process(tmp_path, SCRIPT) as (process, url),
        httpx2.AsyncClient(base_url=url, trust_env=False) as client,
        events(client) as before,
    ):
        await client.post("/prompt", json={"content": "go"})
        await _heard(before, told)
        process.send_signal(signal.SIGKILL)
        with anyio.fail_after(60):
            await process.wait()
    async with (
        serve_process(tmp_path, SCRIPT) as (process, url),
        httpx2.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        async with events(client, "/events?after=0") as again:
            await again.until("status", state="idle")
        assert again.events[: len(before.events)] == before.events
        assert again.events[-1]["outcome"] == "completed"
        assert [e["type"] for e in again.events].count("user") == 1
        assert any(e["type"] == "notice" and e["name"] == "turn_continued" for e in again.events)
        async with events(client, **{"Last-Event-ID": before.last_id}) as behind:
            await behind.until("status", state="idle")
        assert before.events + behind.events == again.events
        assert (await client.post("/prompt", json={"content": "go on"})).status_code == 200
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            assert await process.wait() == 0
