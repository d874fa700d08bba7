"""ACP, message by message: what each thing that happens is told as."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from acp_messages import BASE, BOTH, ITEM, TEXT, TURN, ask, following, messages, prompted, tell
from msgspec.structs import replace

from acp_schema import check_message
from hames.domain.errors import ErrorInfo
from hames.domain.events import (
    Event,
    ItemCompleted,
    ItemDelta,
    ItemStarted,
    Noticed,
    StepVoided,
    ThreadRenamed,
    TurnEnded,
    TurnError,
    TurnStarted,
    UsageReported,
)
from hames.domain.ids import ItemId
from hames.domain.items import (
    AgentMessage,
    Artifact,
    CommandExecution,
    Compaction,
    FileChange,
    FileUpdate,
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
from hames.domain.state import Turn
from hames.domain.usage import Usage

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


@pytest.mark.parametrize("version", BOTH)
def test_v2_takes_back_what_a_call_has_shown_when_it_ends_with_nothing(version: int) -> None:
    """In v2 a content that is not sent stays as it was shown."""
    session, now = following(version)
    item = ToolCall(**BASE, name="search", arguments={})
    piece = ItemDelta(turn_id=TURN, item_id=ITEM, stream="output", text="half a line")
    now, heard = tell(session, now, TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=item), piece)
    assert "half a line" in str(heard[-1])
    _, heard = tell(session, now, ItemCompleted(turn_id=TURN, item=replace(item, status="completed")))
    check_message(version, heard[-1])
    ended = heard[-1]["params"]["update"]
    assert ended.get("content") == ([] if version == 2 else None)


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
