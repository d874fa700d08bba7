"""`/v1`, `/agui` and MCP message by message, without an engine: each member of a request reaches a command, is named as
ignored, or is refused in words. Official types read every answer."""

import json
from typing import Any

import mcp_types
import pytest
from mcp_types import jsonrpc_message_adapter
from openai.types.shared import ErrorObject

from hames.domain.commands import (
    CreateThread,
    InterruptTurn,
    ListThreads,
    ReadThread,
)
from hames.domain.ids import ThreadId
from hames.domain.state import blank
from hames.protocols.agui.session import AguiSession
from hames.protocols.mcp.session import McpServerSession
from hames.protocols.openai.chat import ChatSession
from hames.protocols.openai.responses import ResponsesSession
from hames.protocols.run_session import KnownThreads, Run, RunSession
from hames.protocols.session import Action, Crashed, Execute, Follow
from hames.testing.checks.session import receive

PIXEL = "data:image/png;base64,AA=="
GO = {"role": "user", "content": "go"}
ONE, TWO = {"name": "one", "parameters": {"type": "object"}}, {"name": "two"}
CHAT_ONE, CHAT_TWO = ({"type": "function", "function": one} for one in (ONE, TWO))
ITEM_ONE, ITEM_TWO = ({"type": "function", **one} for one in (ONE, TWO))
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def said(*content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}]}


def chat(**more: Any) -> dict[str, Any]:
    return {"messages": [GO], **more}


def response(**more: Any) -> dict[str, Any]:
    return {"input": "go", **more}


# What is refused: the body, and words of the sentence that the client reads.
CHAT_REFUSED: list[tuple[Any, str]] = [
    (b"", "messages"),
    (b"{", "the body"),
    (b"[]", "object"),
    (b"\xff", "the body"),
    (b'{"messages": [], "messages": []}', "the body"),
    ({}, "messages"),
    ({"messages": "go"}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": [7]}, "role"),
    ({"messages": [{"role": "king", "content": "x"}]}, "role"),
    ({"messages": [{"role": "user", "content": ""}]}, "empty"),
    ({"messages": [{"role": "user", "content": 5}]}, "string or a list"),
    ({"messages": [{"role": "user"}]}, "string or a list"),
    ({"messages": [GO, {"role": "assistant", "content": "x"}]}, "empty"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "role"),
    ({"messages": [{"role": "system", "content": [{"type": "image_url"}]}, GO]}, "only text"),
    (said({"type": "input_audio", "input_audio": {}}), "audio"),
    (said({"type": "file", "file": {"file_id": "f"}}), "files"),
    (said({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}), "data: or https:"),
    (said({"type": "image_url"}), "must be text or an image"),
    (chat(n=2), "n: only 1"),
    (chat(logprobs=True), "logprobs: only false"),
    (chat(top_logprobs=3), "top_logprobs: only 0"),
    (chat(modalities=["audio"]), "modalities"),
    (chat(audio={"voice": "x"}), "'audio' is not supported"),
    (chat(functions=[]), "'functions' is not supported"),
    (chat(web_search_options={}), "'web_search_options' is not supported"),
    (chat(surprise=1), "'surprise' is not supported"),
    (chat(stream="yes"), "stream: must be true or false"),
    (chat(model=7), "model: must be a string"),
    (chat(reasoning_effort=7), "effort"),
    (chat(response_format={"type": "xml"}), "response_format"),
    (chat(response_format={"type": "json_schema"}), "response_format"),
    (chat(tools={}), "tools: must be a list"),
    (chat(tools=[7]), "tools[0]"),
    (chat(tools=[{"type": "function"}]), "tools[0]"),
    (chat(tools=[ITEM_ONE]), "tools[0]"),
    (chat(tools=[CHAT_ONE, CHAT_ONE]), "same name"),
    (chat(tools=[CHAT_ONE] * 129), "at most 128"),
    (chat(tool_choice="required"), "tool_choice"),
    (chat(tool_choice="sometimes", tools=[CHAT_ONE]), "tool_choice"),
    (chat(tool_choice={"type": "function", "function": {"name": "no"}}, tools=[CHAT_ONE]), "tool_choice"),
    ({"messages": [GO, {"role": "assistant", "tool_calls": [{"id": "x"}]}, GO]}, "tool_calls"),
]
RESPONSES_REFUSED: list[tuple[Any, str]] = [
    (b"nonsense", "the body"),
    ({}, "input"),
    (response(input=[]), "input"),
    (response(input=""), "empty"),
    (response(input=[7]), "not supported"),
    (response(input=[{"type": "computer_call_output"}]), "'computer_call_output' is not supported"),
    (response(input=[{"type": "item_reference"}]), "not supported"),
    (response(input=[{"type": "item_reference", "id": "x"}, GO]), "no item 'x'"),
    (response(input=[{"type": "function_call", "call_id": "c"}]), "not supported"),
    (response(input=[{"role": "user", "content": [{"type": "input_file"}]}]), "files"),
    (response(input=[{"role": "user", "content": [{"type": "input_image", "file_id": "x"}]}]), "image"),
    (response(input=[{"type": "function_call_output", "call_id": "c", "output": 7}]), "string or a list"),
    (response(instructions=7), "instructions"),
    (response(previous_response_id=7), "previous_response_id"),
    (response(previous_response_id="nonsense"), "no response"),
    (response(previous_response_id="resp_.."), "no response"),
    (response(background=True, store=False), "background"),
    (response(background=1), "background"),
    (response(conversation="c"), "'conversation' is not supported"),
    (response(prompt={"id": "p"}), "'prompt' is not supported"),
    (response(top_logprobs=1), "top_logprobs"),
    (response(text={"format": {"type": "grammar"}}), "text.format"),
    (response(reasoning={"effort": 7}), "effort"),
    (response(tools=[{"type": "file_search"}]), "tools[0]"),
    (response(tools=[{"type": "code_interpreter"}]), "tools[0]"),
    (response(tools=[{"type": "mcp", "server_url": "https://x"}]), "tools[0]"),
    (response(tools=[{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}]), "tools[0]"),
    (response(tools=[CHAT_ONE]), "tools[0]"),
    (response(tool_choice={"type": "file_search"}, tools=[ITEM_ONE]), "tool_choice"),
    (response(tool_choice={"type": "function", "name": "two"}, tools=[ITEM_ONE]), "tool_choice"),
    (response(n=2), "'n' is not supported"),
]
# What starts a thread: the body, and what is then true of the run.
CHAT_STARTS: list[tuple[dict[str, Any], str]] = [
    (chat(), "run.content[0].text == 'go'"),
    (chat(model="hames"), "run.overrides.model is None"),
    (chat(model="a/b"), "run.overrides.model == 'a/b'"),
    (chat(reasoning_effort="low"), "run.overrides.options == {'reasoning_effort': 'low'}"),
    (chat(tools=[CHAT_ONE, CHAT_TWO]), "[one.name for one in run.overrides.client_tools] == ['one', 'two']"),
    (chat(tools=[CHAT_ONE], tool_choice="none"), "run.overrides.client_tools == ()"),
    (chat(tools=[CHAT_ONE], tool_choice="required"), "run.output_schema == {'type': 'object'}"),
    (chat(tools=[CHAT_ONE, CHAT_TWO], tool_choice="required"), "'one, two' in run.overrides.instructions"),
    (chat(response_format={"type": "text"}), "not isinstance(run.output_schema, dict)"),
    (chat(response_format={"type": "json_object"}), "run.output_schema == {'type': 'object'}"),
    (
        chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}),
        f"run.output_schema == {SCHEMA!r}",
    ),
    ({"messages": [{"role": "system", "content": "Be."}, GO]}, "run.overrides.instructions == 'Be.'"),
    ({"messages": [{"role": "developer", "content": "Be."}, GO]}, "run.overrides.instructions == 'Be.'"),
    ({"messages": [GO, GO]}, "len(run.content) == 2"),
    (said({"type": "text", "text": "a"}, {"type": "text", "text": "b"}), "len(run.content) == 2"),
    (said({"type": "image_url", "image_url": {"url": PIXEL}}), f"run.content[0].url == {PIXEL!r}"),
    (chat(n=1, logprobs=False, modalities=["text"], stop=None), "True"),
]
IGNORED = {
    "temperature": 1,
    "top_p": 1,
    "seed": 7,
    "stop": ["x"],
    "max_tokens": 5,
    "max_completion_tokens": 5,
    "logit_bias": {},
    "presence_penalty": 1,
    "user": "u",
    "service_tier": "auto",
    "parallel_tool_calls": False,
    "prompt_cache_key": "k",
}


def opened(kind: type[RunSession], body: Any) -> tuple[RunSession, list[Action], bytes]:
    session = kind(KnownThreads())
    actions, out = receive(session, body if isinstance(body, bytes) else json.dumps(body).encode())
    assert not any(isinstance(action, Crashed) for action in actions), actions
    return session, actions, out


def shown(row: Any) -> str:
    return row.decode(errors="replace")[:60] if isinstance(row, bytes) else json.dumps(row)[:60]


REFUSED = [
    *((ChatSession, *row) for row in CHAT_REFUSED),
    *((ResponsesSession, *row) for row in RESPONSES_REFUSED),
]


@pytest.mark.parametrize(
    ("kind", "body", "words"), REFUSED, ids=[f"{kind.__name__} {shown(body)}" for kind, body, _ in REFUSED]
)
def test_what_v1_does_not_support_is_refused_in_words(kind: type[RunSession], body: Any, words: str) -> None:
    session, actions, out = opened(kind, body)
    assert not actions
    assert session.status in (400, 404)
    assert not session.has_open_request
    error = ErrorObject.model_validate(json.loads(out)["error"])
    assert words in error.message


@pytest.mark.parametrize(("body", "true"), CHAT_STARTS, ids=[shown(row[0]) for row in CHAT_STARTS])
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_chat_says_reaches_its_run(body: dict[str, Any], true: str, stream: bool) -> None:
    _, actions, out = opened(ChatSession, {**body, "stream": stream})
    assert out == b""
    (action,) = actions
    assert isinstance(action, Execute)
    assert isinstance(action.command, CreateThread)
    assert isinstance(action.context, Run)
    assert eval(true, {"run": action.context}), action.context


@pytest.mark.parametrize("name", IGNORED)
@pytest.mark.parametrize("kind", [ChatSession, ResponsesSession])
def test_what_is_ignored_is_named(name: str, kind: type[RunSession]) -> None:
    body = {**(chat() if kind is ChatSession else response()), name: IGNORED[name]}
    session, actions, _ = opened(kind, body)
    assert actions
    assert session.headers["X-Hames-Ignored"] == name
    session, _, _ = opened(kind, {**body, name: None})
    assert "X-Hames-Ignored" not in session.headers


RESPONSES_ACT: list[tuple[dict[str, Any], type]] = [
    (response(), CreateThread),
    (response(input=[GO]), CreateThread),
    (response(previous_response_id="resp_ses_1.turn_1.0"), ReadThread),
    (response(input=[{"type": "item_reference", "id": "msg_ses_1.item_1"}, GO]), ReadThread),
    (response(input=[GO, {"role": "assistant", "content": "yes"}, GO]), ListThreads),
    (response(input=[GO, {"type": "reasoning", "summary": []}]), CreateThread),
    (response(tools=[{"type": "custom", "name": "c"}, {"type": "web_search"}]), CreateThread),
    (response(store=False, metadata={"a": "b"}, include=["x"], client_metadata={}), CreateThread),
]


@pytest.mark.parametrize(("body", "command"), RESPONSES_ACT, ids=[shown(row[0]) for row in RESPONSES_ACT])
def test_what_a_response_is_about(body: dict[str, Any], command: type) -> None:
    _, (action,), _ = opened(ResponsesSession, body)
    assert isinstance(action, Execute)
    assert isinstance(action.command, command)


# -- AG-UI


def run(**more: Any) -> dict[str, Any]:
    return {"threadId": "t", "runId": "r", "messages": [{"id": "m", **GO}], **more}


def parts(*content: Any) -> dict[str, Any]:
    return run(messages=[{"id": "m", "role": "user", "content": list(content)}])


AGUI_REFUSED: list[tuple[Any, str]] = [
    (b"", "the body"),
    (b"{", "the body"),
    (b"null", "the body"),
    ({}, "the body"),
    (run(threadId=""), "threadId"),
    (run(threadId="x" * 201), "threadId"),
    (run(runId=""), "runId"),
    (run(threadId=7), "threadId"),
    (run(messages={}), "messages"),
    (run(messages=[7]), "messages"),
    (run(messages=[{"id": "m", "role": "user", "content": 7}]), "content"),
    (run(messages=[{"id": "m", "role": "user"}]), "content"),
    (run(messages=[{"id": "m", "role": "tool", "content": "x"}]), "toolCallId"),
    (run(tools=[{"description": "d"}]), "name"),
    (run(tools=[{"name": "a"}, {"name": "a"}]), "a name of its own"),
    (run(tools=[{"name": f"t{number}"} for number in range(129)]), "at most 128"),
    (run(context=[{"value": "x"}]), "description"),
    (run(resume=[{"status": "resolved"}]), "interruptId"),
    (run(resume="x"), "resume"),
    (parts({"type": "audio"}), "'audio'"),
    (parts({"type": "document", "source": {}}), "'document'"),
    (parts({"type": "image", "source": {"type": "url", "value": "file:///x"}}), "data: or https:"),
    (parts({"type": "binary", "mimeType": "application/pdf", "data": "x"}), "'binary'"),
    (parts(7), "not supported"),
]
AGUI_READS: list[dict[str, Any]] = [
    run(),
    run(state={"a": 1}),
    run(state=None, forwardedProps={"x": 1}, parentRunId="p", protocolVersion="1.0", unknown="member"),
    run(tools=[], context=[], resume=[]),
    run(tools=[{"name": "greet", "description": "d", "parameters": {"type": "object"}}]),
    run(context=[{"description": "where", "value": "here"}]),
    run(messages=[]),
    run(messages=[{"id": "s", "role": "system", "content": "Be."}, {"id": "m", **GO}]),
    run(messages=[{"id": "d", "role": "developer", "content": "Be."}, {"id": "m", **GO}]),
    run(messages=[{"id": "a", "role": "activity", "content": {}}, {"id": "m", **GO}]),
    run(messages=[{"id": "a", "role": "reasoning", "content": "hm"}, {"id": "m", **GO}]),
    run(messages=[{"id": "m", **GO}, {"id": "a", "role": "assistant", "content": "yes"}, {"id": "n", **GO}]),
    run(resume=[{"interruptId": "i", "status": "resolved", "payload": {"decision": "once"}}]),
    run(resume=[{"interruptId": "i", "status": "cancelled"}]),
    parts({"type": "text", "text": "a"}),
    parts({"type": "image", "source": {"type": "data", "value": "AA==", "mimeType": "image/png"}}),
    parts({"type": "binary", "mimeType": "image/png", "data": "AA=="}),
]


@pytest.mark.parametrize(("body", "words"), AGUI_REFUSED, ids=[shown(row[0]) for row in AGUI_REFUSED])
def test_a_run_that_cannot_be_read_is_refused_in_words(body: Any, words: str) -> None:
    session, actions, out = opened(AguiSession, body)
    assert not actions
    assert session.status == 400
    assert words in json.loads(out)["error"]["message"]


@pytest.mark.parametrize("body", AGUI_READS, ids=[shown(row) for row in AGUI_READS])
def test_a_run_looks_for_its_thread(body: dict[str, Any]) -> None:
    _, (action,), out = opened(AguiSession, body)
    assert isinstance(action, Execute)
    assert action.command == ReadThread(thread_id=ThreadId("t"))
    assert out == b""


# -- MCP, both eras

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
ERAS = ("2025-11-25", "2026-07-28")


def tool(name: Any, arguments: Any = None, **more: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, **({} if arguments is None else {"arguments": arguments}), **more}


URI = {"uri": "hames://threads/ses_1"}
MCP_ANSWERS: list[tuple[str, Any, str]] = [
    ("ping", {}, ""),
    ("tools/list", {}, "hames-reply"),
    ("resources/templates/list", {}, "uriTemplate"),
    ("resources/unsubscribe", URI, ""),
    ("server/discover", {}, "supportedVersions"),
    (*tool("hames", {}), "prompt"),
    (*tool("hames", {"prompt": " "}), "empty"),
    (*tool("hames", {"prompt": 7}), "prompt"),
    (*tool("hames", {"prompt": "go", "surprise": 1}), "surprise"),
    (*tool("hames", {"prompt": "go", "sandbox": "danger-full-access"}), "where the server is started"),
    (*tool("hames", {"prompt": "go", "sandbox": "none"}), "sandbox"),
    (*tool("hames", {"prompt": "go", "approval-policy": "often"}), "approval-policy"),
    (*tool("hames", {"prompt": "go", "wait-seconds": -1}), "wait-seconds"),
    (*tool("hames", {"prompt": "go", "output-schema": "x"}), "output-schema"),
    (*tool("hames-reply", {"prompt": "go"}), "threadId is missing"),
    (*tool("hames-status", {}), "threadId"),
    (*tool("hames-answer", {"threadId": "t", "approvalId": "a", "decision": "maybe"}), "decision"),
    (*tool("hames-threads", {"limit": 0}), "limit"),
    (*tool("hames-threads", {"limit": "x"}), "limit"),
    (*tool("hames", {"prompt": "go"}, requestState=7), "requestState"),
]
MCP_ERRORS: list[tuple[str, Any, int]] = [
    ("no/such", {}, -32601),
    ("prompts/list", {}, -32601),
    ("completion/complete", {}, -32601),
    (*tool("rm"), -32602),
    (*tool(7), -32602),
    ("tools/call", {}, -32602),
    ("resources/read", {"uri": "file:///etc/passwd"}, -32602),
    ("resources/read", {}, -32602),
    ("resources/subscribe", {"uri": 7}, -32602),
]
MCP_ACTS: list[tuple[str, Any, type]] = [
    (*tool("hames", {"prompt": "go"}), CreateThread),
    (*tool("hames", {"prompt": "go", "sandbox": "read-only", "approval-policy": "untrusted"}), CreateThread),
    (*tool("hames-reply", {"prompt": "go", "threadId": "ses_1"}), Follow),
    (*tool("hames-reply", {"prompt": "go", "conversationId": "ses_1"}), Follow),
    (*tool("hames-status", {"threadId": "ses_1"}), ReadThread),
    (*tool("hames-status", {"threadId": "ses_1", "wait-seconds": 3}), Follow),
    (*tool("hames-interrupt", {"threadId": "ses_1"}), InterruptTurn),
    (*tool("hames-answer", {"threadId": "ses_1", "approvalId": "a", "decision": "once"}), Follow),
    (*tool("hames-threads"), ListThreads),
    ("resources/list", {}, ListThreads),
    ("resources/list", {"cursor": "c"}, ListThreads),
    ("resources/read", URI, ReadThread),
    ("resources/subscribe", URI, Follow),
]


def ask(era: str, method: str, params: Any) -> tuple[list[Action], Any]:
    """What a request becomes, and its answer as the official types read it."""
    session = McpServerSession(blank(ThreadId("t")).settings)
    if era == ERAS[0]:
        start = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        _, out = receive(session, message(0, "initialize", start))
        answer: Any = jsonrpc_message_adapter.validate_json(out, by_name=False)
        assert mcp_types.InitializeResult.model_validate(answer.result).protocol_version == era
    else:
        params = {**params, "_meta": MODERN}
    actions, out = receive(session, message("a", method, params))
    assert not any(isinstance(action, Crashed) for action in actions), actions
    return actions, jsonrpc_message_adapter.validate_json(out, by_name=False) if out else None


def message(name: Any, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": name, "method": method, "params": params}).encode()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("method", "params", "words"), MCP_ANSWERS, ids=[shown(row) for row in MCP_ANSWERS])
def test_mcp_answers_at_once(era: str, method: str, params: Any, words: str) -> None:
    actions, answer = ask(era, method, params)
    assert not actions
    assert words in json.dumps(answer.result)
    if method == "tools/call":
        result = mcp_types.CallToolResult.model_validate(answer.result)
        assert result.is_error


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("method", "params", "code"), MCP_ERRORS, ids=[shown(row) for row in MCP_ERRORS])
def test_mcp_refuses_with_an_error(era: str, method: str, params: Any, code: int) -> None:
    actions, answer = ask(era, method, params)
    assert not actions
    assert answer.error.code == code
    assert answer.error.message


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("method", "params", "what"), MCP_ACTS, ids=[shown(row[:2]) for row in MCP_ACTS])
def test_mcp_acts(era: str, method: str, params: Any, what: type) -> None:
    actions, answer = ask(era, method, params)
    assert answer is None
    (action,) = actions
    assert isinstance(action.command if isinstance(action, Execute) else action, what)


def test_mcp_without_initialize_and_of_an_unknown_version_is_refused() -> None:
    session = McpServerSession(blank(ThreadId("t")).settings)
    _, out = receive(session, message(1, "tools/list", {}))
    assert "initialize" in json.loads(out)["error"]["message"]
    later = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}}
    _, out = receive(session, message(2, "tools/list", later))
    assert json.loads(out)["error"]["data"]["requested"] == "2031-01-01"
