"""Drives `hames acp` with the Python SDK of ACP as it is: COMMAND WORKSPACE PICTURE MCP, the first and last as JSON.

Prints what the SDK handed over, as JSON, a member for each thing that was tried.
"""

import asyncio
import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import acp
from acp import schema

SECONDS = 60


class Editor(acp.Client):
    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.decision = "allow_once"
        self.on_tool: Any = None

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **_: Any) -> Any:
        self.asked.append(tool_call.model_dump(mode="json"))
        chosen = next(one for one in options if one.kind == self.decision)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        if update.session_update == "tool_call" and self.on_tool is not None:
            work, self.on_tool = self.on_tool, None
            await work()

    def said(self) -> dict[str, Any]:
        def words(kind: str) -> str:
            return "".join(getattr(one.content, "text", "") for one in self.updates if one.session_update == kind)

        def of(kind: str) -> list[Any]:
            return [one for one in self.updates if one.session_update == kind]

        calls = [one.model_dump(mode="json") for one in (*of("tool_call"), *of("tool_call_update"))]
        return {
            "text": words("agent_message_chunk"),
            "reasoning": words("agent_thought_chunk"),
            "user": words("user_message_chunk"),
            "calls": calls,
            "plan": [entry.content for one in of("plan")[-1:] for entry in one.entries],
            "usage": [one.used for one in of("usage_update")],
        }


async def main() -> None:
    command, workspace, picture, mcp = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
    told: dict[str, Any] = {}
    editor = Editor()

    def started() -> Any:
        return acp.spawn_agent_process(editor, *command, env=dict(os.environ), cwd=workspace)

    async def prompt(connection: Any, session: str, text: str, *blocks: Any) -> dict[str, Any]:
        editor.updates = []
        answer = await connection.prompt(session_id=session, prompt=[acp.text_block(text), *blocks])
        return {**editor.said(), "stop": answer.stop_reason}

    async with started() as (connection, _process):
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        opened = await connection.new_session(cwd=workspace, mcp_servers=[])
        told["models"] = opened.model_dump(mode="json")
        session = opened.session_id
        for name, text in (
            ("text", "Greet me"),
            ("command", "Make a file"),
            ("file", "Write a note"),
            ("read", "Read the note"),
            ("plan", "Plan"),
        ):
            told[name] = await prompt(connection, session, text)
        editor.asked = []
        for decision, text in (
            ("reject_once", "Ask and be declined"),
            ("allow_once", "Ask and be approved"),
            ("allow_always", "Ask for the session"),
            ("reject_once", "Ask for the session"),
        ):
            editor.decision = decision
            told[text] = await prompt(connection, session, text)
        told["asked"], editor.decision = list(editor.asked), "allow_once"
        data = base64.b64encode(Path(picture).read_bytes()).decode()
        told["image"] = await prompt(connection, session, "Look", acp.image_block(data, "image/png"))

        async def cancel() -> None:
            await connection.cancel(session_id=session)

        editor.on_tool = cancel
        told["interrupt"] = await prompt(connection, session, "Wait")
        server = schema.McpServerStdio(name="test", command=mcp[0], args=mcp[1:], env=[])
        other = await connection.new_session(cwd=workspace, mcp_servers=[server])
        told["mcp"] = await prompt(connection, other.session_id, "Add them")
        told["list"] = (await connection.list_sessions()).model_dump(mode="json")
        await connection.close_session(session_id=session)

    async with started() as (connection, _process):
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        editor.updates = []
        await connection.load_session(cwd=workspace, session_id=session, mcp_servers=[])
        told["replayed"] = editor.said()
        told["resume"] = await prompt(connection, session, "Still there?")
    print(json.dumps(told))


asyncio.run(asyncio.wait_for(main(), 8 * SECONDS))
