"""How each of the engine's items and questions looks in bootstrap."""

import json
from typing import Any

import msgspec
import pytest

from hames.domain import items
from hames.domain.approvals import Approval, CallMcp, ChangeFiles, RunCommand, UseTool
from hames.domain.errors import (
    ApprovalNotFound,
    HarnessError,
    InvalidCommand,
    Misconfigured,
    StorageFailed,
    ThreadInUse,
    ThreadNotFound,
    TurnBusy,
    TurnNotFound,
    UnknownMethod,
    UnknownModel,
)
from hames.domain.grants import always_covers
from hames.domain.ids import ApprovalId, CallId, ItemId, ThreadId, TurnId
from hames.domain.items import FileUpdate, PlanEntry, ToolResult
from hames.protocols.bootstrap import items as shown
from hames.protocols.bootstrap import messages
from hames.protocols.bootstrap.errors import code

NAMES = {"id": ItemId("i1"), "step": 1}
CALL = {**NAMES, "call_id": CallId("c1")}
CHANGE = FileUpdate(path="/w/a", kind="modify", diff="-a\n+b\n")


def wire(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def view(item: items.Item) -> tuple[str, Any]:
    """Type and data."""
    seen = wire(shown.item(ThreadId("t1"), TurnId("u1"), item))
    assert (seen["itemId"], seen["threadId"], seen["turnId"]) == ("i1", "t1", "u1")
    return seen["type"], seen["data"]


ROWS: list[tuple[items.Item, str, Any]] = [
    (
        items.UserMessage(
            **NAMES, content=(items.TextInput(text="a"), items.LocalImageInput(path="p.png"), items.TextInput(text="b"))
        ),
        "user_message",
        {
            "text": "a\n\nb",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "path": "p.png"},
                {"type": "text", "text": "b"},
            ],
        },
    ),
    (
        items.AgentMessage(**NAMES, text="hi"),
        "assistant_message",
        {"kind": "text", "text": "hi", "status": "running"},
    ),
    (
        items.Reasoning(**NAMES, text="hm", summary="short", status="completed", opaque="secret signature"),
        "assistant_message",
        {"kind": "reasoning", "text": "hm", "summary": "short", "status": "completed"},
    ),
    (
        items.Compaction(**NAMES, summary="so far", status="completed"),
        "assistant_message",
        {"kind": "compaction", "text": "so far", "status": "completed"},
    ),
    (
        items.CommandExecution(
            **CALL,
            command="ls",
            cwd="/w",
            output="a\n",
            status="failed",
            exit_code=2,
            duration_ms=5,
            result=ToolResult(text="a", failed=True),
        ),
        "tool_exec",
        {
            "tool": "bash",
            "input": {"command": "ls", "cwd": "/w"},
            "status": "failed",
            "exitCode": 2,
            "durationMs": 5,
        },
    ),
    (
        items.FileChange(**CALL, changes=(CHANGE,), status="completed", result=ToolResult(text="changed")),
        "tool_exec",
        {
            "tool": "edit",
            "input": {"paths": ["/w/a"]},
            "status": "completed",
            "changes": [{"path": "/w/a", "kind": "modify", "diff": "-a\n+b\n"}],
            "result": "changed",
        },
    ),
    (
        items.McpToolCall(**CALL, server="db", tool="query", arguments={"q": 1}),
        "tool_exec",
        {"tool": "db/query", "input": {"q": 1}, "status": "running"},
    ),
    (
        items.ToolCall(**CALL, name="read", arguments=["not", "an", "object"], result=ToolResult(text="x")),
        "tool_exec",
        {"tool": "read", "input": {"arguments": ["not", "an", "object"]}, "status": "running", "result": "x"},
    ),
    (
        items.WebSearch(**NAMES, query="q", status="completed", opaque="secret"),
        "tool_exec",
        {"tool": "web_search", "input": {"query": "q"}, "status": "completed"},
    ),
    (
        items.Plan(**CALL, text="the plan", entries=(PlanEntry(step="a"),)),
        "tool_exec",
        {
            "tool": "plan",
            "input": {},
            "status": "running",
            "text": "the plan",
            "entries": [{"step": "a", "status": "pending"}],
        },
    ),
    (
        items.Artifact(**CALL, path="/w/r.md", title="R", media_type="text/markdown"),
        "artifact",
        {"path": "/w/r.md", "title": "R", "mediaType": "text/markdown", "status": "completed"},
    ),
]


@pytest.mark.spec("bootstrap/item-type", "bootstrap/item-data")
@pytest.mark.parametrize(("item", "kind", "data"), ROWS, ids=[type(row[0]).__name__ for row in ROWS])
def test_an_item_is_shown_like_this(item: items.Item, kind: str, data: Any) -> None:
    assert view(item) == (kind, data)


@pytest.mark.parametrize(
    ("intent", "asked"),
    [
        (RunCommand(command="ls", cwd="/w"), {"tool": "bash", "command": "ls", "cwd": "/w"}),
        (
            ChangeFiles(changes=(CHANGE,)),
            {"tool": "edit", "changes": [{"path": "/w/a", "kind": "modify", "diff": "-a\n+b\n"}]},
        ),
        (CallMcp(server="db", tool="query", arguments={"q": 1}), {"tool": "db/query", "input": {"q": 1}}),
        (UseTool(name="magic", arguments=None), {"tool": "magic", "input": None}),
    ],
)
def test_a_question_says_what_is_to_happen_and_what_always_covers(intent: Any, asked: Any) -> None:
    approval = Approval(
        id=ApprovalId("apr_1"), turn_id=TurnId("u1"), item_id=ItemId("i1"), intent=intent, reason="because"
    )
    covers = always_covers(intent, cwd="/w")
    asked = {**asked, "alwaysCovers": wire(covers)} if covers else asked
    question = messages.ApprovalRequested(
        request_id="r", thread_id="t", turn_id="u", item_id="i", seq=1, time=1, **shown.question(approval, "/w")
    )
    ours = {"requestId": "r", "threadId": "t", "turnId": "u", "itemId": "i", "seq": 1, "time": 1, "reason": "because"}
    assert wire(question) == {**asked, **ours}
    pending = wire(shown.approval_item(ThreadId("t1"), approval, "/w"))
    assert pending["data"] == {
        **asked,
        "requestId": "apr_1",
        "toolItemId": "i1",
        "status": "pending",
        "reason": "because",
    }


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (InvalidCommand, -32602),
        (UnknownModel, -32602),
        (UnknownMethod, -32601),
        (ThreadNotFound, -32001),
        (TurnBusy, -32002),
        (ThreadInUse, -32002),
        (TurnNotFound, -32003),
        (ApprovalNotFound, -32004),
        (StorageFailed, -32603),
        (Misconfigured, -32603),
        (HarnessError, -32603),
    ],
)
def test_every_error_has_its_number(error: type[HarnessError], number: int) -> None:
    assert code(error("so it is")) == number
