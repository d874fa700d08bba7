"""ACP message by message, without an engine: what each request becomes, and what each thing that happens is told as."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from acp_schema import check_message
from hames.domain.approvals import Approval, CallMcp, ChangeFiles, Elicit, RunCommand, UseTool
from hames.domain.commands import (
    ChangeSettings,
    CompactThread,
    CreateThread,
    DeleteThread,
    ForkThread,
    InterruptTurn,
    ListThreads,
    ReadThread,
    ResolveApproval,
    ResumeThread,
    StartReview,
    SubmitPrompt,
)
from hames.domain.errors import ErrorInfo, ThreadNotFound, TurnBusy
from hames.domain.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    ItemCompleted,
    ItemDelta,
    ItemStarted,
    Noticed,
    PromptQueued,
    PromptRemoved,
    QueueHeld,
    Record,
    StepVoided,
    ThreadCreated,
    ThreadRenamed,
    TurnEnded,
    TurnError,
    TurnStarted,
    UsageReported,
)
from hames.domain.ids import ApprovalId, CallId, ItemId, PromptId, ThreadId, TurnId
from hames.domain.items import (
    AgentMessage,
    Artifact,
    CommandExecution,
    Compaction,
    FileChange,
    FileUpdate,
    ImageInput,
    Item,
    McpToolCall,
    Plan,
    PlanEntry,
    Reasoning,
    TextInput,
    ToolCall,
    ToolResult,
    UserMessage,
    WebSearch,
)
from hames.domain.options import Settings
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn, apply, blank
from hames.domain.usage import Usage
from hames.protocols.acp.session import AcpSession
from hames.protocols.session import Action, Execute, Follow, Unfollow
from hames.testing.checks.session import receive
from hames.testing.fakes.model import OneModel, ScriptedModel

THREAD, TURN, ITEM = ThreadId("ses_1"), TurnId("turn_1"), ItemId("item_1")
SETTINGS = Settings(model="scripted/test", cwd="/w")
BOTH = (1, 2)
TEXT = [{"type": "text", "text": "go"}]
ALL: dict[int, dict[str, Any]] = {
    1: {
        "session": {"notices": {}, "compaction": {}},
        "elicitation": {"form": {}, "url": {}},
        "auth": {"terminal": True},
    },
    2: {"elicitation": {"form": {}, "url": {}}, "auth": {"terminal": {}}},
}


def fresh() -> AcpSession:
    return AcpSession(OneModel(ScriptedModel()), SETTINGS)


def initialize(version: int, offered: dict[str, Any] | None = None) -> dict[str, Any]:
    member = "clientCapabilities" if version == 1 else "capabilities"
    return {"protocolVersion": version, member: ALL[version] if offered is None else offered}


def opened(version: int, offered: dict[str, Any] | None = None) -> AcpSession:
    session = fresh()
    ask(session, "initialize", initialize(version, offered), number=0)
    return session


def ask(session: AcpSession, method: str, params: Any, *, number: Any = 7) -> tuple[list[Action], list[Any]]:
    line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
    actions, said = receive(session, line)
    return actions, [json.loads(one) for one in said.splitlines()]


def messages(session: AcpSession) -> list[Any]:
    return [json.loads(line) for line in session.take_output().splitlines()]


def state(*events: Event) -> ThreadState:
    now = blank(THREAD)
    for seq, event in enumerate((ThreadCreated(settings=SETTINGS), *events), 1):
        now = apply(now, Record(seq=seq, at_ms=seq, thread_id=THREAD, event=event))
    return now


def tell(session: AcpSession, before: ThreadState, *events: Event) -> tuple[ThreadState, list[Any]]:
    heard: list[Any] = []
    for event in events:
        record = Record(seq=before.seq + 1, at_ms=1, thread_id=THREAD, event=event)
        after = apply(before, record)
        session.tell([Change(record=record, before=before, after=after)], 0.0)
        heard += messages(session)
        before = after
    return before, heard


def following(version: int, offered: dict[str, Any] | None = None) -> tuple[AcpSession, ThreadState]:
    session, now = opened(version, offered), state()
    session.followed(Follow(thread_id=THREAD), now, (), 0.0)
    session.take_output()
    return session, now


# -- messages that are no good request


LINES: list[tuple[str, int]] = [
    ("{", -32700),
    ("not json", -32700),
    ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}', -32700),
    ("[]", -32600),
    ('[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', -32600),
    ("null", -32600),
    ("3", -32600),
    ('"session/list"', -32600),
    ("{}", -32600),
    ('{"id":1}', -32600),
    ('{"id":1,"method":"session/list"}', -32600),
    ('{"jsonrpc":"1.0","id":1,"method":"session/list"}', -32600),
    ('{"jsonrpc":"2.0","id":1,"method":3}', -32600),
    ('{"jsonrpc":"2.0","id":{},"method":"session/list"}', -32600),
    ('{"jsonrpc":"2.0","id":true,"method":"session/list"}', -32600),
    ('{"jsonrpc":"2.0","id":1,"id":2,"method":"session/list"}', -32600),
    ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":[]}', -32602),
    ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":3}', -32602),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("line", "code"), LINES)
def test_a_malformed_message_is_answered(version: int, line: str, code: int) -> None:
    actions, said = receive(opened(version), line.encode())
    assert actions == []
    [answer] = [json.loads(one) for one in said.splitlines()]
    assert answer["error"]["code"] == code
    check_message(version, answer)


UNKNOWN = {
    1: [
        "no/such",
        "",
        "session",
        "session/New",
        "auth/login",
        "auth/logout",
        "tool_call/cancel",
        "terminal/cancel",
        "session/archive",
        "session/update",
        "session/request_permission",
        "fs/read_text_file",
        "terminal/create",
        "elicitation/create",
        "providers/list",
        "_hames/unknown",
        "_session/steering",
    ],
    2: [
        "no/such",
        "authenticate",
        "logout",
        "session/load",
        "session/set_mode",
        "session/archive",
        "session/update",
        "fs/write_text_file",
        "terminal/output",
        "_hames/unknown",
    ],
}


@pytest.mark.parametrize(("version", "method"), [(version, one) for version in BOTH for one in UNKNOWN[version]])
def test_a_method_that_the_version_does_not_have_is_refused_at_once(version: int, method: str) -> None:
    actions, [answer] = ask(opened(version), method, {"sessionId": THREAD, "cwd": "/w"})
    assert actions == []
    assert answer["error"]["code"] == -32601


SILENT = [
    '{"jsonrpc":"2.0","method":"no/such"}',
    '{"jsonrpc":"2.0","method":"session/cancel"}',
    '{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":3}}',
    '{"jsonrpc":"2.0","method":"session/cancel","params":[]}',
    '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":99}}',
    '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":null}}',
    '{"jsonrpc":"2.0","method":"$/cancel_request"}',
    '{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"ses_1","prompt":[]}}',
    '{"jsonrpc":"2.0","id":"nothing we asked","result":{}}',
    '{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"m"}}',
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("line", SILENT)
def test_a_notification_and_a_stray_answer_are_never_answered(version: int, line: str) -> None:
    assert receive(opened(version), line.encode()) == ([], b"")


# -- initialize


@pytest.mark.parametrize(("asked", "agreed"), [(0, 1), (1, 1), (2, 2), (3, 2), (65535, 2)])
def test_the_version_is_the_clients_or_the_nearest(asked: int, agreed: int) -> None:
    _, [answer] = ask(fresh(), "initialize", {"protocolVersion": asked})
    assert answer["result"]["protocolVersion"] == agreed
    check_message(agreed, answer, "initialize")


@pytest.mark.parametrize("asked", [None, "1", 1.5, -1, True, 65536, [], {}])
def test_a_version_that_is_none_is_refused(asked: Any) -> None:
    session = fresh()
    _, [answer] = ask(session, "initialize", {"protocolVersion": asked})
    assert answer["error"]["code"] == -32602
    assert ask(session, "initialize", {"protocolVersion": 1})[1][0]["result"]["protocolVersion"] == 1


def test_nothing_comes_before_initialize() -> None:
    for method in ("session/new", "session/prompt", "authenticate"):
        actions, [answer] = ask(fresh(), method, {"cwd": "/w"})
        assert (actions, answer["error"]["code"]) == ([], -32600)


def test_initialize_may_be_repeated_until_something_else_is_asked() -> None:
    session = fresh()
    assert ask(session, "initialize", {"protocolVersion": 2})[1][0]["result"]["protocolVersion"] == 2
    assert ask(session, "initialize", {"protocolVersion": 1})[1][0]["result"]["protocolVersion"] == 1
    ask(session, "session/list", {})
    assert ask(session, "initialize", {"protocolVersion": 2})[1][0]["error"]["code"] == -32600
    assert ask(session, "auth/login", {"methodId": "api-key"})[1][0]["error"]["code"] == -32601, "it stays with v1"


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("offered", [{}, None, [], "x", {"fs": 3, "session": None, "elicitation": [], "auth": "x"}])
def test_odd_capabilities_are_as_good_as_none(version: int, offered: Any) -> None:
    member = "clientCapabilities" if version == 1 else "capabilities"
    _, [answer] = ask(fresh(), "initialize", {"protocolVersion": version, member: offered})
    methods = answer["result"]["authMethods"]
    assert [one.get("type", "agent") for one in methods] == ["agent"], "no sign-in in a terminal that nobody offered"


@pytest.mark.parametrize("version", BOTH)
def test_sign_in_in_a_terminal_is_offered_where_the_client_has_one(version: int) -> None:
    _, [answer] = ask(fresh(), "initialize", initialize(version))
    check_message(version, answer, "initialize")
    assert answer["result"]["authMethods"][1]["args"] == ["--setup"]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("number", [0, -5, 7, 2**70, "a", "", None, 1.5])
def test_an_id_comes_back_as_it_came(version: int, number: Any) -> None:
    _, [answer] = ask(opened(version), "no/such", {}, number=number)
    assert answer["id"] == number


# -- requests


STDIO = {"name": "m", "command": "/bin/m", "args": ["-x"], "env": [{"name": "K", "value": "V"}]}
HTTP = {"type": "http", "name": "h", "url": "http://127.0.0.1:1/mcp", "headers": [{"name": "A", "value": "B"}]}
OPEN = {"sessionId": THREAD, "cwd": "/w", "mcpServers": []}


class Good(NamedTuple):
    method: str
    params: dict[str, Any]
    fits: Callable[[Any], bool]
    versions: Sequence[int] = BOTH


def prompted(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"sessionId": THREAD, "prompt": list(blocks)}


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


# -- permissions


RUN = RunCommand(command="make", cwd="/w")
CHANGE = ChangeFiles(changes=(FileUpdate(path="/w/a", kind="modify", diff="--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"),))
YES_NO = Elicit(server="shop", message="Sure?", schema={"properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
SIZES = Elicit(server="shop", message="Size?", schema={"properties": {"size": {"enum": ["s", "m"]}}})
FORM = Elicit(
    server="shop",
    message="Who?",
    schema={"properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]},
)
VISIT = Elicit(server="shop", message="Sign in", url="https://example.com/in")
SELECTED = {"outcome": "selected"}


def asked(session: AcpSession, now: ThreadState, intent: Any, name: str = "apr_1") -> tuple[ThreadState, Any]:
    item = CommandExecution(id=ITEM, step=1, call_id=CallId("c"), command="make", cwd="/w")
    events: list[Event] = [] if now.turns else [TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=item)]
    approval = Approval(id=ApprovalId(name), turn_id=TURN, item_id=ITEM, intent=intent, reason="because")
    now, heard = tell(session, now, *events, ApprovalRequested(approval=approval))
    [question] = [one for one in heard if "id" in one]
    return now, question


def answered(session: AcpSession, question: Any, **answer: Any) -> list[Any]:
    actions, said = receive(session, json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer}).encode())
    assert said == b""
    return [action.command for action in actions if isinstance(action, Execute)]


PERMISSIONS: list[tuple[Any, list[str]]] = [
    (RUN, ["allow_once", "allow_always", "reject_once"]),
    (replace(RUN, repeatable=False), ["allow_once", "reject_once"]),
    (replace(RUN, process="process 3"), ["allow_once", "allow_always", "reject_once"]),
    (CHANGE, ["allow_once", "allow_always", "reject_once"]),
    (replace(CHANGE, protected=True), ["allow_once", "reject_once"]),
    (CallMcp(server="s", tool="t", arguments={"a": 1}), ["allow_once", "allow_always", "reject_once"]),
    (UseTool(name="n"), ["allow_once", "reject_once"]),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("intent", "kinds"), PERMISSIONS)
def test_a_permission_offers_what_can_be_granted(version: int, intent: Any, kinds: list[str]) -> None:
    session, now = following(version)
    _, question = asked(session, now, intent)
    check_message(version, question)
    assert question["method"] == "session/request_permission"
    assert [one["kind"] for one in question["params"]["options"]] == kinds
    assert "because" in json.dumps(question)


DECISIONS: list[tuple[dict[str, Any], str]] = [
    ({"result": {"outcome": {**SELECTED, "optionId": "allow_once"}}}, "once"),
    ({"result": {"outcome": {**SELECTED, "optionId": "allow_always"}}}, "always"),
    ({"result": {"outcome": {**SELECTED, "optionId": "reject_once"}}}, "reject"),
    ({"result": {"outcome": {**SELECTED, "optionId": "ALLOW_ONCE"}}}, "reject"),
    ({"result": {"outcome": {**SELECTED, "optionId": ["allow_once"]}}}, "reject"),
    ({"result": {"outcome": {"outcome": "Selected", "optionId": "allow_once"}}}, "reject"),
    ({"result": {"outcome": {"optionId": "allow_once"}}}, "reject"),
    ({"result": {"optionId": "allow_once"}}, "reject"),
    ({"result": True}, "reject"),
    ({"result": None}, "reject"),
    ({"error": {"code": -32601, "message": "no"}}, "reject"),
    ({"result": {"outcome": {**SELECTED, "optionId": "allow_once"}}, "error": {"code": 1, "message": "m"}}, "reject"),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("answer", "decision"), DECISIONS)
def test_the_answer_to_a_permission_decides(version: int, answer: Any, decision: str) -> None:
    session, now = following(version)
    _, question = asked(session, now, RUN)
    [command] = answered(session, question, **answer)
    assert isinstance(command, ResolveApproval)
    assert command.decision == decision
    assert answered(session, question, **answer) == [], "the second answer means nothing"


@pytest.mark.parametrize("version", BOTH)
def test_an_always_that_was_not_offered_rejects(version: int) -> None:
    session, now = following(version)
    _, question = asked(session, now, UseTool(name="n"))
    [command] = answered(session, question, result={"outcome": {**SELECTED, "optionId": "allow_always"}})
    assert command.decision == "reject"


@pytest.mark.parametrize("version", BOTH)
def test_a_cancelled_permission_interrupts_the_turn_first(version: int) -> None:
    session, now = following(version)
    _, question = asked(session, now, RUN)
    first, second = answered(session, question, result={"outcome": {"outcome": "cancelled"}})
    assert first == InterruptTurn(thread_id=THREAD, turn_id=TURN)
    assert second.decision == "reject"


@pytest.mark.parametrize("version", BOTH)
def test_two_permissions_are_open_at_once_and_answered_in_any_order(version: int) -> None:
    session, now = following(version)
    now, first = asked(session, now, RUN, "apr_1")
    now, second = asked(session, now, CHANGE, "apr_2")
    [command] = answered(session, second, result={"outcome": {**SELECTED, "optionId": "allow_once"}})
    assert command.approval_id == "apr_2"
    [command] = answered(session, first, result={"outcome": {**SELECTED, "optionId": "reject_once"}})
    assert (command.approval_id, command.decision) == ("apr_1", "reject")


@pytest.mark.parametrize("version", BOTH)
def test_a_permission_that_was_answered_elsewhere_is_withdrawn(version: int) -> None:
    session, now = following(version)
    now, question = asked(session, now, RUN)
    resolved = ApprovalResolved(turn_id=TURN, approval_id=ApprovalId("apr_1"), item_id=ITEM, decision="once")
    _, heard = tell(session, now, resolved)
    assert heard[0]["method"] == "$/cancel_request"
    assert heard[0]["params"] == {"requestId": question["id"]}
    assert answered(session, question, result={"outcome": {**SELECTED, "optionId": "allow_once"}}) == []


FORMS: list[tuple[Any, dict[str, Any], str, Any]] = [
    (FORM, {"action": "accept", "content": {"name": "Ada", "age": 3}}, "once", {"name": "Ada", "age": 3}),
    (FORM, {"action": "accept", "content": {"age": 3}}, "reject", None),
    (FORM, {"action": "accept", "content": {"name": 3}}, "reject", None),
    (FORM, {"action": "accept"}, "reject", None),
    (FORM, {"action": "decline"}, "reject", None),
    (FORM, {"action": "cancel"}, "void", None),
    (FORM, {"action": "other"}, "reject", None),
    (FORM, {}, "reject", None),
    (YES_NO, {"action": "accept", "content": {"ok": True}}, "once", {"ok": True}),
    (VISIT, {"action": "accept"}, "once", None),
    (VISIT, {"action": "decline"}, "reject", None),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("elicit", "result", "decision", "content"), FORMS)
def test_a_form_is_shown_where_the_client_can_show_it(
    version: int, elicit: Elicit, result: Any, decision: str, content: Any
) -> None:
    session, now = following(version)
    _, question = asked(session, now, elicit)
    check_message(version, question)
    assert question["method"] == "elicitation/create"
    assert question["params"]["mode"] == ("url" if elicit.url else "form")
    [command] = answered(session, question, result=result)
    assert (command.decision, command.content) == (decision, content)


CHOICES: list[tuple[Any, int, str, Any]] = [
    (YES_NO, 3, "choice:0", {"ok": True}),
    (YES_NO, 3, "choice:1", {"ok": False}),
    (SIZES, 3, "choice:1", {"size": "m"}),
    (VISIT, 2, "allow_once", None),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("elicit", "count", "option", "content"), CHOICES)
def test_a_form_is_a_choice_where_the_client_has_no_forms(
    version: int, elicit: Elicit, count: int, option: str, content: Any
) -> None:
    session, now = following(version, {})
    _, question = asked(session, now, elicit)
    check_message(version, question)
    assert question["method"] == "session/request_permission"
    assert len(question["params"]["options"]) == count
    [command] = answered(session, question, result={"outcome": {**SELECTED, "optionId": option}})
    assert (command.decision, command.content) == ("once", content)


@pytest.mark.parametrize("version", BOTH)
def test_a_form_that_nobody_can_fill_in_can_only_be_declined(version: int) -> None:
    session, now = following(version, {})
    _, question = asked(session, now, FORM)
    assert [one["kind"] for one in question["params"]["options"]] == ["reject_once"]


# -- what is told


BASE = {"id": ITEM, "step": 1, "call_id": CallId("c")}
DIFF = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
TOOLS: list[tuple[Any, str, str]] = [
    (CommandExecution(**BASE, command="make  all", cwd="/w"), "execute", "make all"),
    (FileChange(**BASE, changes=(FileUpdate(path="/w/a", kind="add", diff=DIFF),)), "edit", "Create /w/a"),
    (
        FileChange(**BASE, changes=(FileUpdate(path="/w/a", kind="modify", diff=DIFF),) * 3),
        "edit",
        "Edit /w/a and 2 more",
    ),
    (FileChange(**BASE, changes=(FileUpdate(path="/w/a", kind="delete", diff=DIFF),)), "delete", "Delete /w/a"),
    (FileChange(**BASE, changes=()), "edit", "Edit files"),
    (McpToolCall(**BASE, server="s", tool="t", arguments={"a": 1}), "other", "s: t"),
    (ToolCall(**BASE, name="read", arguments={"path": "/w/a"}), "read", "read /w/a"),
    (ToolCall(**BASE, name="grep", arguments={"pattern": "x"}), "search", "grep x"),
    (ToolCall(**BASE, name="glob", arguments=None), "search", "glob"),
    (ToolCall(**BASE, name="web_fetch", arguments={"url": "u"}), "fetch", "web_fetch u"),
    (ToolCall(**BASE, name="unheard", arguments=[]), "other", "unheard"),
    (WebSearch(id=ITEM, step=1, query="q"), "fetch", "Search the web: q"),
    (Artifact(**BASE, path="/w/out", title="The result"), "other", "The result"),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("item", "kind", "title"), TOOLS)
@pytest.mark.parametrize("status", ["completed", "failed", "declined", "interrupted", "skipped"])
def test_a_tool_call_is_told(version: int, item: Any, kind: str, title: str, status: Any) -> None:
    session, now = following(version)
    began = ItemStarted(turn_id=TURN, item=item)
    now, heard = tell(session, now, TurnStarted(turn_id=TURN), began)
    [first] = [one["params"]["update"] for one in heard if "toolCallId" in one["params"]["update"]]
    assert (first["kind"], first["title"], first["status"]) == (kind, title, "in_progress")
    result = ToolResult(text="so it went", failed=status != "completed", reason="" if status == "completed" else "why")
    _, heard = tell(session, now, ItemCompleted(turn_id=TURN, item=replace(item, status=status, result=result)))
    for message in heard:
        check_message(version, message)
    last = heard[-1]["params"]["update"]
    assert last["sessionUpdate"] == "tool_call_update"
    shown = {"completed": "completed", "failed": "failed", "declined": "failed"}
    assert last["status"] == shown.get(status, "failed" if version == 1 else "cancelled")
    assert ("why" in json.dumps(last["content"])) == (status != "completed") if last.get("content") else True


ENDS: list[tuple[str, ErrorInfo | None, str, str]] = [
    ("completed", None, "end_turn", "end_turn"),
    ("completed", None, "max_tokens", "max_tokens"),
    ("completed", None, "refusal", "refusal"),
    ("completed", None, "", "end_turn"),
    ("interrupted", None, "", "cancelled"),
    ("interrupted", "Other", "", "cancelled"),
    ("failed", "StepLimitReached", "", "max_turn_requests"),
    ("failed", "Refusal", "", "refusal"),
    ("failed", "ReplyCutOff", "", "max_tokens"),
    ("failed", "Other", "", "-32603"),
    ("failed", "Unauthorized", "", "-32000"),
    ("failed", "ServerOverloaded", "", "-32603"),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("status", "info", "word", "shown"), ENDS)
def test_the_end_of_a_turn(version: int, status: Any, info: ErrorInfo | None, word: str, shown: str) -> None:
    session, now = following(version)
    [action], _ = ask(session, "session/prompt", prompted(*TEXT))
    said = UserMessage(id=ItemId("u"), step=0, content=(TextInput(text="go"),))
    session.done(action, Turn(id=TURN, started_at_ms=1, items=(said,)))
    answers = messages(session)
    error = None if info is None else TurnError(message="why", info=info)
    started = (TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=said))
    _, heard = tell(session, now, *started, TurnEnded(turn_id=TURN, status=status, error=error, stop_reason=word))
    for message in heard:
        check_message(version, message, "session/prompt")
    if version == 1:
        assert answers == []
        assert heard[-1]["id"] == 7, "the answer is the last word"
        got = heard[-1]["error"]["code"] if "error" in heard[-1] else heard[-1]["result"]["stopReason"]
    else:
        assert answers[0]["result"] == {"messageId": "u"}
        last = heard[-1]["params"]["update"]
        assert last["state"] == "idle"
        got = last["error"]["code"] if last["stopReason"] == "error" else last["stopReason"]
    assert str(got) == shown


PIECES: list[tuple[Any, str, Sequence[str], str]] = [
    (AgentMessage(id=ITEM, step=1), "text", ["a", "b"], "agent_message_chunk"),
    (Reasoning(id=ITEM, step=1), "text", ["a", "b"], "agent_thought_chunk"),
    (Reasoning(id=ITEM, step=1), "summary", ["a"], "agent_thought_chunk"),
    (Compaction(id=ITEM, step=1), "summary", ["a", "b"], "compaction_summary_chunk"),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("item", "stream", "pieces", "kind"), PIECES)
def test_text_streams_with_its_message_id(
    version: int, item: Item, stream: Any, pieces: Sequence[str], kind: str
) -> None:
    session, now = following(version)
    deltas = [ItemDelta(turn_id=TURN, item_id=ITEM, stream=stream, text=piece) for piece in pieces]
    started = (TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=item))
    _, heard = tell(session, now, *started, *deltas)
    chunks = [one["params"]["update"] for one in heard if one["params"]["update"]["sessionUpdate"] == kind]
    assert [one["content"]["text"] for one in chunks] == list(pieces)
    assert all(ITEM in (one.get("messageId"), one.get("compactionId")) for one in chunks)


OTHERS: list[tuple[Event, str]] = [
    (ThreadRenamed(title="New"), "session_info_update"),
    (Noticed(source="hames", name="retry", message="Again", severity="warning"), "notice"),
    (UsageReported(turn_id=TURN, model="scripted/test", usage=Usage(input_tokens=3)), "usage_update"),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("event", "kind"), OTHERS)
def test_what_happens_beside_the_work_is_told(version: int, event: Event, kind: str) -> None:
    session, now = following(version)
    now, _ = tell(session, now, TurnStarted(turn_id=TURN))
    _, heard = tell(session, now, event)
    check_message(version, heard[-1])
    assert heard[-1]["params"]["update"]["sessionUpdate"] == kind


def test_v1_tells_no_notice_and_no_compaction_to_a_client_that_did_not_offer_them() -> None:
    session, now = following(1, {})
    item = Compaction(id=ITEM, step=1)
    events = (
        Noticed(source="hames", name="n", message="m"),
        TurnStarted(turn_id=TURN),
        ItemStarted(turn_id=TURN, item=item),
        ItemDelta(turn_id=TURN, item_id=ITEM, stream="summary", text="s"),
        ItemCompleted(turn_id=TURN, item=replace(item, status="completed", summary="s")),
        StepVoided(turn_id=TURN, step=1),
    )
    assert tell(session, now, *events)[1] == []


@pytest.mark.parametrize("version", BOTH)
def test_a_plan_has_its_entries(version: int) -> None:
    entries = tuple(PlanEntry(step=one, status=one) for one in ("pending", "inProgress", "completed", "failed"))  # type: ignore[arg-type]
    session, now = following(version)
    _, heard = tell(
        session, now, TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=Plan(**BASE, entries=entries))
    )
    check_message(version, heard[-1])
    told = heard[-1]["params"]["update"]
    statuses = [one["status"] for one in (told["entries"] if version == 1 else told["plan"]["entries"])]
    assert statuses == ["pending", "in_progress", "completed", "completed" if version == 1 else "cancelled"]


def test_output_of_a_command_costs_v1_no_more_than_twice_its_size() -> None:
    session, now = following(1)
    item = CommandExecution(**BASE, command="yes", cwd="/w")
    now, _ = tell(session, now, TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=item))
    sent = 0
    for _ in range(4096):
        now, heard = tell(session, now, ItemDelta(turn_id=TURN, item_id=ITEM, stream="output", text="0123456789"))
        sent += sum(len(json.dumps(one["params"]["update"]["content"])) for one in heard)
    assert 40_960 / 2 < sent < 4 * 40_960


def test_a_client_like_zed_gets_every_piece_of_output_in_meta() -> None:
    session, now = following(1, {"_meta": {"terminal_output": True}})
    item = CommandExecution(**BASE, command="yes", cwd="/w")
    delta = ItemDelta(turn_id=TURN, item_id=ITEM, stream="output", text="y\n")
    done = ItemCompleted(turn_id=TURN, item=replace(item, status="completed", output="y\n", exit_code=0))
    _, heard = tell(session, now, TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=item), delta, done)
    metas = [one["params"]["update"]["_meta"] for one in heard]
    assert metas[0]["terminal_info"] == {"terminal_id": ITEM, "cwd": "/w"}
    assert metas[1]["terminal_output"] == {"terminal_id": ITEM, "data": "y\n"}
    assert metas[2]["terminal_exit"]["exit_code"] == 0


# -- the queue


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("how", ["held", "dropped", "cancelled", "$/cancel_request", "lost"])
def test_a_queued_prompt_is_always_answered(version: int, how: str) -> None:
    session, now = following(version)
    now, _ = tell(session, now, TurnStarted(turn_id=TURN), PromptQueued(prompt_id=PromptId("p"), content=()))
    [action], _ = ask(session, "session/prompt", prompted(*TEXT))
    session.done(action, QueuedPrompt(id=PromptId("p"), content=()))
    assert messages(session) == []
    match how:
        case "held":
            _, heard = tell(session, now, QueueHeld(held=True))
            assert session.next_deadline() == 0.0
            [drop] = session.expire(0.0)
            assert isinstance(drop, Execute)
        case "dropped":
            _, heard = tell(session, now, PromptRemoved(prompt_id=PromptId("p")))
        case "lost":
            session.lost(THREAD, "the thread was closed")
            heard = messages(session)
        case _:
            params = {"sessionId": THREAD} if how == "cancelled" else {"requestId": 7}
            method = "session/cancel" if how == "cancelled" else how
            _, said = receive(session, json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())
            heard = [json.loads(line) for line in said.splitlines()]
    [answer] = [one for one in heard if one.get("id") == 7]
    if how == "lost":
        assert answer["error"]["code"] == -32603
    elif version == 1:
        assert answer["result"]["stopReason"] == "cancelled"
    else:
        assert answer["error"]["code"] == -32800


@pytest.mark.parametrize("version", BOTH)
def test_a_settings_command_of_a_known_session_needs_no_second_look(version: int) -> None:
    session, _ = following(version)
    params = {"sessionId": THREAD, "configId": "mode", "value": "plan", "type": "id"}
    [action], _ = ask(session, "session/set_config_option", params)
    assert isinstance(action, Execute)
    assert isinstance(action.command, ChangeSettings)
