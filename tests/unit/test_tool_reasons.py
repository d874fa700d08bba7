"""A tool that was refused, failed or skipped carries its reason through every protocol."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from hames.core.toolcall import SKIPPED
from hames.domain.events import ItemCompleted, ItemStarted
from hames.domain.ids import CallId, ItemId
from hames.domain.items import (
    Artifact,
    CommandExecution,
    FileChange,
    Item,
    McpToolCall,
    ToolCall,
    ToolResult,
    WebSearch,
    reason_of,
)
from hames.domain.request import ResultBlock
from hames.domain.state import Change
from hames.protocols.bootstrap import items as bootstrap
from hames.protocols.flint.codex.dialect import CodexDialect
from hames.protocols.flint.dialect import About, FlintDialect
from hames.protocols.runner import outbound as runner
from hames.protocols.sse import outbound as sse
from hames.protocols.sync.tools import tool_call
from hames.testing.fakes.model import ScriptedModel, call, call_raw, say
from support import ASKING, BROKEN, ECHO, created, engine, started, turn_end, whole_turn

ABOUT = About(version="1", provider="p", home="/h")
SEED, CODEX = FlintDialect(ABOUT, lambda _: None), CodexDialect(ABOUT, lambda _: None)
WHY = "no such file: 'a.txt'"
REFUSED = ToolResult(text=WHY, failed=True)
NAMES: dict[str, Any] = {"id": ItemId("item_1"), "step": 1, "call_id": CallId("c1")}

FAILED: list[Item] = [
    CommandExecution(**NAMES, command="ls", cwd="/w", status="failed", result=REFUSED),
    FileChange(**NAMES, changes=(), status="failed", output="half a patch", result=REFUSED),
    McpToolCall(**NAMES, server="s", tool="t", status="failed", output="1 of 3\n", result=REFUSED),
    WebSearch(**NAMES, query="q", status="failed", result=REFUSED),
    ToolCall(**NAMES, name="read", status="failed", output="told", result=REFUSED),
    Artifact(**NAMES, path="/w/a", status="failed", result=REFUSED),
]


def shown(value: object) -> str:
    return msgspec.json.encode(value).decode()


@pytest.mark.parametrize("item", FAILED, ids=lambda item: type(item).__name__)
def test_each_protocol_says_why_a_tool_failed(item: Any) -> None:
    words = msgspec.json.encode(WHY).decode()[1:-1]
    flint: Any = msgspec.to_builtins(SEED.item(item))
    assert flint.get("reason", flint.get("error")) == WHY
    if not isinstance(item, WebSearch):  # Codex has no place for it
        assert words in shown(CODEX.item(item))
    exec_data: Any = msgspec.to_builtins(bootstrap.item("ses_1", "turn_1", item))["data"]  # type: ignore[arg-type]
    assert exec_data["reason"] == WHY
    assert tool_call(item, "/w").reason == WHY
    assert words in shown(sse._completion_events(item, 0))
    assert words in shown(runner._completion_events(item))


def test_a_command_that_ran_says_how_by_its_exit_code_and_one_that_was_killed_says_why() -> None:
    ran = CommandExecution(
        **NAMES, command="x", cwd="/", status="failed", exit_code=1, output="no\n", result=ToolResult(text="no\n[…]")
    )
    assert reason_of(ran) == ""
    killed = ToolResult(text="…", failed=True, reason="killed: it ran longer than 1 s")
    assert reason_of(msgspec.structs.replace(ran, exit_code=-9, result=killed)) == "killed: it ran longer than 1 s"
    assert reason_of(msgspec.structs.replace(ran, status="interrupted", exit_code=None, result=None)) == "interrupted"


def skipped_items(changes: Sequence[Change]) -> list[ToolCall]:
    turn = changes[-1].after.turns[-1]
    return [item for item in turn.items if isinstance(item, ToolCall) and item.status == "skipped"]


@pytest.mark.parametrize(
    "first",
    [call("broken"), call("nothing_like_it"), call_raw("echo", "{"), call("asking")],
    ids=["it breaks", "no such tool", "no JSON", "nobody agrees"],
)
async def test_calls_after_one_that_failed_are_items_and_the_history_stays_valid(first: Any) -> None:
    model = ScriptedModel([first, call("echo", x=1), call_raw("echo", "not json")], [say("I see.")])
    async with engine(model, ECHO, BROKEN, ASKING, patience_s=0.0) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id, answers=False)
        await started(the_engine, thread.id)
        changes = await turn_end(watcher)
    items = skipped_items(changes)
    assert [(item.name, item.arguments) for item in items] == [("echo", {"x": 1}), ("echo", {"text": "not json"})]
    assert {reason_of(item) for item in items} == {SKIPPED}
    for item in items:
        told = [change.record.event for change in changes if item.id in shown(change.record.event)]
        assert [type(event) for event in told] == [ItemStarted, ItemCompleted]
    results = [
        block for message in model.requests[-1].messages for block in message.blocks if isinstance(block, ResultBlock)
    ]
    assert [result.call.id for result in results] == ["call_0_0", "call_0_1", "call_0_2"]
    assert all("not executed" in result.text and result.failed for result in results[1:])


async def test_a_skipped_call_has_no_tool_result_in_the_core_protocol_and_says_that_it_was_skipped() -> None:
    model = ScriptedModel([call("broken"), call("echo", x=1)], [say("I see.")])
    async with engine(model, ECHO, BROKEN) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    told = [msgspec.to_builtins(event) for change in changes for event in sse.project(change)]
    assert [event["id"] for event in told if event["type"] == "tool_call"] == ["call_0_0", "call_0_1"]
    assert [event["id"] for event in told if event["type"] == "tool_result"] == ["call_0_0"]
    assert [(event["id"], event["reason"]) for event in told if event["type"] == "tool_skipped"] == [
        ("call_0_1", SKIPPED)
    ]
    running = [event["message"] for event in told if event["type"] == "status" and event["state"] == "running_tool"]
    assert running == ["broken"]


def test_a_skipped_call_is_failed_with_an_outcome_where_a_protocol_has_no_word_for_it() -> None:
    result = ToolResult(text="not executed", failed=True, reason=SKIPPED)
    item = ToolCall(**NAMES, name="echo", status="skipped", result=result)
    assert msgspec.to_builtins(SEED.item(item))["status"] == "failed"
    assert msgspec.to_builtins(SEED.item(item))["outcome"] == "skipped"
    assert (tool_call(item, "/").status, tool_call(item, "/").outcome) == ("error", "skipped")
    codex = CODEX.item(item)
    assert codex is not None
    assert (codex["status"], codex["success"]) == ("failed", False)
    (failed,) = runner._completion_events(item)
    assert msgspec.to_builtins(failed)["outcome"] == "skipped"
