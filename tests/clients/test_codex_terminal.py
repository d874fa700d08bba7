"""Codex's own terminal, `codex --remote`, over a WebSocket that carries one message in each text frame."""

import json
import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from real_agent import Agent
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

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
    """A frame is a line: between the two there is nothing to translate."""

    async def bridge(client: ServerConnection) -> None:
        async with await anyio.open_process([agent.command]) as process, anyio.create_task_group() as tasks:
            tasks.start_soon(_down, client, process.stdout)
            try:
                async for frame in client:
                    await process.stdin.send(frame.encode() + b"\n")
            except ConnectionClosed:
                pass
            await process.stdin.aclose()
            await process.wait()
            tasks.cancel_scope.cancel()

    async with serve(bridge, "127.0.0.1", 0, max_size=None) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _down(client: ServerConnection, output: anyio.abc.ByteReceiveStream) -> None:
    rest = b""
    async for chunk in output:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            await client.send(line.decode())


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


async def test_the_terminal_talks_approves_and_resumes(agent: Agent, node_modules: Path, client_python: str) -> None:
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
                {"see": "Would you like to run the following command?"},
                {"see": "$ touch made-by-agent"},
                {"type": "y"},
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
