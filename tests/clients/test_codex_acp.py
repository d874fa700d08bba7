"""codex-acp, the bridge that brings Codex into ACP editors, brings us there, too."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from clients_table import note_all
from real_agent import Agent

from hames.codecs.lines import LineDecoder

SECONDS = 60


class Editor:
    """The least an ACP client can be: it grants every permission it is asked for."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._decoder = LineDecoder()
        self._lines: list[Any] = []
        self._last_id = 0
        self.told: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []

    async def call(self, method: str, **params: Any) -> Any:
        self._last_id += 1
        number = self._last_id
        await self._send({"id": number, "method": method, "params": params})
        with anyio.fail_after(SECONDS):
            while True:
                message = await self._receive()
                if message.get("id") == number and "method" not in message:
                    assert "error" not in message, message
                    return message["result"]
                await self._hear(message)

    async def _hear(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            self.told.append(message["params"])
            return
        assert message["method"] == "session/request_permission", message
        self.asked.append(message["params"])
        chosen = next(option for option in message["params"]["options"] if option["kind"] == "allow_once")
        outcome = {"outcome": "selected", "optionId": chosen["optionId"]}
        await self._send({"id": message["id"], "result": {"outcome": outcome}})

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        await self._process.stdin.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _receive(self) -> dict[str, Any]:
        assert self._process.stdout
        while not self._lines:
            self._lines += self._decoder.feed(await self._process.stdout.receive())
        return json.loads(self._lines.pop(0))

    def said(self) -> str:
        """The agent's words since this was last asked."""
        updates = [told["update"] for told in self.told if "update" in told]
        self.told.clear()
        return "".join(
            update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"
        )


@asynccontextmanager
async def editor(agent: Agent, node_modules: Path) -> AsyncGenerator[Editor]:
    program = node_modules / "@agentclientprotocol" / "codex-acp" / "dist" / "index.js"
    environment = {**os.environ, "CODEX_PATH": agent.command, "NO_BROWSER": "1"}
    process = await anyio.open_process(["node", str(program)], env=environment, cwd=agent.workspace)
    try:
        editor = Editor(process)
        await editor.call("initialize", protocolVersion=1, clientCapabilities={})
        yield editor
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.aclose()


def prompt(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


async def test_an_acp_editor_talks_approves_and_resumes(agent: Agent, node_modules: Path) -> None:
    cwd = str(agent.workspace)
    async with editor(agent, node_modules) as acp:
        session = (await acp.call("session/new", cwd=cwd, mcpServers=[]))["sessionId"]
        ended = await acp.call("session/prompt", sessionId=session, prompt=prompt("Greet me"))
        assert ended["stopReason"] == "end_turn"
        assert acp.said() == "Hello from Hames."

        await acp.call("session/prompt", sessionId=session, prompt=prompt("Make a file"))
        assert acp.asked == []  # its default is on-request: what stays in the sandbox needs no question
        assert agent.made
        assert acp.said() == "The file is there."

    async with editor(agent, node_modules) as acp:
        await acp.call("session/load", sessionId=session, cwd=cwd, mcpServers=[])
        replayed = acp.said()
        assert "Hello from Hames." in replayed
        assert "The file is there." in replayed
        await acp.call("session/prompt", sessionId=session, prompt=prompt("Still there?"))
        assert acp.said() == "Still here."
    note_all("@agentclientprotocol/codex-acp", "text", "command, default policy", "resume")
