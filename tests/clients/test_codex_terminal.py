"""Codex's own terminal, `codex --remote`, on the WebSocket of `hames serve`."""

import json
import os
import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from clients_table import note_all
from real_agent import HAMES, Agent

DRIVER = Path(__file__).parent / "drive_terminal.py"
CONFIG = """\
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
"""


@asynccontextmanager
async def listening(agent: Agent) -> AsyncGenerator[str]:
    """Our server, on a port of its own. Codex's terminal names no path."""
    process = await anyio.open_process([HAMES, "serve", "--port", "0", *agent.flags])
    try:
        assert process.stdout
        with anyio.fail_after(60):
            banner = b""
            while (found := re.search(rb"http://(127\.0\.0\.1:\d+)\s", banner)) is None:
                banner += await process.stdout.receive()
        yield f"ws://{found[1].decode()}"
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def drive(agent: Agent, python: str, steps: list[dict[str, str]], *command: str) -> str:
    home = agent.workspace.parent / "codex-home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(CONFIG)
    environment = {**os.environ, "CODEX_HOME": str(home), "TERM": "xterm-256color"}
    run = partial(
        subprocess.run,
        [python, str(DRIVER), json.dumps(steps), *command],
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
        cwd=agent.workspace,
        env=environment,
    )
    done = await to_thread.run_sync(run)
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    return done.stdout


async def test_the_terminal_talks_works_and_resumes(agent: Agent, node_modules: Path, client_python: str) -> None:
    codex = str(node_modules / ".bin" / "codex")
    async with listening(agent) as url:
        await drive(
            agent,
            client_python,
            [
                {"see": "Ask Codex to do anything"},
                {"type": "Greet me"},
                {"type": "\r"},
                {"see": "Hello from Hames."},
                {"type": "Make a file"},
                {"type": "\r"},
                {"see": "The file is there."},
            ],
            codex,
            "--sandbox",
            "workspace-write",
            "--remote",
            url,
        )
        assert agent.made

        await drive(
            agent,
            client_python,
            [
                {"see": "The file is there."},
                {"type": "Still there?"},
                {"type": "\r"},
                {"see": "Still here."},
            ],
            codex,
            "resume",
            "--last",
            "--remote",
            url,
        )
    note_all("@openai/codex", "text", "command, default policy", "resume")
