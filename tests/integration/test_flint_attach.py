"""`hames app-server --attach`: whoever can start a stdio server takes part in threads that live elsewhere."""

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import Process

from hames.client.appserver.client import AppServerClient, text_of
from hames.client.appserver.events import ItemDelta, TurnCompleted

HAMES = str(Path(sys.executable).parent / "hames")


@asynccontextmanager
async def server(folder: Path) -> AsyncGenerator[Process]:
    (folder / "ws").mkdir()
    (folder / "script.json").write_text(json.dumps(["Hello from the server."]))
    words = ["serve", "--port", "0", "--cwd", str(folder / "ws"), "--model", f"scripted/{folder / 'script.json'}"]
    process = await anyio.open_process([HAMES, *words], env=environment(folder))
    try:
        assert process.stdout
        with anyio.fail_after(60):
            while b"http://" not in await process.stdout.receive():
                pass
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.terminate()
            await process.aclose()


def environment(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "PATH": os.environ["PATH"]}


async def test_two_programs_share_a_live_thread_through_a_running_server(tmp_path: Path) -> None:
    attach = [HAMES, "app-server", "--attach", "--cwd", str(tmp_path / "ws")]
    own = environment(tmp_path)
    async with (
        server(tmp_path),
        AppServerClient.spawn(attach, env=own) as one,
        AppServerClient.spawn(attach, env=own) as two,
    ):
        thread = (await one.start_thread()).thread
        await two.resume_thread(thread.id)
        with two.events(thread.id) as events, anyio.fail_after(60):
            turn = await one.run(thread.id, "Greet me")
            heard = ""
            async for event in events:
                if isinstance(event, ItemDelta):
                    heard += event.text
                if isinstance(event, TurnCompleted):
                    break
    assert text_of(turn) == heard == "Hello from the server."


async def test_where_no_server_runs_the_program_says_so_and_ends(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        done = await anyio.run_process(
            [HAMES, "app-server", "--attach", "--cwd", str(tmp_path)], check=False, env=environment(tmp_path)
        )
    assert done.returncode == 2
    assert b"hames serve" in done.stderr
    assert done.stdout == b""
