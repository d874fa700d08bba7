"""What a thread looks like over sync, and the operations that tell of a change."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hames.domain.approvals import Approval, ChangeFiles, RunCommand
from hames.domain.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    ItemCompleted,
    ItemDelta,
    ItemStarted,
    PromptQueued,
    PromptRemoved,
    QueueHeld,
    Record,
    SettingsChanged,
    ThreadCreated,
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
    FileInput,
    FileUpdate,
    ImageInput,
    LocalImageInput,
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
from hames.domain.json import Json
from hames.domain.models import ModelCard, Price
from hames.domain.options import Choice, Selector, Settings
from hames.domain.state import Change, ThreadState, apply, blank
from hames.domain.usage import Usage
from hames.protocols.sync import messages as m
from hames.protocols.sync.outbound import Projector, snapshot
from hames.protocols.sync.view import Offer, view
from hames.testing.fakes.model import OneModel, ScriptedModel
from sync_apply import applied

THREAD, TURN = ThreadId("ses_1"), TurnId("turn_1")
CARD = ModelCard(
    provider="scripted", model="test", display_name="Test", price=Price(input=2.0, output=10.0), context_window=5000
)
EFFORT = Selector(
    id="effort", name="Effort", choices=(Choice(id="low", name="Low"), Choice(id="high", name="High")), default="low"
)
OFFER = Offer(models=OneModel(ScriptedModel(), CARD, selectors=[EFFORT]))
SETTINGS = Settings(model="scripted/test", cwd="/w")
CREATED = ThreadCreated(settings=SETTINGS, title="A title")


def user(text: str, *, name: str = "item_u", step: int = 0, **more: Any) -> UserMessage:
    return UserMessage(id=ItemId(name), step=step, content=(TextInput(text=text),), **more)


def command(**fields: Any) -> CommandExecution:
    return CommandExecution(
        **{"id": ItemId("item_c"), "step": 1, "call_id": CallId("c"), "command": "ls", "cwd": "/w", **fields}
    )


def started(item: Any) -> ItemStarted:
    return ItemStarted(turn_id=TURN, item=item)


def completed(item: Any, **fields: Any) -> ItemCompleted:
    return ItemCompleted(turn_id=TURN, item=replace(item, **{"status": "completed", **fields}))


def delta(item: Any, text: str, stream: Any = "text") -> ItemDelta:
    return ItemDelta(turn_id=TURN, item_id=item.id, stream=stream, text=text)


ASKED = (CREATED, TurnStarted(turn_id=TURN), started(user("Hello")), completed(user("Hello")))
MESSAGE = AgentMessage(id=ItemId("item_a"), step=1)


class Told:
    """A client that follows, and what it was told of each event."""

    def __init__(self, *events: Event) -> None:
        self.state: ThreadState = blank(THREAD)
        self.held: Json = wire(view(self.state, OFFER))
        self.operations: list[Json] = []
        self._projector = Projector(OFFER)
        for event in events:
            self.tell(event)

    def tell(self, event: Event) -> list[Json]:
        at = self.state.seq + 1
        record = Record(seq=at, at_ms=1000 * at, thread_id=THREAD, event=event)
        before, self.state = self.state, apply(self.state, record)
        change = Change(record=record, before=before, after=self.state)
        self.operations = wire(self._projector.project(change))
        self.held = applied(self.held, self.operations)
        assert self.held == wire(view(self.state, OFFER))
        return self.operations

    @property
    def messages(self) -> Json:
        return self.held["messages"]


def wire(value: object) -> Json:
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.spec("sync/flow-initial-idle", "sync/state-status", "sync/state-messages", "sync/state-error")
def test_a_fresh_thread_is_idle_and_empty() -> None:
    held = Told(CREATED).held
    assert (held["status"], held["messages"], held["error"]) == ("idle", [], "")
    assert held["thread"] == {
        "id": "ses_1",
        "title": "A title",
        "preview": "",
        "cwd": "/w",
        "model": "scripted/test",
        "archived": False,
        "forkedFrom": "",
        "createdAt": 1000,
        "updatedAt": 1000,
        "notice": "",
        "notes": [],
    }
    assert (held["approvals"], held["plan"], held["queue"], held["queueHeld"]) == ([], None, [], False)


@pytest.mark.spec(
    "sync/flow-status-running",
    "sync/op-set-status",
    "sync/op-path-strings",
    "sync/status-running",
    "sync/flow-user-message-complete",
)
def test_a_prompt_sets_running_and_adds_a_complete_user_message() -> None:
    told = Told(CREATED)
    assert {"type": "set", "path": ["status"], "value": "running"} in told.tell(TurnStarted(turn_id=TURN))
    added, pending = told.tell(started(user("Hello")))[:2]
    assert (added["type"], added["path"]) == ("set", ["messages", "0"])
    assert (added["value"]["role"], added["value"]["content"], added["value"]["status"]) == (
        "user",
        "Hello",
        "complete",
    )
    assert (pending["path"], pending["value"]["status"]) == (["messages", "1"], "pending")


@pytest.mark.spec("sync/op-set-adds-message", "sync/role-user", "sync/role-assistant", "sync/message-role")
def test_a_prompt_and_its_answer_have_their_roles_and_empty_containers() -> None:
    told = Told(*ASKED[:-2])
    added = [one for one in told.tell(ASKED[-2]) if one["path"][:1] == ["messages"]]
    assert [(one["type"], one["path"]) for one in added] == [("set", ["messages", "0"]), ("set", ["messages", "1"])]
    assert [message["role"] for message in told.messages] == ["user", "assistant"]
    assert (told.messages[1]["content"], told.messages[1]["toolCalls"]) == ("", [])


@pytest.mark.spec(
    "sync/op-append-streams-output", "sync/op-append-text", "sync/content-streams", "sync/flow-append-text"
)
def test_a_token_is_one_append_and_nothing_else() -> None:
    told = Told(*ASKED, started(MESSAGE))
    told.tell(delta(MESSAGE, "Hel"))
    assert told.tell(delta(MESSAGE, "lo")) == [
        {"type": "append-text", "path": ["messages", "1", "content"], "value": "lo"}
    ]
    assert told.messages[1]["content"] == "Hello"


@pytest.mark.spec("sync/message-lifecycle", "sync/flow-assistant-pending-streaming", "sync/message-status")
def test_an_assistant_message_is_pending_then_streaming_then_complete() -> None:
    told = Told(*ASKED)
    later = replace(MESSAGE, id=ItemId("item_b"), step=2)
    seen: list[list[str]] = []
    for event in (
        started(MESSAGE),
        delta(MESSAGE, "Hi"),
        completed(MESSAGE, text="Hi"),
        started(command()),
        completed(command()),
        started(later),
        delta(later, "Bye"),
        TurnEnded(turn_id=TURN, status="completed", stop_reason="end_turn"),
    ):
        told.tell(event)
        seen.append([message["status"] for message in told.messages[1:]])
    assert seen == [
        ["pending"],
        ["streaming"],
        ["streaming"],
        ["streaming"],
        ["streaming"],
        ["complete", "pending"],
        ["complete", "streaming"],
        ["complete", "complete"],
    ]
    assert told.messages[2]["stopReason"] == "end_turn"


@pytest.mark.spec("sync/flow-assistant-pending-streaming", "sync/ops-in-order")
def test_the_first_word_and_no_other_sets_a_message_streaming() -> None:
    told = Told(*ASKED, started(MESSAGE))
    streaming = {"type": "set", "path": ["messages", "1", "status"], "value": "streaming"}
    assert told.tell(delta(MESSAGE, "Hel")) == [
        streaming,
        {"type": "append-text", "path": ["messages", "1", "content"], "value": "Hel"},
    ]
    assert streaming not in told.tell(delta(MESSAGE, "lo"))


@pytest.mark.spec("sync/flow-assistant-complete", "sync/flow-status-idle", "sync/status-idle")
def test_the_end_sets_the_message_complete_and_the_status_idle() -> None:
    told = Told(*ASKED, started(MESSAGE), completed(MESSAGE, text="Hi"))
    operations = told.tell(TurnEnded(turn_id=TURN, status="completed"))
    assert {"type": "set", "path": ["messages", "1", "status"], "value": "complete"} in operations
    assert {"type": "set", "path": ["status"], "value": "idle"} in operations
    assert told.held["thread"]["updatedAt"] == 1000 * told.state.seq


@pytest.mark.spec("sync/status-error", "sync/error-when-status-error")
def test_a_failed_turn_says_why_and_the_message_keeps_it() -> None:
    failed = TurnEnded(turn_id=TURN, status="failed", error=TurnError(message="no key", info="Unauthorized"))
    told = Told(*ASKED, failed)
    assert (told.held["status"], told.held["error"], told.held["errorInfo"]) == ("error", "no key", "Unauthorized")
    assert (told.messages[1]["status"], told.messages[1]["error"]) == ("error", "no key")

    told.tell(TurnStarted(turn_id=TurnId("turn_2")))
    assert (told.held["status"], told.held["error"], told.held["errorInfo"]) == ("running", "", "")
    assert told.messages[1]["error"] == "no key"


def test_a_cancelled_turn_is_no_error() -> None:
    running = command()
    told = Told(*ASKED, started(MESSAGE), completed(MESSAGE, text="Hi"), started(running))
    told.tell(completed(running, status="interrupted"))
    told.tell(TurnEnded(turn_id=TURN, status="interrupted"))
    assert (told.held["status"], told.held["error"]) == ("idle", "")
    assert (told.messages[1]["status"], told.messages[1]["stopReason"]) == ("complete", "cancelled")
    assert [(call["status"], call["outcome"]) for call in told.messages[1]["toolCalls"]] == [("error", "interrupted")]


def test_a_turn_that_a_dead_process_left_is_an_error() -> None:
    ended = TurnEnded(turn_id=TURN, status="interrupted", error=TurnError(message="interrupted: it stopped"))
    told = Told(*ASKED, ended)
    assert (told.held["status"], told.held["error"]) == ("error", "interrupted: it stopped")
    assert told.messages[1]["status"] == "error"


@pytest.mark.spec(
    "sync/tool-calls-active",
    "sync/flow-tool-status",
    "sync/tool-call-id",
    "sync/tool-call-name",
    "sync/tool-call-status",
    "sync/message-tool-calls",
)
def test_a_tool_call_is_added_runs_and_completes() -> None:
    running = command()
    told = Told(*ASKED)
    added = told.tell(started(running))
    assert ["messages", "1", "toolCalls", "0"] in [operation["path"] for operation in added]
    call = told.messages[1]["toolCalls"][0]
    assert (call["id"], call["name"], call["status"]) == ("item_c", "shell", "running")
    assert told.tell(delta(running, "a\n", "output")) == [
        {"type": "append-text", "path": ["messages", "1", "toolCalls", "0", "output"], "value": "a\n"}
    ]
    told.tell(completed(running, output="a\n", exit_code=1, duration_ms=7))
    call = told.messages[1]["toolCalls"][0]
    assert (call["status"], call["outcome"], call["exitCode"], call["durationMs"]) == ("complete", "completed", 1, 7)


UPDATE = FileUpdate(path="/w/src/a.py", kind="modify", diff="@@")
OUTSIDE = FileUpdate(path="/etc/hosts", kind="modify", diff="@@")


@pytest.mark.parametrize(
    ("item", "kind", "name", "title", "given"),
    [
        (command(), "command", "shell", "ls", {"command": "ls", "cwd": "/w"}),
        (
            FileChange(id=ItemId("i"), step=1, call_id=CallId("c"), changes=(UPDATE, OUTSIDE)),
            "file",
            "edit",
            "src/a.py, /etc/hosts",
            None,
        ),
        (
            McpToolCall(id=ItemId("i"), step=1, call_id=CallId("c"), server="git", tool="log", arguments={"n": 1}),
            "mcp",
            "git.log",
            "git.log",
            {"n": 1},
        ),
        (WebSearch(id=ItemId("i"), step=1, query="weather"), "search", "web_search", "weather", {"query": "weather"}),
        (Plan(id=ItemId("i"), step=1, call_id=CallId("c")), "plan", "plan", "Plan", None),
        (Compaction(id=ItemId("i"), step=1), "compaction", "compact", "Conversation summarised", None),
        (
            Artifact(id=ItemId("i"), step=1, call_id=CallId("c"), path="/w/out.pdf", media_type="application/pdf"),
            "artifact",
            "artifact",
            "/w/out.pdf",
            {"path": "/w/out.pdf", "mediaType": "application/pdf"},
        ),
        (
            ToolCall(id=ItemId("i"), step=1, call_id=CallId("c"), name="read", arguments={"n": 3, "path": "a.py"}),
            "tool",
            "read",
            "read a.py",
            {"n": 3, "path": "a.py"},
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "step") else "",
)
def test_every_item_that_is_no_talk_is_a_tool_call(item: Any, kind: str, name: str, title: str, given: Json) -> None:
    call = Told(*ASKED, started(item)).messages[1]["toolCalls"][0]
    assert (call["kind"], call["name"], call["title"], call["input"]) == (kind, name, title, given)


def test_a_tool_that_streamed_nothing_shows_its_result() -> None:
    item = ToolCall(id=ItemId("i"), step=1, call_id=CallId("c"), name="read")
    told = Told(*ASKED, started(item), completed(item, result=ToolResult(text="the file")))
    assert told.messages[1]["toolCalls"][0]["output"] == "the file"


def test_text_after_a_tool_call_starts_a_new_message() -> None:
    done = completed(command())
    later = AgentMessage(id=ItemId("item_b"), step=2)
    told = Told(*ASKED, started(MESSAGE), completed(MESSAGE, text="Let me look."), started(command()), done)
    told.tell(started(later))
    told.tell(delta(later, "Found it."))
    assert [(one["content"], one["status"]) for one in told.messages[1:]] == [
        ("Let me look.", "complete"),
        ("Found it.", "streaming"),
    ]


def test_reasoning_after_content_starts_a_new_message_and_before_it_does_not() -> None:
    first = Reasoning(id=ItemId("r1"), step=1)
    second = Reasoning(id=ItemId("r2"), step=1)
    told = Told(*ASKED, started(first), delta(first, "Hm."), started(MESSAGE), started(second), delta(second, "Oh."))
    assert [one["reasoning"] for one in told.messages[1:]] == ["Hm.", "Oh."]


def test_a_summary_takes_the_place_of_the_reasoning_it_sums_up() -> None:
    item = Reasoning(id=ItemId("r1"), step=1)
    told = Told(*ASKED, started(item), delta(item, "Long thoughts."))
    told.tell(delta(item, "Short", "summary"))
    told.tell(delta(item, "er.", "summary"))
    assert told.messages[1]["reasoning"] == "Shorter."
    assert told.tell(delta(item, " More.")) == []


def test_what_is_said_in_the_middle_stands_where_the_model_reads_it() -> None:
    steered = user("And the tests?", name="item_s", step=1)
    later = AgentMessage(id=ItemId("item_b"), step=2)
    told = Told(*ASKED, started(MESSAGE), started(steered), completed(steered), started(command()))
    assert len(told.messages) == 2
    told.tell(completed(command()))
    told.tell(started(later))
    assert [(one["role"], one["content"]) for one in told.messages[2:]] == [
        ("user", "And the tests?"),
        ("assistant", ""),
    ]
    assert len(told.messages[1]["toolCalls"]) == 1


def test_what_was_said_and_never_read_is_shown_at_the_end() -> None:
    steered = user("Wait!", name="item_s", step=1)
    told = Told(*ASKED, started(MESSAGE), started(steered), completed(steered))
    told.tell(TurnEnded(turn_id=TURN, status="interrupted"))
    assert [one["content"] for one in told.messages] == ["Hello", "", "Wait!"]
    assert told.messages[1]["stopReason"] == "cancelled"


def test_the_id_of_a_message_is_the_one_its_client_gave() -> None:
    told = Told(*ASKED[:2], started(user("Hello", client_id="p_1")))
    assert told.messages[0]["id"] == "p_1"


def test_pictures_have_an_address_and_files_a_name() -> None:
    content = (
        TextInput(text="Look"),
        LocalImageInput(path="/up/a b.png"),
        FileInput(path="src/a.py"),
        ImageInput(url="data:image/png;base64,AAAA"),
        ImageInput(url="https://example.com/x.png"),
    )
    message = UserMessage(id=ItemId("item_u"), step=0, content=content)
    assert Told(*ASKED[:2], started(message)).messages[0]["attachments"] == [
        {"kind": "image", "name": "a b.png", "url": "/threads/ses_1/images/item_u/0", "upload": ""},
        {"kind": "file", "name": "src/a.py", "url": "", "upload": ""},
        {"kind": "image", "name": "image", "url": "/threads/ses_1/images/item_u/2", "upload": ""},
        {"kind": "image", "name": "https://example.com/x.png", "url": "", "upload": ""},
    ]


def test_approvals_are_replaced_whole() -> None:
    intent = RunCommand(command="rm x", cwd="/w", unsandboxed=True, why="it is outside")
    asked = Approval(id=ApprovalId("a1"), turn_id=TURN, item_id=ItemId("item_c"), intent=intent, reason="writes")
    change = Approval(
        id=ApprovalId("a2"), turn_id=TURN, item_id=ItemId("f"), intent=ChangeFiles(changes=(UPDATE,), protected=True)
    )
    told = Told(*ASKED, started(command()))
    assert [one["path"] for one in told.tell(ApprovalRequested(approval=asked))] == [["approvals"]]
    told.tell(ApprovalRequested(approval=change))
    first, second = told.held["approvals"]
    assert (first["kind"], first["command"], first["cwd"], first["unsandboxed"], first["why"]) == (
        "command",
        "rm x",
        "/w",
        True,
        "it is outside",
    )
    assert (first["toolCallId"], first["reason"]) == ("item_c", "writes")
    assert (second["kind"], second["protected"], second["changes"][0]["path"]) == ("file", True, "/w/src/a.py")
    answered = ApprovalResolved(turn_id=TURN, approval_id=asked.id, item_id=asked.item_id, decision="once")
    assert told.tell(answered) == [{"type": "set", "path": ["approvals"], "value": [second]}]


def test_the_queue_is_shown_and_held_only_while_something_waits() -> None:
    told = Told(*ASKED)
    told.tell(PromptQueued(prompt_id=PromptId("p_2"), content=(TextInput(text="next"),)))
    assert told.held["queue"] == [{"id": "p_2", "prompt": "next", "attachments": [], "by": None}]
    told.tell(QueueHeld(held=True))
    assert told.held["queueHeld"] is True
    told.tell(PromptRemoved(prompt_id=PromptId("p_2")))
    assert (told.held["queue"], told.held["queueHeld"]) == ([], False)


def test_the_plan_is_the_latest_one() -> None:
    first = Plan(id=ItemId("p1"), step=1, call_id=CallId("c"), entries=(PlanEntry(step="one"),))
    second = replace(first, id=ItemId("p2"), entries=(PlanEntry(step="one", status="completed"),))
    told = Told(*ASKED, started(first))
    told.tell(started(second))
    assert told.held["plan"] == {"explanation": "", "entries": [{"step": "one", "status": "completed"}]}


def test_usage_adds_up_and_costs_what_each_model_costs() -> None:
    told = Told(*ASKED)
    spent = Usage(input_tokens=1_000_000, output_tokens=100_000)
    told.tell(UsageReported(turn_id=TURN, model="scripted/test", usage=spent))
    usage = told.held["usage"]
    assert (usage["inputTokens"], usage["contextTokens"], usage["contextWindow"]) == (1_000_000, 1_100_000, 5000)
    assert usage["cost"] == pytest.approx(3.0)
    told.tell(UsageReported(turn_id=TURN, model="somebody/else", usage=spent))
    assert told.held["usage"]["cost"] is None


def test_settings_and_the_selectors_that_apply_to_them_change_together() -> None:
    told = Told(CREATED)
    assert told.held["selectors"][0]["value"] == "low"
    told.tell(SettingsChanged(settings=replace(SETTINGS, options={"effort": "high"}, approval_policy="always")))
    assert told.held["settings"]["approvalPolicy"] == "always"
    assert told.held["selectors"][0]["value"] == "high"


def test_another_directory_changes_how_earlier_files_are_called() -> None:
    change = FileChange(id=ItemId("i"), step=1, call_id=CallId("c"), changes=(UPDATE,))
    told = Told(*ASKED, started(change), completed(change), TurnEnded(turn_id=TURN, status="completed"))
    told.tell(TurnStarted(turn_id=TurnId("turn_2")))
    told.tell(SettingsChanged(settings=replace(SETTINGS, cwd="/w/src")))
    assert told.messages[1]["toolCalls"][0]["title"] == "a.py"


def test_output_that_completes_shorter_than_it_streamed_is_followed() -> None:
    running = command()
    told = Told(*ASKED, started(running), delta(running, "x" * 70_000, "output"), delta(running, "x", "output"))
    told.tell(completed(running, output="y" * 60_000, status="running"))
    assert told.messages[1]["toolCalls"][0]["outputTruncated"] is False
    told.tell(delta(running, "z" * 10_000, "output"))
    call = told.messages[1]["toolCalls"][0]
    assert (len(call["output"]), call["outputTruncated"]) == (70_000 - 32_768, True)


def test_names_from_outside_are_values_and_never_steps_of_a_path() -> None:
    told = Told(*ASKED)
    evil = ToolCall(
        id=ItemId("item_e"), step=1, call_id=CallId("__proto__"), name="constructor", arguments={"__proto__": "x"}
    )
    seen: list[str] = []
    for event in (started(evil), delta(evil, "x", "output"), completed(evil, output="x")):
        seen += [step for operation in told.tell(event) for step in operation["path"]]
    assert not {"__proto__", "constructor", "prototype", "item_e"} & set(seen)


@pytest.mark.spec("sync/server-state-message", "sync/type-field")
def test_a_snapshot_says_which_record_it_stands_at() -> None:
    told = Told(*ASKED)
    message = wire(snapshot(told.state, OFFER))
    assert (message["type"], message["rev"]) == ("state", 4)
    assert message["state"] == told.held
    assert {"id", "role", "content", "status"} <= message["state"]["messages"][0].keys()


@pytest.mark.spec("sync/server-delta-message", "sync/op-set", "sync/op-path-strings")
def test_a_delta_is_a_list_of_operations() -> None:
    said = wire(m.DeltaMessage(operations=(m.Set(path=("status",), value="idle"),), rev=7))
    assert said == {"type": "delta", "operations": [{"type": "set", "path": ["status"], "value": "idle"}], "rev": 7}


@pytest.mark.spec("sync/server-error-message")
def test_a_refusal_names_the_submit_it_is_about() -> None:
    assert wire(m.ErrorMessage(message="no")) == {"type": "error", "message": "no"}
    assert wire(m.ErrorMessage(message="no", submit_id="p")) == {"type": "error", "message": "no", "submitId": "p"}
