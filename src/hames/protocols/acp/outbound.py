"""From a change to the updates of a session: what both versions have in common. Pure.

`Outbound` decides what a change means; `updates/v1.py` and `updates/v2.py` say it in the words of their version.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import assert_never

from hames.domain.approvals import Approval
from hames.domain.commands import ThreadSummary
from hames.domain.cost import cost
from hames.domain.events import (
    ApprovalRequested,
    ApprovalResolved,
    ContextAdded,
    ContextTrimmed,
    ItemCompleted,
    ItemDelta,
    ItemStarted,
    NotesRead,
    Noticed,
    PromptQueued,
    PromptRemoved,
    QueueHeld,
    SettingsChanged,
    StepVoided,
    ThreadArchived,
    ThreadCreated,
    ThreadRenamed,
    ToolCalled,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from hames.domain.foreign import FOREIGN
from hames.domain.ids import ItemId, TurnId
from hames.domain.items import AgentMessage, Compaction, Item, Plan, Reasoning, ToolItem, UserMessage, WebSearch
from hames.domain.json import Json
from hames.domain.models import Price
from hames.domain.state import Change, ThreadState, Turn
from hames.domain.value import Value
from hames.protocols.acp.dates import iso_date
from hames.protocols.acp.messages.v1 import Cost, ListSessionsResponse, SessionInfo, StopReason
from hames.protocols.acp.options import OptionMenu
from hames.protocols.acp.permissions import ElicitationModes

Update = Json
"""One of `SessionUpdate` in the messages of the version."""

CURSOR = "_hames/replayFrom"
"""The member of `_meta` with a position in the thread's log. A client that sends it back with `session/load` or
`session/resume` is told what came after it."""
APPROVAL = "_hames/approval"
"""The member of `_meta` of a tool call's update that says how the question about it ended."""
UNANSWERED = {"timedOut": "Nobody answered in time", "noClient": "No client that could answer was connected"}
DISCARDED = "Connection lost. The partial answer above was discarded"
COMMANDS: dict[str, tuple[str, str]] = {
    "compact": ("Summarise the conversation so far to free the model's context window", ""),
    "review": ("Review the uncommitted changes, or what you say", "what to review (optional)"),
}
"""Commands that a prompt may begin with a slash: what each does, and what may be typed behind it."""


class ClientFeatures(Value):
    """What the client said in `initialize` that it can do."""

    read_files: bool = False
    write_files: bool = False
    terminals: bool = False
    """Runs commands in terminals of its own."""
    notices: bool = False
    compaction: bool = False
    terminal_output: bool = False
    """Understands streamed output of commands in `_meta`, as Zed does."""
    terminal_login: bool = False
    elicitation: ElicitationModes = ElicitationModes()


class Outbound(ABC):
    version: int
    methods: frozenset[str]

    def __init__(self, menu: OptionMenu, client: ClientFeatures) -> None:
        self.menu = menu
        self.client = client
        self.terminals: dict[ItemId, str] = {}
        """The client's own terminals in which commands run, by item."""

    # -- a thread as it is

    def replay(self, state: ThreadState) -> Iterator[Update]:
        """The whole conversation so far."""
        for turn in state.turns:
            for item in turn.items:
                yield from self.whole_item(item, is_open=item.id in turn.open)
        if state.title or state.preview:
            yield self.session_info(state)
        yield from self._usage(state)

    def greeting(self, state: ThreadState) -> Iterator[Update]:
        """What a client that has just come should tell its user about the thread."""
        if state.foreign:
            yield from self.notice("warning", FOREIGN)

    # -- a change

    def project(self, change: Change, *, own: bool = False) -> Sequence[Update]:
        """What this change means to a client that has heard everything before it. `own`: it asked for this turn."""
        event, state = change.record.event, change.after
        if isinstance(event, ItemDelta):  # first, because a token is by far the most frequent event
            item = state.item(event.item_id)
            return () if item is None else self.delta(item, event, change.before)
        match event:
            case ThreadRenamed():
                return [self.session_info(state)]
            case SettingsChanged():
                return list(self.settings_changed(change))
            case TurnStarted():
                return list(self.turn_started(state))
            case ItemStarted(turn_id=turn_id, item=item):
                return list(self._new_item(change, item, own=own)) if _is_new(change, turn_id) else []
            case ItemCompleted(turn_id=turn_id, item=item):
                if _is_new(change, turn_id):
                    return [*self._title(change), *self.whole_item(item, is_open=False, own=own)]
                return list(self.item_completed(change.before.item(item.id), item))
            case StepVoided(turn_id=turn_id, step=step):
                return list(self.notice("warning", DISCARDED)) if _has_said(state, turn_id, step) else []
            case ApprovalRequested():
                return list(self.state_changed(change))
            case ApprovalResolved():
                return [*self._approval_resolved(change, event), *self.state_changed(change)]
            case UsageReported():
                return list(self._usage(state))
            case Noticed(severity=severity, message=message, name=name):
                return list(self.notice(severity, message or name))
            case TurnEnded(turn_id=turn_id):
                turn = state.turn(turn_id)
                return [] if turn is None else list(self.turn_ended(turn, change.record.seq))
            case ThreadCreated() | ThreadArchived() | PromptQueued() | PromptRemoved() | QueueHeld() | NotesRead():
                return []  # a client has no place for them
            case ToolCalled() | ContextAdded() | ContextTrimmed():
                return []  # between the harness and the model
            case _ as never:
                assert_never(never)

    def _approval_resolved(self, change: Change, event: ApprovalResolved) -> Iterator[Update]:
        item = change.after.item(event.item_id)
        if isinstance(item, ToolItem):
            runs = event.decision in ("once", "always") and item.status == "running"
            yield self.call_answered(item, event, runs=runs)
        if event.how in UNANSWERED:
            yield from self.notice("info", f"{UNANSWERED[event.how]}: {event.note or event.decision}")

    def _new_item(self, change: Change, item: Item, *, own: bool) -> Iterator[Update]:
        yield from self._title(change)
        yield from self.whole_item(item, is_open=True, own=own)

    def _title(self, change: Change) -> Iterator[Update]:
        """The first prompt is the title until there is another."""
        if change.after.preview and not change.before.preview and not change.after.title:
            yield self.session_info(change.after)

    def whole_item(self, item: Item, *, is_open: bool, own: bool = False) -> Iterator[Update]:
        """An item with all that is known of it, for a client that has heard nothing of it yet."""
        match item:
            case UserMessage():
                yield from self.user_message(item, own=own)
            case AgentMessage(text=text):
                yield from self.agent_text(item.id, text)
            case Reasoning(text=text, summary=summary):
                yield from self.thought(item.id, summary)
                yield from self.thought(item.id, text)
            case Plan():
                yield from self.plan(item)
            case Compaction():
                yield from self.compaction(item, is_open=is_open)
            case _:
                yield from self.tool_call(item, is_open=is_open)

    def item_completed(self, before: Item | None, item: Item) -> Iterator[Update]:
        match item:
            case UserMessage():
                pass
            case AgentMessage(text=text):
                known = before.text if isinstance(before, AgentMessage) else ""
                yield from self.agent_text_completed(item.id, known, text)
            case Reasoning(text=text, summary=summary):
                known = before if isinstance(before, Reasoning) else Reasoning(id=item.id, step=0)
                yield from self.thought(item.id, _rest(known.summary, summary))
                yield from self.thought(item.id, _rest(known.text, text))
            case Plan():
                yield from self.plan(item)
            case Compaction():
                yield from self.compaction_completed(item)
            case _:
                yield from self.tool_completed(item)

    def _usage(self, state: ThreadState) -> Iterator[Update]:
        used, size = state.last_usage.context_tokens, self.menu.window(state.settings.model)
        if used and size:
            dollars = cost(state.spent, self._price)
            yield self.usage(used, size, None if dollars is None else Cost(amount=dollars, currency="USD"))

    def _price(self, model: str) -> Price | None:
        card = self.menu.card(model)
        return None if card is None else card.price

    # -- what a version says

    @abstractmethod
    def initialize_result(self, version: str) -> Json: ...

    @abstractmethod
    def opened(self, state: ThreadState, *, is_new: bool) -> Json:
        """The answer to a request that opens a session; with its id if it is a new one."""

    @abstractmethod
    def before_opened(self, state: ThreadState, *, is_new: bool) -> Iterator[Update]: ...

    @abstractmethod
    def after_opened(self, state: ThreadState) -> Iterator[Update]: ...

    @abstractmethod
    def options(self, state: ThreadState) -> Json:
        """The answer to `session/set_config_option`."""

    @abstractmethod
    def permission(self, state: ThreadState, approval: Approval) -> Json: ...

    @abstractmethod
    def delta(self, item: Item, event: ItemDelta, before: ThreadState) -> Sequence[Update]: ...

    @abstractmethod
    def user_message(self, item: UserMessage, *, own: bool) -> Iterator[Update]: ...

    @abstractmethod
    def agent_text(self, message_id: str, text: str) -> Iterator[Update]: ...

    @abstractmethod
    def agent_text_completed(self, message_id: str, before: str, text: str) -> Iterator[Update]: ...

    @abstractmethod
    def thought(self, message_id: str, text: str) -> Iterator[Update]: ...

    @abstractmethod
    def plan(self, item: Plan) -> Iterator[Update]: ...

    @abstractmethod
    def compaction(self, item: Compaction, *, is_open: bool) -> Iterator[Update]: ...

    @abstractmethod
    def compaction_completed(self, item: Compaction) -> Iterator[Update]: ...

    @abstractmethod
    def tool_call(self, item: ToolItem, *, is_open: bool) -> Iterator[Update]: ...

    @abstractmethod
    def tool_completed(self, item: ToolItem) -> Iterator[Update]: ...

    @abstractmethod
    def call_answered(self, item: ToolItem, event: ApprovalResolved, *, runs: bool) -> Update:
        """How the question about a call ended. `runs`: it is carried out now."""

    @abstractmethod
    def settings_changed(self, change: Change) -> Iterator[Update]: ...

    @abstractmethod
    def session_info(self, state: ThreadState) -> Update: ...

    @abstractmethod
    def usage(self, used: int, size: int, spent: Cost | None) -> Update: ...

    @abstractmethod
    def notice(self, severity: str, text: str) -> Iterator[Update]: ...

    def turn_started(self, _state: ThreadState, /) -> Iterator[Update]:
        yield from ()

    def turn_ended(self, _turn: Turn, _seq: int, /) -> Iterator[Update]:
        yield from ()

    def state_changed(self, _change: Change, /) -> Iterator[Update]:
        """Whether the turn waits for the user may have changed."""
        yield from ()


def cursor(seq: int) -> dict[str, Json]:
    return {CURSOR: {"seq": seq}}


def approval_end(event: ApprovalResolved) -> dict[str, Json]:
    """How an approval ended, for clients that show it: it may have been answered elsewhere, or by nobody."""
    told: dict[str, Json] = {"id": event.approval_id, "decision": event.decision, "ended": event.how}
    if event.note:
        told["note"] = event.note
    if event.by is not None:
        told["by"] = str(event.by)
    return {APPROVAL: told}


def session_page(threads: Sequence[ThreadSummary], next_cursor: str | None) -> ListSessionsResponse:
    sessions = [
        SessionInfo(
            session_id=one.id,
            cwd=one.cwd,
            title=one.title or one.preview or None,
            updated_at=iso_date(one.updated_at_ms),
        )
        for one in threads
    ]
    return ListSessionsResponse(sessions=sessions, next_cursor=next_cursor)


def session_title(state: ThreadState) -> str | None:
    return state.title or state.preview or None


def stop_reason(turn: Turn) -> StopReason | None:
    """None: the turn failed."""
    if turn.status == "interrupted":
        return "cancelled"
    if turn.status == "failed":
        match turn.error.info if turn.error else "Other":
            case "StepLimitReached":
                return "max_turn_requests"
            case "Refusal":
                return "refusal"
            case "ReplyCutOff":
                return "max_tokens"
            case _:
                return None
    match turn.stop_reason:
        case "max_tokens" | "length":
            return "max_tokens"
        case "refusal" | "content_filter":
            return "refusal"
        case _:
            return "end_turn"


def turn_failure(turn: Turn) -> str:
    return turn.error.message if turn.error is not None else "the turn failed"


def _rest(before: str, text: str) -> str:
    """What of a completed text was not streamed. Text that was streamed cannot be taken back."""
    return text.removeprefix(before) if text.startswith(before) else ""


def _is_new(change: Change, turn_id: TurnId) -> bool:
    """Whether this change brought an item. By count, because a search would look at every item of a long turn."""
    before, after = change.before.turn(turn_id), change.after.turn(turn_id)
    return after is not None and len(after.items) > (len(before.items) if before else 0)


def _has_said(state: ThreadState, turn_id: TurnId, step: int) -> bool:
    turn = state.turn(turn_id)
    said = AgentMessage | Reasoning | WebSearch
    return any(item.step == step and isinstance(item, said) for item in (turn.items if turn else ()))
