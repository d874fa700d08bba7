"""codex-acp, the bridge that brings Codex into ACP editors, brings us there, too."""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from client_support import MCP, PIXEL, Place, place
from clients_table import common, settle

from hames.codecs.lines import LineDecoder

SECONDS = 60


class Editor:
    """The least an ACP client can be: it decides what it is asked as `decision` says."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._decoder = LineDecoder()
        self._lines: list[Any] = []
        self._last_id = 0
        self.updates: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.decision = "allow_once"
        self.on_tool_call: Callable[[], Awaitable[None]] | None = None
        """Called once, when a tool is called."""

    async def call(self, method: str, **params: Any) -> Any:
        self._last_id += 1
        number = self._last_id
        await self.send(id=number, method=method, params=params)
        with anyio.fail_after(SECONDS):
            while True:
                message = await self._receive()
                if message.get("id") == number and "method" not in message:
                    assert "error" not in message, message
                    return message["result"]
                await self._hear(message)

    async def prompt(self, session: str, *blocks: dict[str, str] | str) -> dict[str, Any]:
        """One turn: what it said, what it showed and how it ended."""
        self.updates.clear()
        sent = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        ended = await self.call("session/prompt", sessionId=session, prompt=sent)
        return {**self.said(), "stop": ended["stopReason"]}

    async def session(self, place: Place, **params: Any) -> str:
        opened = await self.call("session/new", cwd=str(place.workspace), **{"mcpServers": [], **params})
        return opened["sessionId"]

    async def _hear(self, message: dict[str, Any]) -> None:
        if "id" in message and message.get("method") == "session/request_permission":
            self.asked.append(message["params"])
            chosen = next(option for option in message["params"]["options"] if option["kind"] == self.decision)
            outcome = {"outcome": "selected", "optionId": chosen["optionId"]}
            await self.send(id=message["id"], result={"outcome": outcome})
        elif "method" in message and "id" not in message:
            self.updates.append(message["params"].get("update", {}))
            if self.updates[-1].get("sessionUpdate") == "tool_call" and self.on_tool_call is not None:
                hook, self.on_tool_call = self.on_tool_call, None
                await hook()
        else:
            # An answer to a request that was made while another one waits: `_session/steering`.
            assert "method" not in message, message
            assert "error" not in message, message

    async def send(self, **message: Any) -> None:
        assert self._process.stdin
        await self._process.stdin.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _receive(self) -> dict[str, Any]:
        assert self._process.stdout
        while not self._lines:
            self._lines += self._decoder.feed(await self._process.stdout.receive())
        return json.loads(self._lines.pop(0))

    def said(self) -> dict[str, Any]:
        """What there is to see since the last prompt."""

        def chunks(kind: str) -> str:
            return "".join(one["content"]["text"] for one in self.updates if one.get("sessionUpdate") == kind)

        def of(kind: str) -> list[dict[str, Any]]:
            return [one for one in self.updates if one.get("sessionUpdate") == kind]

        return {
            "text": chunks("agent_message_chunk"),
            "reasoning": chunks("agent_thought_chunk"),
            "calls": of("tool_call"),
            "call_updates": of("tool_call_update"),
            "plan": [entry["content"] for one in of("plan")[-1:] for entry in one["entries"]],
            "usage": [one.get("used", 0) for one in of("usage_update")],
        }


@asynccontextmanager
async def editor(place: Place, node_modules: Path) -> AsyncGenerator[Editor]:
    program = node_modules / "@agentclientprotocol" / "codex-acp" / "dist" / "index.js"
    environment = {**os.environ, "CODEX_PATH": place.codex, "NO_BROWSER": "1"}
    process = await anyio.open_process(["node", str(program)], env=environment, cwd=place.workspace)
    try:
        editor = Editor(process)
        await editor.call("initialize", protocolVersion=1, clientCapabilities={})
        yield editor
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def test_an_acp_editor_works_with_the_defaults_of_codex_acp(node_modules: Path, tmp_path: Path) -> None:
    told: dict[str, Any] = {}
    async with place(tmp_path) as here:
        async with editor(here, node_modules) as acp:
            opened = await acp.call("session/new", cwd=str(here.workspace), mcpServers=[])
            session = opened["sessionId"]
            told["models"] = opened
            for name, prompt in (
                ("text", "Greet me"),
                ("command", "Make a file"),
                ("file", "Write a note"),
                ("read", "Read the note"),
                ("plan", "Plan"),
            ):
                told[name] = await acp.prompt(session, prompt)
            assert acp.asked == []  # its default is on-request: what stays in the sandbox needs no question
            for decision, prompt in (
                ("reject_once", "Ask and be declined"),
                ("allow_once", "Ask and be approved"),
                ("allow_always", "Ask for the session"),
                ("reject_once", "Ask for the session"),
            ):
                acp.decision = decision
                told[prompt] = await acp.prompt(session, prompt)
            told["asked"] = list(acp.asked)
            image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
            told["image"] = await acp.prompt(session, "Look", image)

            async def steer() -> None:
                text = [{"type": "text", "text": "Also sing"}]
                await acp.send(id="steer", method="_session/steering", params={"sessionId": session, "prompt": text})

            acp.on_tool_call = steer
            told["steer"] = await acp.prompt(session, "Take your time")

            async def cancel() -> None:
                await acp.send(method="session/cancel", params={"sessionId": session})

            acp.on_tool_call = cancel
            told["interrupt"] = await acp.prompt(session, "Wait")
            append = {"mode": "append", "content": [{"type": "text", "text": "You are a lighthouse."}]}
            other = await acp.session(here, systemPrompt=append)
            told["instructions"] = await acp.prompt(other, "Greet me")
            program, *args = json.loads(MCP)
            acp.decision = "allow_once"
            other = await acp.session(here, mcpServers=[{"name": "test", "command": program, "args": args, "env": []}])
            told["mcp"] = await acp.prompt(other, "Add them")

        async with editor(here, node_modules) as acp:
            await acp.call("session/load", sessionId=session, cwd=str(here.workspace), mcpServers=[])
            told["replayed"] = acp.said()
            told["resume"] = await acp.prompt(session, "Still there?")

        diffs = [
            one["content"] for one in (*told["file"]["calls"], *told["file"]["call_updates"]) if one.get("content")
        ]
        works = {
            **common(told, here),
            "reasoning": told["text"]["reasoning"] == "A greeting is in order.",
            "approve, decline, for the session": len(told["asked"]) == 3 and here.decided,
            "plan": told["plan"]["plan"] == ["Begin", "End"],
            "usage": any(told["text"]["usage"]),
            "interrupt": told["interrupt"]["stop"] == "cancelled",
            "resume": told["resume"]["text"] == "Still here." and "The file is there." in told["replayed"]["text"],
            "steer": told["steer"]["text"] == "I sang." and here.asked("Take your time", "Also sing"),
            "model list": "anthropic/claude-sonnet-5-5" in json.dumps(told["models"]),
        }
        works["file change"] &= "a note" in json.dumps(diffs)
        works["read and list"] &= len(told["read"]["calls"]) == 2
    settle("@agentclientprotocol/codex-acp", works, told)
