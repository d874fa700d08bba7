"""The stream of events: framing, positions, and coming back."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hames.domain.approvals import Approval, CallMcp, ChangeFiles, Intent, RunCommand, UseTool
from hames.domain.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    ItemCompleted,
    ItemStarted,
    Record,
    ToolCalled,
    TurnEnded,
    TurnError,
    TurnStarted,
)
from hames.domain.ids import ApprovalId, CallId, ItemId, ThreadId, TurnId
from hames.domain.items import (
    AgentMessage,
    Call,
    CommandExecution,
    FileUpdate,
    Item,
    Reasoning,
    TextInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from hames.domain.json import Json
from hames.domain.state import Change, apply, blank
from hames.protocols.sse import encoder as stream
from hames.protocols.sse import messages as m
from hames.protocols.sse.outbound import pending, project
from hames.testing.generators.histories import changes, check_each_item_once, histories

TURN = TurnId("turn_1")
USER = UserMessage(id=ItemId("u"), step=0, content=(TextInput(text="Hello"),))
COMMAND = CommandExecution(id=ItemId("c"), step=1, call_id=CallId("call_1"), command="ls", cwd="/w")
CALL = Call(id=CallId("call_1"), name="shell", arguments='{"command": "ls"}')


class Reader:
    """An event stream read as the HTML standard says."""

    def __init__(self) -> None:
        self.last_id = ""
        self.events: list[Json] = []
        self.comments: list[str] = []
        self._data: list[str] = []
        self._id = ""

    def feed(self, data: bytes) -> None:
        for line in data.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                self.last_id = self._id
                if self._data:
                    self.events.append(msgspec.json.decode("\n".join(self._data)))
                self._data = []
            elif not field:
                self.comments.append(value)
            elif field == "data":
                self._data.append(value)
            elif field == "id":
                self._id = value


def told(*events: Event) -> list[Json]:
    """What a client hears of the last event."""
    state = blank(ThreadId("t"))
    said: list[Json] = []
    for number, event in enumerate(events, start=1):
        record = Record(seq=number, at_ms=1_234_567_890_123, thread_id=state.id, event=event)
        before, state = state, apply(state, record)
        said = [
            msgspec.to_builtins(one, str_keys=True)
            for one in project(Change(record=record, before=before, after=state))
        ]
    return said


STARTED = TurnStarted(turn_id=TURN)


def completed(item: Item) -> Event:
    return ItemCompleted(turn_id=TURN, item=item)


@pytest.mark.spec("core/event-user", "core/sse-timestamp")
def test_a_prompt_is_a_user_event() -> None:
    assert told(STARTED, ItemStarted(turn_id=TURN, item=USER)) == []
    assert told(STARTED, ItemStarted(turn_id=TURN, item=USER), completed(USER)) == [
        {"type": "user", "content": "Hello", "timestamp": 1234567890}
    ]


@pytest.mark.spec("core/event-text", "core/event-reasoning")
def test_whole_blocks_of_text_and_reasoning_are_told_once() -> None:
    text = AgentMessage(id=ItemId("a"), step=1, text="Done.", status="completed")
    thought = Reasoning(id=ItemId("r"), step=1, text="Hm.", status="completed")
    assert told(STARTED, completed(text)) == [{"type": "text", "content": "Done.", "timestamp": 1234567890}]
    assert told(STARTED, completed(thought)) == [{"type": "reasoning", "content": "Hm.", "timestamp": 1234567890}]
    assert told(STARTED, completed(replace(text, text=""))) == []


@pytest.mark.spec("core/event-tool-call", "core/event-tool-result", "core/event-status", "core/event-status-states")
def test_a_tool_is_called_runs_and_ends() -> None:
    called = ToolCalled(turn_id=TURN, step=1, call=CALL)
    at = {"timestamp": 1234567890}
    assert told(STARTED) == [{"type": "status", "state": "thinking", "message": "", "outcome": "", **at}]
    assert told(STARTED, called) == [
        {"type": "tool_call", "id": "call_1", "name": "shell", "input": {"command": "ls"}, **at}
    ]
    begun = (STARTED, called, ItemStarted(turn_id=TURN, item=COMMAND))
    assert told(*begun) == [{"type": "status", "state": "running_tool", "message": "shell", "outcome": "", **at}]
    done = replace(COMMAND, status="completed", result=ToolResult(text="a b", failed=False))
    assert told(*begun, completed(done)) == [
        {"type": "tool_result", "id": "call_1", "result": "a b", "isError": False, **at},
        {"type": "status", "state": "thinking", "message": "", "outcome": "", **at},
    ]
    ended = TurnEnded(turn_id=TURN, status="failed", error=TurnError(message="no key"))
    assert told(STARTED, ended) == [{"type": "status", "state": "idle", "message": "no key", "outcome": "failed", **at}]


def test_a_tool_that_was_cut_off_has_a_result_that_says_so() -> None:
    [result, _] = told(STARTED, completed(replace(COMMAND, status="interrupted")))
    assert (result["isError"], result["result"]) == (True, "interrupted; it may have run")


def test_arguments_that_are_no_json_are_told_as_they_came() -> None:
    broken = ToolCalled(turn_id=TURN, step=1, call=replace(CALL, arguments="{oops"))
    assert told(STARTED, broken)[0]["input"] == "{oops"


def test_an_agent_that_tells_of_no_calls_is_understood_by_what_it_does() -> None:
    [call, status] = told(STARTED, ItemStarted(turn_id=TURN, item=COMMAND))
    assert (call["type"], call["id"], call["name"], call["input"]["command"]) == ("tool_call", "call_1", "shell", "ls")
    assert status["state"] == "running_tool"


@pytest.mark.parametrize(
    ("intent", "kind", "member", "value"),
    [
        (RunCommand(command="rm x", cwd="/w"), "command", "command", "rm x"),
        (ChangeFiles(changes=(FileUpdate(path="/w/a", kind="add", diff="+x"),)), "file", "changes", [
            {"path": "/w/a", "kind": "add", "diff": "+x"}
        ]),
        (CallMcp(server="s", tool="t", arguments={"a": 1}), "mcp", "server", "s"),
        (UseTool(name="t", arguments={"a": 1}), "tool", "input", {"a": 1}),
    ],
)  # fmt: skip
def test_a_question_shows_exactly_what_would_happen(
    intent: RunCommand | ChangeFiles | CallMcp | UseTool, kind: str, member: str, value: Json
) -> None:
    approval = Approval(id=ApprovalId("apr"), turn_id=TURN, item_id=COMMAND.id, intent=intent, reason="why")
    begun = (STARTED, ItemStarted(turn_id=TURN, item=COMMAND), ApprovalRequested(approval=approval))
    [asked] = told(*begun)
    assert (asked["type"], asked["id"], asked["kind"], asked["toolCallId"]) == ("approval", "apr", kind, "call_1")
    assert msgspec.json.decode(msgspec.json.encode(asked))[member] == value
    answer = ApprovalResolved(turn_id=TURN, approval_id=approval.id, item_id=COMMAND.id, decision="reject")
    [resolved] = told(*begun, answer)
    assert (resolved["type"], resolved["id"], resolved["decision"]) == ("approval_resolved", "apr", "reject")


def test_who_joins_late_hears_the_open_questions() -> None:
    intent: Intent = RunCommand(command="rm x", cwd="/w")
    approval = Approval(id=ApprovalId("apr"), turn_id=TURN, item_id=COMMAND.id, intent=intent)
    state = blank(ThreadId("t"))
    for number, event in enumerate((STARTED, ApprovalRequested(approval=approval)), start=1):
        state = apply(state, Record(seq=number, at_ms=1, thread_id=state.id, event=event))
    reader = Reader()
    reader.feed(stream.stream_head(2) + stream.without_position(pending(state)))
    assert [event["id"] for event in reader.events] == ["apr"]
    assert reader.last_id == "2"


@pytest.mark.spec("core/sse-data-json")
@given(histories())
def test_every_event_is_one_json_object(history: list[Record]) -> None:
    for change in changes(history):
        found = stream.block(change)
        lines = found.lines if found else ()
        for line, event in zip(lines, project(change), strict=True):
            assert line.count(b"\n\n") == 1
            assert line.endswith(b"\n\n")
            assert [part[:7] for part in line.split(b"\n") if part.startswith(b"data")] == [b"data: {"]
            reader = Reader()
            reader.feed(line)
            assert reader.events == [msgspec.json.decode(msgspec.json.encode(event))]


@given(histories())
def test_each_tool_is_called_once_and_answered_once(history: list[Record]) -> None:
    ids = {item.call_id: item.id for change in changes(history) if (item := _tool(change))}
    check_each_item_once(
        history,
        project,
        started=lambda event: [ids[event.id]] if event.__class__.__name__ == "ToolCall" and event.id in ids else [],
        completed=lambda event: (
            [ids[event.id]] if isinstance(event, m.ToolResult | m.ToolSkipped) and event.id in ids else []
        ),
        shown=lambda item: bool(getattr(item, "call_id", "")),
    )


@given(histories())
def test_every_call_that_was_told_is_answered_before_its_turn_ends(history: list[Record]) -> None:
    waiting: set[str] = set()
    for change in changes(history):
        for event in project(change):
            if isinstance(event, m.ToolCall):
                waiting.add(event.id)
            elif isinstance(event, m.ToolResult | m.ToolSkipped):
                waiting.discard(event.id)
        assert not (waiting and isinstance(change.record.event, TurnEnded))


def _tool(change: Change) -> CommandExecution | ToolCall | None:
    event = change.record.event
    return event.item if isinstance(event, ItemStarted) and getattr(event.item, "call_id", "") else None  # type: ignore[return-value]


@given(histories(), st.data())
def test_a_client_that_is_cut_off_anywhere_comes_back_without_gap_or_repeat(
    history: list[Record], data: st.DataObject
) -> None:
    blocks = [found for change in changes(history) if (found := stream.block(change))]
    lines = [line for found in blocks for line in found.lines]
    whole = Reader()
    whole.feed(b"".join(lines))
    reader = Reader()
    reader.feed(stream.stream_head(0))
    reader.feed(b"".join(lines[: data.draw(st.integers(0, len(lines)))]))
    where = stream.parse_position(reader.last_id)
    assert where is not None
    reader.feed(b"".join(found.after(where) for found in blocks))
    assert reader.events == whole.events


@pytest.mark.parametrize("text", ["", "x", "1.", ".1", "1.2.3", "-1", "１", "9" * 30, "1 2"])
def test_a_position_that_is_not_ours_is_none(text: str) -> None:
    assert stream.parse_position(text) is None


@pytest.mark.parametrize("poison", ["\n\ndata: {}\n\n", "\r\rid: 9\r", "\r\nevent: x\r\n", "\u2028\u2029\x85", "\x00"])
def test_text_cannot_forge_an_event(poison: str) -> None:
    item = AgentMessage(id=ItemId("a"), step=1, text=f"a{poison}b", status="completed")
    state = blank(ThreadId("t"))
    record = Record(seq=7, at_ms=1, thread_id=state.id, event=completed(item))
    found = stream.block(Change(record=record, before=state, after=state))
    assert found is not None
    reader = Reader()
    reader.feed(b"".join(found.lines))
    assert [event["content"] for event in reader.events] == [f"a{poison}b"]
    assert reader.last_id == "7"


@pytest.mark.spec("core/sse-heartbeat")
def test_a_heartbeat_is_a_comment_that_moves_nothing() -> None:
    assert stream.HEARTBEAT == b": heartbeat\n\n"
    reader = Reader()
    reader.feed(stream.stream_head(3) + stream.HEARTBEAT)
    assert (reader.comments, reader.events, reader.last_id) == (["heartbeat"], [], "3")
