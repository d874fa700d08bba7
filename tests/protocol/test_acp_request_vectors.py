"""ACP, message by message: what each request becomes, and what is refused."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from acp_messages import BOTH, ITEM, TEXT, THREAD, TURN, ask, following, messages, opened, prompted
from msgspec.structs import replace

from acp_schema import check_message
from hames.domain.commands import (
    ChangeSettings,
    CompactThread,
    CreateThread,
    DeleteThread,
    ForkThread,
    ListThreads,
    ReadThread,
    ResumeThread,
    StartReview,
    SubmitPrompt,
)
from hames.domain.errors import ThreadNotFound, TurnBusy
from hames.domain.ids import CallId
from hames.domain.items import (
    CommandExecution,
    ImageInput,
    TextInput,
)
from hames.domain.state import Turn, blank
from hames.protocols.session import Execute, Follow, Unfollow

STDIO = {"name": "m", "command": "/bin/m", "args": ["-x"], "env": [{"name": "K", "value": "V"}]}
HTTP = {"type": "http", "name": "h", "url": "http://127.0.0.1:1/mcp", "headers": [{"name": "A", "value": "B"}]}
OPEN = {"sessionId": THREAD, "cwd": "/w", "mcpServers": []}


class Good(NamedTuple):
    method: str
    params: dict[str, Any]
    fits: Callable[[Any], bool]
    versions: Sequence[int] = BOTH


GOOD = [
    Good("session/new", {"cwd": "/w", "mcpServers": []}, lambda one: isinstance(one, CreateThread)),
    Good("session/new", {"cwd": "/w"}, lambda one: one.overrides.cwd == "/w"),
    Good("session/new", {"cwd": "/w", "mcpServers": None}, lambda one: one.overrides.mcp_servers is None),
    Good("session/new", {"cwd": "/w", "mcpServers": [STDIO]}, lambda one: one.overrides.mcp_servers[0].args == ("-x",)),
    Good("session/new", {"cwd": "/w", "mcpServers": [STDIO]}, lambda one: one.overrides.mcp_servers[0].env["K"] == "V"),
    Good(
        "session/new",
        {"cwd": "/w", "mcpServers": [{**STDIO, "type": "stdio"}]},
        lambda one: one.overrides.mcp_servers[0].command == "/bin/m",
    ),
    Good(
        "session/new",
        {"cwd": "/w", "mcpServers": [HTTP, STDIO]},
        lambda one: one.overrides.mcp_servers[0].headers == {"A": "B"},
    ),
    Good("session/new", {"cwd": "/w", "_meta": {"x": 1}}, lambda one: isinstance(one, CreateThread)),
    Good(
        "session/new",
        {"cwd": "/w", "additionalDirectories": ["/a"]},
        lambda one: one.overrides.workspace_roots == ("/a",),
    ),
    Good("session/load", OPEN, lambda one: one.thread_id == THREAD, (1,)),
    Good("session/load", {**OPEN, "mcpServers": [STDIO]}, lambda one: isinstance(one, ResumeThread), (1,)),
    Good("session/resume", OPEN, lambda one: isinstance(one, Follow) and not one.replay),
    Good("session/resume", {"sessionId": THREAD, "cwd": "/w"}, lambda one: isinstance(one, Follow)),
    Good("session/resume", {**OPEN, "replayFrom": {"type": "start"}}, lambda one: isinstance(one, Follow), (2,)),
    Good("session/resume", {**OPEN, "replayFrom": None}, lambda one: isinstance(one, Follow), (2,)),
    Good("session/resume", {**OPEN, "_meta": {"_hames/replayFrom": {"seq": 3}}}, lambda one: one.replay),
    Good("session/fork", OPEN, lambda one: isinstance(one, ForkThread) and one.overrides.cwd is None),
    Good("session/list", {}, lambda one: isinstance(one, ListThreads)),
    Good("session/list", {"cursor": "c", "cwd": "/w"}, lambda one: one.cursor == "c"),
    Good("session/list", {"cursor": None, "cwd": None}, lambda one: one.cursor is None),
    Good("session/delete", {"sessionId": THREAD}, lambda one: isinstance(one, DeleteThread) and one.interrupt),
    Good("session/close", {"sessionId": THREAD}, lambda one: isinstance(one, Unfollow)),
    Good("session/set_mode", {"sessionId": THREAD, "modeId": "plan"}, lambda one: one.overrides.agent == "plan", (1,)),
    Good(
        "session/set_mode",
        {"sessionId": THREAD, "modeId": "never"},
        lambda one: (one.overrides.agent, one.overrides.approval_policy) == ("code", "never"),
        (1,),
    ),
    Good(
        "session/set_config_option",
        {"sessionId": THREAD, "configId": "mode", "value": "plan"},
        lambda one: isinstance(one, ReadThread),
        (1,),
    ),
    Good(
        "session/set_config_option",
        {"sessionId": THREAD, "configId": "mode", "type": "id", "value": "plan"},
        lambda one: isinstance(one, ReadThread),
        (2,),
    ),
    Good("session/prompt", prompted(*TEXT), lambda one: one.content == (TextInput(text="go"),)),
    Good(
        "session/prompt",
        prompted({"type": "text", "text": "go", "annotations": None, "_meta": {}}),
        lambda one: isinstance(one, SubmitPrompt),
    ),
    Good(
        "session/prompt",
        prompted({"type": "image", "mimeType": "image/png", "data": "AAAA"}),
        lambda one: one.content == (ImageInput(url="data:image/png;base64,AAAA"),),
    ),
    Good(
        "session/prompt",
        prompted({"type": "resource_link", "uri": "file:///w/a", "name": "a"}),
        lambda one: one.content[0].text == "[@a](file:///w/a)",
    ),
    Good(
        "session/prompt",
        prompted({"type": "resource", "resource": {"uri": "file:///w/a", "text": "t"}}),
        lambda one: one.content[0].text == '<context ref="file:///w/a">\nt\n</context>',
    ),
    Good(
        "session/prompt",
        prompted({"type": "resource", "resource": {"uri": "file:///w/a.bin", "blob": "AAAA"}}),
        lambda one: one.content[0].text == "[@a.bin](file:///w/a.bin)",
    ),
    Good("session/prompt", prompted({"type": "text", "text": "/compact"}), lambda one: isinstance(one, CompactThread)),
    Good("session/prompt", prompted({"type": "text", "text": "/review"}), lambda one: isinstance(one, StartReview)),
    Good("session/prompt", prompted({"type": "text", "text": "/review a b"}), lambda one: one.target.text == "a b"),
    Good("session/prompt", prompted({"type": "text", "text": "/other"}), lambda one: isinstance(one, SubmitPrompt)),
    Good("session/prompt", prompted({"type": "text", "text": "/"}), lambda one: isinstance(one, SubmitPrompt)),
    Good(
        "session/prompt",
        prompted({"type": "text", "text": "/compact"}, *TEXT),
        lambda one: isinstance(one, SubmitPrompt),
    ),
]


@pytest.mark.parametrize(
    ("version", "vector"),
    [(version, one) for one in GOOD for version in one.versions],
    ids=lambda one: one.method if isinstance(one, Good) else f"v{one}",
)
def test_a_request_becomes_a_command(version: int, vector: Good) -> None:
    actions, _ = ask(opened(version), vector.method, vector.params)
    last = actions[-1]
    assert vector.fits(last.command if isinstance(last, Execute) else last), actions


BAD: list[tuple[str, dict[str, Any], Sequence[int]]] = [
    ("session/new", {}, BOTH),
    ("session/new", {"cwd": "relative"}, BOTH),
    ("session/new", {"cwd": 3}, BOTH),
    ("session/new", {"cwd": "/a\0b"}, BOTH),
    ("session/new", {"cwd": "/w", "mcpServers": {}}, BOTH),
    ("session/new", {"cwd": "/w", "mcpServers": [3]}, BOTH),
    ("session/new", {"cwd": "/w", "mcpServers": [{"name": "x"}]}, BOTH),
    ("session/new", {"cwd": "/w", "mcpServers": [{"type": "sse", "name": "x", "url": "http://x"}]}, BOTH),
    ("session/new", {"cwd": "/w", "mcpServers": [{"type": "acp", "name": "x", "id": "y"}]}, BOTH),
    ("session/new", {"cwd": "/w", "mcpServers": [{**STDIO, "args": [3]}]}, BOTH),
    ("session/new", {"cwd": "/w", "mcpServers": [{**STDIO, "env": [{"name": "x"}]}]}, BOTH),
    ("session/new", {"cwd": "/w", "mcpServers": [STDIO, STDIO]}, BOTH),
    ("session/new", {"cwd": "/w", "additionalDirectories": ["a"]}, BOTH),
    ("session/new", {"cwd": "/w", "additionalDirectories": "/a"}, BOTH),
    ("session/load", {"cwd": "/w", "mcpServers": []}, (1,)),
    ("session/load", {"sessionId": "", "cwd": "/w"}, (1,)),
    ("session/load", {"sessionId": 3, "cwd": "/w"}, (1,)),
    ("session/load", {"sessionId": THREAD}, (1,)),
    ("session/resume", {"sessionId": THREAD}, BOTH),
    ("session/resume", {**OPEN, "replayFrom": {"type": "middle"}}, (2,)),
    ("session/resume", {**OPEN, "replayFrom": "start"}, (2,)),
    ("session/resume", {**OPEN, "_meta": {"_hames/replayFrom": {"seq": "x"}}}, BOTH),
    ("session/fork", {"cwd": "/w"}, BOTH),
    ("session/list", {"cursor": 3}, BOTH),
    ("session/list", {"cwd": "relative"}, BOTH),
    ("session/close", {}, BOTH),
    ("session/delete", {"sessionId": None}, BOTH),
    ("session/set_mode", {"sessionId": THREAD}, (1,)),
    ("session/set_mode", {"sessionId": THREAD, "modeId": "no"}, (1,)),
    ("session/set_config_option", {"sessionId": THREAD, "configId": "mode"}, BOTH),
    ("session/set_config_option", {"sessionId": THREAD, "configId": "mode", "value": 3}, BOTH),
    ("session/set_config_option", {"configId": "mode", "value": "plan"}, BOTH),
    ("session/prompt", {"sessionId": THREAD}, BOTH),
    ("session/prompt", {"prompt": TEXT}, BOTH),
    ("session/prompt", prompted(), BOTH),
    ("session/prompt", prompted({"type": "text", "text": " \n"}), BOTH),
    ("session/prompt", prompted({"type": "text"}), BOTH),
    ("session/prompt", prompted({"type": "video", "data": "x"}), BOTH),
    ("session/prompt", prompted({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}), BOTH),
    ("session/prompt", prompted({"type": "image", "data": "AAAA", "mimeType": "text/html"}), BOTH),
    ("session/prompt", prompted({"type": "image", "data": "AAAA", "mimeType": "image/png,evil"}), BOTH),
    ("session/prompt", prompted({"type": "resource", "resource": {"uri": "file:///a"}}), BOTH),
    ("session/prompt", prompted({"type": "resource"}), BOTH),
    ("session/prompt", prompted(*TEXT * 1001), BOTH),
    ("session/prompt", {"sessionId": THREAD, "prompt": "go"}, BOTH),
    ("authenticate", {}, (1,)),
    ("authenticate", {"methodId": "setup"}, (1,)),
    ("auth/login", {"methodId": "other"}, (2,)),
    ("tool_call/cancel", {"sessionId": THREAD}, (2,)),
    ("tool_call/cancel", {"sessionId": THREAD, "toolCallId": 3}, (2,)),
    ("tool_call/cancel", {"toolCallId": "i"}, (2,)),
    ("terminal/cancel", {"sessionId": THREAD, "terminalId": ""}, (2,)),
    ("terminal/cancel", {"terminalId": "i"}, (2,)),
]


@pytest.mark.parametrize(
    ("version", "method", "params"), [(version, method, params) for method, params, of in BAD for version in of]
)
def test_bad_parameters_are_refused_and_nothing_runs(version: int, method: str, params: Any) -> None:
    actions, [answer] = ask(opened(version), method, params)
    assert actions == []
    assert answer["error"]["code"] == -32602, answer
    check_message(version, answer)


@pytest.mark.parametrize(("method", "member"), [("tool_call/cancel", "toolCallId"), ("terminal/cancel", "terminalId")])
@pytest.mark.parametrize(("status", "code"), [("completed", None), ("running", -32602), (None, -32002)])
def test_a_single_call_can_be_cancelled_only_when_it_has_ended(
    method: str, member: str, status: Any, code: int | None
) -> None:
    """No call says that it can be cancelled by itself."""
    session = opened(2)
    [read], answers = ask(session, method, {"sessionId": THREAD, member: ITEM})
    assert isinstance(read, Execute)
    assert (read.command, answers) == (ReadThread(thread_id=THREAD), [])
    item = CommandExecution(id=ITEM, step=1, call_id=CallId("c"), command="x", cwd="/w", status=status or "running")
    turn = Turn(id=TURN, started_at_ms=0, items=(item,) if status else ())
    session.done(read, replace(blank(THREAD), turns=(turn,)))
    [answer] = messages(session)
    assert answer.get("error", {}).get("code") == code, answer
    check_message(2, answer, method)


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("error", "code"), [(ThreadNotFound("no thread"), -32002), (TurnBusy("busy"), -32600)])
def test_a_refusal_of_the_engine_has_its_number(version: int, error: Any, code: int) -> None:
    session = opened(version)
    [action], _ = ask(session, "session/delete", {"sessionId": THREAD})
    session.failed(action, error)
    [answer] = messages(session)
    assert (answer["id"], answer["error"]["code"]) == (7, code)


@pytest.mark.parametrize("version", BOTH)
def test_a_settings_command_of_a_known_session_needs_no_second_look(version: int) -> None:
    session, _ = following(version)
    params = {"sessionId": THREAD, "configId": "mode", "value": "plan", "type": "id"}
    [action], _ = ask(session, "session/set_config_option", params)
    assert isinstance(action, Execute)
    assert isinstance(action.command, ChangeSettings)
