"""The words mean what they say."""

import re
from typing import get_args

import msgspec
import pytest

from hames.domain import errors
from hames.domain.approvals import Approval, UseTool
from hames.domain.endings import endings
from hames.domain.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    ItemCompleted,
    ItemDelta,
    ItemStarted,
    Record,
    ThreadCreated,
    TurnEnded,
    TurnStarted,
    is_synced,
)
from hames.domain.ids import ApprovalId, CallId, ItemId, ThreadId, TurnId
from hames.domain.items import (
    STREAMS,
    AgentMessage,
    CommandExecution,
    ImageInput,
    Item,
    Reasoning,
    TextInput,
    ToolCall,
    UserMessage,
    closed,
    extended,
)
from hames.domain.models import ModelCard
from hames.domain.options import Settings
from hames.domain.policy import CommandGrant, DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.state import PREVIEW_CHARS, ThreadState, apply, blank, summary
from hames.domain.usage import Usage

THREAD, TURN = ThreadId("ses_1"), TurnId("turn_1")


def _message(text: str = "") -> AgentMessage:
    return AgentMessage(id=ItemId("m"), step=1, text=text)


def _after(*events: object, at_ms: int = 7) -> ThreadState:
    state = blank(THREAD)
    for event in (ThreadCreated(settings=Settings(model="a/b", cwd="/w"), title="T"), *events):
        state = apply(state, Record(seq=state.seq + 1, at_ms=at_ms, thread_id=THREAD, event=event))
    return state


def test_every_error_stands_in_the_tree() -> None:
    tree = set(re.findall(r"^\s*[*·-] (\w+)", errors.__doc__ or "", flags=re.MULTILINE))
    classes = {name for name, thing in vars(errors).items() if isinstance(thing, type) and issubclass(thing, Exception)}
    assert tree == classes


def test_every_error_has_a_word_that_protocols_know() -> None:
    for kind in (errors.HarnessError, *errors.HarnessError.__subclasses__(), *errors.NotFound.__subclasses__()):
        assert kind.info in get_args(errors.ErrorInfo)


def test_every_item_says_where_its_streams_go() -> None:
    assert set(STREAMS) == set(get_args(Item))
    for kind, streams in STREAMS.items():
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        assert all(fields[stream] is str for stream in streams)


def test_a_delta_grows_the_stream_it_names() -> None:
    thought = Reasoning(id=ItemId("r"), step=1, text="a")
    assert extended(thought, "text", "b") == Reasoning(id=ItemId("r"), step=1, text="ab")
    assert extended(thought, "summary", "s") == Reasoning(id=ItemId("r"), step=1, text="a", summary="s")
    assert extended(thought, "output", "x") is thought


def test_closing_an_item_keeps_what_is_no_longer_running() -> None:
    assert closed(_message("half"), "interrupted").status == "interrupted"
    done = msgspec.structs.replace(_message("whole"), status="completed")
    assert closed(done, "interrupted") is done


def test_values_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        _message().text = "other"  # type: ignore[misc]  # the point of the test


def test_usage_adds_up_field_by_field() -> None:
    one = Usage(input_tokens=1, output_tokens=2, thinking_tokens=3, cache_read_tokens=4, cache_write_tokens=5)
    two = Usage(input_tokens=10, output_tokens=20, thinking_tokens=30, cache_read_tokens=40, cache_write_tokens=50)
    assert one + two == Usage(
        input_tokens=11, output_tokens=22, thinking_tokens=33, cache_read_tokens=44, cache_write_tokens=55
    )


def test_thinking_fills_the_window_once() -> None:
    usage = Usage(input_tokens=1, output_tokens=2, thinking_tokens=2, cache_read_tokens=4, cache_write_tokens=5)
    assert usage.context_tokens == 12


def test_a_thread_is_previewed_by_its_first_words() -> None:
    first = UserMessage(
        id=ItemId("u1"), step=0, content=(TextInput(text=" Fix\n the "), ImageInput(url="u"), TextInput(text="bug"))
    )
    second = UserMessage(id=ItemId("u2"), step=0, content=(TextInput(text="Again"),))
    state = _after(
        TurnStarted(turn_id=TURN),
        ItemStarted(turn_id=TURN, item=first),
        ItemStarted(turn_id=TURN, item=second),
    )
    assert state.preview == "Fix the bug"


def test_a_preview_is_what_was_typed_and_not_what_was_added_to_it() -> None:
    added = TextInput(text="Output of a command that I ran myself: 3 failed")
    talk = UserMessage(id=ItemId("u"), step=0, content=(TextInput(text=" "), TextInput(text="Fix  it"), added))
    assert _after(TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=talk)).preview == "Fix it"


def test_a_preview_is_short() -> None:
    talk = UserMessage(id=ItemId("u"), step=0, content=(TextInput(text="word " * 1000),))
    assert len(_after(TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=talk)).preview) == PREVIEW_CHARS


def test_a_delta_for_an_item_that_is_not_there_moves_the_position_only() -> None:
    state = _after(TurnStarted(turn_id=TURN))
    stray = ItemDelta(turn_id=TURN, item_id=ItemId("nobody"), stream="text", text="x")
    after = apply(state, Record(seq=9, at_ms=7, thread_id=THREAD, event=stray))
    assert after == msgspec.structs.replace(state, seq=9)


def test_a_state_finds_its_turns_and_items() -> None:
    state = _after(TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=_message("hi")))
    assert state.item(ItemId("m")) == _message("hi")
    assert state.item(ItemId("other")) is None
    assert state.turn(TURN) is state.running
    assert state.turn(TurnId("other")) is None


def test_a_list_shows_what_the_state_says() -> None:
    state = _after(at_ms=42)
    listed = summary(state)
    assert (listed.id, listed.title, listed.cwd, listed.model) == (THREAD, "T", "/w", "a/b")
    assert (listed.created_at_ms, listed.updated_at_ms, listed.archived) == (42, 42, False)


def test_a_thread_at_rest_needs_no_ending() -> None:
    assert endings(_after(), "stopped") == []


def test_a_running_turn_is_ended_with_its_reason() -> None:
    running = CommandExecution(id=ItemId("c"), step=1, call_id="x", command="ls", cwd="/w", output="half")
    completed, ended = endings(
        _after(TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=running)), "the power went"
    )
    assert completed.item == msgspec.structs.replace(running, status="interrupted")
    assert (ended.status, ended.error.message) == ("interrupted", "the power went")


def test_a_model_is_named_after_its_provider() -> None:
    assert ModelCard(provider="anthropic", model="claude-x", display_name="X").id == "anthropic/claude-x"


@pytest.mark.parametrize(
    ("policy", "wire"),
    [
        (DangerFullAccess(), {"type": "dangerFullAccess"}),
        (ReadOnly(), {"type": "readOnly"}),
        (
            WorkspaceWrite(writable_roots=("/x",), network_access=True),
            {"type": "workspaceWrite", "writableRoots": ["/x"], "networkAccess": True},
        ),
        (ExternalSandbox(network_access="enabled"), {"type": "externalSandbox", "networkAccess": "enabled"}),
    ],
)
def test_a_sandbox_policy_is_written_as_clients_know_it(policy: SandboxPolicy, wire: object) -> None:
    assert msgspec.json.decode(msgspec.json.encode(policy)) == wire
    assert msgspec.convert(wire, SandboxPolicy) == policy


def test_a_careful_policy_is_the_default() -> None:
    settings = Settings(model="a/b", cwd="/w")
    assert settings.approval_policy == "unlessTrusted"
    assert settings.sandbox == WorkspaceWrite(writable_roots=(), network_access=False)


def test_every_event_states_its_own_policy() -> None:
    missing = [kind.__name__ for kind in get_args(Event) if "policy" not in vars(kind)]
    assert missing == []


def test_what_a_promise_depends_on_is_synced_and_what_a_kill_does_not_lose_is_not() -> None:
    turn, item_id = TurnId("t"), ItemId("i")
    tool = ToolCall(id=item_id, step=1, call_id=CallId("c"), name="shell")
    words = AgentMessage(id=item_id, step=1)
    approval = Approval(id=ApprovalId("a"), turn_id=turn, item_id=item_id, intent=UseTool(name="shell"))
    synced = [
        TurnStarted(turn_id=turn),
        ItemStarted(turn_id=turn, item=tool),
        ApprovalRequested(approval=approval),
        ApprovalResolved(turn_id=turn, approval_id=approval.id, item_id=item_id, decision="once"),
        ItemCompleted(turn_id=turn, item=tool),
        TurnEnded(turn_id=turn, status="completed"),
    ]
    unsynced = [
        ItemStarted(turn_id=turn, item=words),
        ItemDelta(turn_id=turn, item_id=item_id, stream="text", text="x"),
        ItemCompleted(turn_id=turn, item=words),
    ]
    assert all(map(is_synced, synced))
    assert not any(map(is_synced, unsynced))


def test_what_is_allowed_always_stays_allowed() -> None:
    """Also after a second answer of the kind, and after one that allows once."""
    first, second = (CommandGrant(command=command, cwd="/w") for command in ("make", "make test"))

    def answered(grant: CommandGrant | None) -> ApprovalResolved:
        decision = "once" if grant is None else "always"
        return ApprovalResolved(
            turn_id=TURN, approval_id=ApprovalId("a"), item_id=ItemId("i"), decision=decision, grant=grant
        )

    state = _after(TurnStarted(turn_id=TURN), *map(answered, (first, None, second, first)))
    assert state.grants == (first, second)
