"""`/v1`, `/agui` and MCP: whatever a body is, it is answered in words or becomes a command, and nothing crashes."""

import json
import random
from typing import Any

import pytest
from mutations import spoiled
from test_peer_fuzz import CHUNK, answers, readable, seeds

from hames.domain.ids import ThreadId
from hames.domain.state import blank
from hames.protocols.agui.inbound import waiting_keys as agui_keys
from hames.protocols.agui.session import AguiSession
from hames.protocols.mcp.session import McpServerSession
from hames.protocols.openai.chat import ChatSession
from hames.protocols.openai.inbound import waiting_keys as v1_keys
from hames.protocols.openai.responses import ResponsesSession
from hames.protocols.run_session import KnownThreads, RunSession
from hames.protocols.session import Crashed
from hames.testing.checks.session import receive

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 1}
CALL = {"id": "c", "type": "function", "function": {"name": "one", "arguments": "{}"}}
FUNCTION = {"type": "function", "name": "one", "parameters": {"type": "object"}}
BODIES: dict[type[RunSession], list[Any]] = {
    ChatSession: [
        {"model": "hames", "messages": [{"role": "user", "content": "go"}], "stream": True, "temperature": 1},
        {
            "messages": [
                {"role": "system", "content": "Be."},
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}],
                },
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "x"}]},
            ],
            "tools": [{"type": "function", "function": {"name": "one"}}],
            "tool_choice": {"type": "function", "function": {"name": "one"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        },
    ],
    ResponsesSession: [
        {"input": "go", "previous_response_id": "resp_ses_1.turn_1.0", "text": {"format": {"type": "json_object"}}},
        {
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
                {"type": "item_reference", "id": "msg_ses_1.item_1"},
                {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
                {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True, "reason": "r"},
            ],
            "tools": [
                FUNCTION,
                {"type": "namespace", "name": "n", "tools": [FUNCTION]},
                {"type": "custom", "name": "c"},
            ],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "one"}]},
            "reasoning": {"effort": "low"},
            "background": True,
        },
    ],
    AguiSession: [
        {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "go"}], "state": {}},
        {
            "threadId": "t",
            "runId": "r",
            "messages": [{"id": "m", "role": "tool", "toolCallId": "c", "content": "x", "error": "e"}],
            "tools": [{"name": "one", "description": "d", "parameters": {}}],
            "context": [{"description": "d", "value": "v"}],
            "resume": [{"interruptId": "i", "status": "resolved", "payload": {"decision": "once", "note": "n"}}],
        },
    ],
}
MESSAGES = [
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hames", "arguments": {"prompt": "go"}}},
    {
        "jsonrpc": "2.0",
        "id": "a",
        "method": "tools/call",
        "params": {
            "name": "hames-answer",
            "arguments": {"threadId": "t", "approvalId": "a", "decision": "once", "wait-seconds": 1},
            "requestState": "ses_1 turn_1",
            "inputResponses": {"a": {"action": "accept", "content": {"decision": "once"}}},
            "_meta": META,
        },
    },
    {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "hames://threads/ses_1", "_meta": META}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
    {
        "jsonrpc": "2.0",
        "id": 3,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}},
    },
]


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("seed", seeds())
def test_a_run_is_refused_in_words_or_becomes_a_command(seed: int, kind: type[RunSession]) -> None:
    dice = random.Random(seed)
    good = [json.dumps(body).encode() for body in BODIES[kind]]
    for _ in range(CHUNK // 8):
        body = spoiled(dice, good)
        session = kind(KnownThreads())
        actions, out = receive(session, body)
        assert not any(isinstance(action, Crashed) for action in actions), body
        assert bool(actions) != bool(out), body
        if out and session.media == "application/json":
            assert json.loads(out)["error"]["message"], body
            assert session.status in (400, 404), body
        for keys in (v1_keys("chat", body), v1_keys("responses", body), agui_keys(body)):
            assert all(isinstance(key, str) for key in keys)


@pytest.mark.parametrize("seed", seeds())
def test_a_session_of_mcp_answers_or_acts_and_never_crashes(seed: int) -> None:
    dice = random.Random(seed)
    good = [json.dumps(one).encode() for one in MESSAGES]
    session = McpServerSession(blank(ThreadId("t")).settings)
    receive(session, good[-1])
    for _ in range(CHUNK // 8):
        line = spoiled(dice, good).replace(b"\n", b" ")
        actions, out = receive(session, line)
        assert not any(isinstance(action, Crashed) for action in actions), line
        answers(out)
        is_json, ids = readable(line)
        assert out or actions or not is_json or not ids, line
