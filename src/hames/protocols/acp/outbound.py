"""From a change to the updates of a session: what both versions have in common. Pure.

`Outbound` decides what a change means, and says what both versions say alike, with the messages of v1;
`updates/v1.py` and `updates/v2.py` say the rest in the words of their version.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, assert_never

from hames.domain import events, items
from hames.domain.approvals import Approval
from hames.domain.cost import cost
from hames.domain.foreign import FOREIGN
from hames.domain.ids import ItemId, TurnId
from hames.domain.json import Json
from hames.domain.models import Price
from hames.domain.state import Change, ThreadState, Turn
from hames.protocols.acp.client_features import ClientFeatures
from hames.protocols.acp.content import file_link, plan_entries, result_blocks, text_content
from hames.protocols.acp.dates import iso_date
from hames.protocols.acp.endings import approval_end
from hames.protocols.acp.listing import session_title
from hames.protocols.acp.messages import v1 as m
from hames.protocols.acp.options import Option, OptionMenu
from hames.protocols.acp.permissions import permission_input, permission_title
from hames.protocols.acp.tool_calls import raw_output, tool_view

Update = Json
"""One of `SessionUpdate` in the messages of the version."""

UNANSWERED = {"timedOut": "Nobody answered in time", "noClient": "No client that could answer was connected"}
DISCARDED = "Connection lost. The partial answer above was discarded"
COMMANDS: dict[str, tuple[str, str]] = {
    "compact": ("Summarise the conversation so far to free the model's context window", ""),
    "review": ("Review the uncommitted changes, or what you say", "what to review (optional)"),
}
"""Commands that a prompt may begin with a slash: what each does, and what may be typed behind it."""
METHODS = frozenset(
    {
        "initialize",
        "session/new",
        "session/resume",
        "session/list",
        "session/fork",
        "session/close",
        "session/delete",
        "session/prompt",
        "session/set_config_option",
    }
)
"""Of both versions."""


class Outbound(ABC):
    version: int
    methods: frozenset[str]
    statuses: ClassVar[Mapping[items.ItemStatus, Json]]
    """Of tool calls."""
    entry_statuses: ClassVar[Mapping[str, Json]]
    """Of the steps of a plan."""
    new_call: ClassVar[type[m.SessionToolCall | m.SessionToolCallUpdate]]
    """The update with which a tool call is seen first."""
    no_content: Json
    """The content of a call that has ended and has none."""

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
        if isinstance(event, events.ItemDelta):  # first, because a token is by far the most frequent event
            item = state.item(event.item_id)
            return () if item is None else self.delta(item, event, change.before)
        match event:
            case events.ThreadRenamed():
                return [self.session_info(state)]
            case events.SettingsChanged():
                return list(self.settings_changed(change))
            case events.TurnStarted():
                return list(self.turn_started(state))
            case events.ItemStarted(turn_id=turn_id, item=item):
                return list(self._new_item(change, item, own=own)) if _is_new(change, turn_id) else []
            case events.ItemCompleted(turn_id=turn_id, item=item):
                if _is_new(change, turn_id):
                    return [*self._title(change), *self.whole_item(item, is_open=False, own=own)]
                return list(self.item_completed(change.before.item(item.id), item))
            case events.StepVoided(turn_id=turn_id, step=step):
                return list(self.notice("warning", DISCARDED)) if _has_said(state, turn_id, step) else []
            case events.ApprovalRequested():
                return list(self.state_changed(change))
            case events.ApprovalResolved():
                return [*self._approval_resolved(change, event), *self.state_changed(change)]
            case events.UsageReported():
                return list(self._usage(state))
            case events.Noticed(severity=severity, message=message, name=name):
                return list(self.notice(severity, message or name))
            case events.TurnEnded(turn_id=turn_id):
                turn = state.turn(turn_id)
                return [] if turn is None else list(self.turn_ended(turn, change.record.seq))
            case (
                events.ThreadCreated()
                | events.ThreadArchived()
                | events.PromptQueued()
                | events.PromptRemoved()
                | events.QueueHeld()
                | events.NotesRead()
            ):
                return []  # a client has no place for them
            case events.ToolCalled() | events.ContextAdded() | events.ContextTrimmed():
                return []  # between the harness and the model
            case _ as never:
                assert_never(never)

    def _approval_resolved(self, change: Change, event: events.ApprovalResolved) -> Iterator[Update]:
        item = change.after.item(event.item_id)
        if isinstance(item, items.ToolItem):
            runs = event.decision in ("once", "always") and item.status == "running"
            yield self.call_answered(item, event, runs=runs)
        if event.how in UNANSWERED:
            yield from self.notice("info", f"{UNANSWERED[event.how]}: {event.note or event.decision}")

    def _new_item(self, change: Change, item: items.Item, *, own: bool) -> Iterator[Update]:
        yield from self._title(change)
        yield from self.whole_item(item, is_open=True, own=own)

    def _title(self, change: Change) -> Iterator[Update]:
        """The first prompt is the title until there is another."""
        if change.after.preview and not change.before.preview and not change.after.title:
            yield self.session_info(change.after)

    def whole_item(self, item: items.Item, *, is_open: bool, own: bool = False) -> Iterator[Update]:
        """An item with all that is known of it, for a client that has heard nothing of it yet."""
        match item:
            case items.UserMessage():
                yield from self.user_message(item, own=own)
            case items.AgentMessage(text=text):
                yield from self.agent_text(item.id, text)
            case items.Reasoning(text=text, summary=summary):
                yield from self.thought(item.id, summary)
                yield from self.thought(item.id, text)
            case items.Plan():
                yield from self.plan(item)
            case items.Compaction():
                yield from self.compaction(item, is_open=is_open)
            case _:
                yield from self.tool_call(item, is_open=is_open)

    def item_completed(self, before: items.Item | None, item: items.Item) -> Iterator[Update]:
        match item:
            case items.UserMessage():
                pass
            case items.AgentMessage(text=text):
                known = before.text if isinstance(before, items.AgentMessage) else ""
                yield from self.agent_text_completed(item.id, known, text)
            case items.Reasoning(text=text, summary=summary):
                known = before if isinstance(before, items.Reasoning) else items.Reasoning(id=item.id, step=0)
                yield from self.thought(item.id, _rest(known.summary, summary))
                yield from self.thought(item.id, _rest(known.text, text))
            case items.Plan():
                yield from self.plan(item)
            case items.Compaction():
                yield from self.compaction(item, is_open=False)
            case _:
                yield from self.tool_completed(item)

    def _usage(self, state: ThreadState) -> Iterator[Update]:
        used, size = state.last_usage.context_tokens, self.menu.window(state.settings.model)
        if used and size:
            dollars = cost(state.spent, self._price)
            spent = None if dollars is None else m.Cost(amount=dollars, currency="USD")
            yield m.SessionUsageUpdate(used=used, size=size, cost=spent)

    def _price(self, model: str) -> Price | None:
        card = self.menu.card(model)
        return None if card is None else card.price

    # -- what both versions say alike

    def sign_ins(self) -> list[Json]:
        words = "Use the key in the environment, or the one saved with `hames login`"
        found = [self.sign_in("api-key", "API key", words)]
        if self.client.terminal_login:
            found.append(self.sign_in("setup", "Set up Hames", "Choose a model and save its key", ["--setup"]))
        return found

    def options(self, state: ThreadState) -> list[Json]:
        return [
            self.option(
                one,
                [
                    m.SessionConfigSelectOption(value=way.id, name=way.name, description=way.description or None)
                    for way in one.choices
                ],
            )
            for one in self.menu.options(state.settings)
        ]

    def call_to_permit(self, state: ThreadState, approval: Approval, content: list[Json]) -> Json:
        item = state.item(approval.item_id)
        view = tool_view(item) if isinstance(item, items.ToolItem) else None
        return m.ToolCallUpdate(
            tool_call_id=approval.item_id,
            title=permission_title(approval),
            kind=view.kind if view else "other",
            status="pending",
            content=content or None,
            locations=view.locations if view else None,
            raw_input=permission_input(approval),
        )

    def delta(self, item: items.Item, event: events.ItemDelta, before: ThreadState) -> Sequence[Update]:
        match item:
            case items.AgentMessage():
                return [m.SessionAgentMessageChunk(content=m.TextContent(text=event.text), message_id=item.id)]
            case items.Reasoning():
                return [m.SessionAgentThoughtChunk(content=m.TextContent(text=event.text), message_id=item.id)]
            case items.Compaction() if self.client.compaction:
                return [_summary_chunk(item, event.text)]
            case items.CommandExecution() | items.McpToolCall() | items.ToolCall():
                return self.output_delta(item, event, before)
            case _:
                return ()

    def thought(self, message_id: str, text: str) -> Iterator[Update]:
        if text:
            yield m.SessionAgentThoughtChunk(content=m.TextContent(text=text), message_id=message_id)

    def plan(self, item: items.Plan) -> Iterator[Update]:
        if item.status in ("running", "completed") and (steps := plan_entries(item)):
            yield self.whole_plan(
                [
                    m.PlanEntry(content=entry.step, priority="medium", status=self.entry_statuses[entry.status])
                    for entry in steps
                ]
            )

    def compaction(self, item: items.Compaction, *, is_open: bool) -> Iterator[Update]:
        if not self.client.compaction:
            return
        if not is_open:
            status = {"completed": "completed", "interrupted": "cancelled"}.get(item.status, "failed")
            summary: list[m.ContentBlock] = [m.TextContent(text=item.summary)] if item.summary else []
            yield m.SessionCompactionUpdate(compaction_id=item.id, status=status, summary=summary or None)
            return
        yield m.SessionCompactionUpdate(compaction_id=item.id, status="in_progress")
        if item.summary:
            yield _summary_chunk(item, item.summary)

    def tool_call(self, item: items.ToolItem, *, is_open: bool) -> Iterator[Update]:
        view = tool_view(item)
        yield from self.terminal(item, is_new=True, is_open=is_open)
        yield self.new_call(
            tool_call_id=item.id,
            title=view.title,
            name=view.name,
            kind=view.kind,
            status="in_progress" if is_open else self.statuses[item.status],
            content=self.content(item) or None,
            locations=view.locations,
            raw_input=view.raw_input,
            raw_output=None if is_open else raw_output(item),
            meta=self.call_meta(item, is_new=True, is_open=is_open),
        )

    def tool_completed(self, item: items.ToolItem) -> Iterator[Update]:
        view = tool_view(item)
        yield from self.terminal(item, is_new=False, is_open=False)
        yield m.SessionToolCallUpdate(
            tool_call_id=item.id,
            title=view.title,
            status=self.statuses[item.status],
            content=self.content(item) or self.no_content,
            locations=view.locations,
            raw_output=raw_output(item),
            meta=self.call_meta(item, is_new=False, is_open=False),
        )

    def content(self, item: items.ToolItem) -> list[Json]:
        content: list[Json] = []
        reason = items.reason_of(item)
        match item:
            case items.CommandExecution():
                content = self.command_content(item)
            case items.FileChange(changes=changes):
                content = self.diffs(changes)
            case items.Artifact(path=path, title=title):
                content = [m.Content(content=file_link(path, title))]
            case items.McpToolCall(output=output, result=None) | items.ToolCall(output=output, result=None):
                content = [text_content(output)] if output else []
            case items.McpToolCall() | items.ToolCall() | items.WebSearch() | items.Plan():
                content = [m.Content(content=block) for block in result_blocks(item.result)] if not reason else []
        return [*content, text_content(reason)] if reason else content

    def call_answered(self, item: items.ToolItem, event: events.ApprovalResolved, *, runs: bool) -> Update:
        """How the question about a call ended. `runs`: it is carried out now."""
        status = "in_progress" if runs else None
        return m.SessionToolCallUpdate(tool_call_id=item.id, status=status, meta=approval_end(event))

    def settings_changed(self, change: Change) -> Iterator[Update]:
        yield m.SessionConfigOptionUpdate(config_options=self.options(change.after))

    def session_info(self, state: ThreadState) -> Update:
        return m.SessionSessionInfoUpdate(title=session_title(state), updated_at=iso_date(state.updated_at_ms))

    def notice(self, severity: str, text: str) -> Iterator[Update]:
        if self.client.notices:
            yield m.SessionNotice(severity=severity, title=text)

    # -- what each version says in its own way

    @abstractmethod
    def initialize_result(self, version: str) -> Json: ...

    @abstractmethod
    def sign_in(self, name: str, title: str, words: str, args: list[str] | None = None) -> Json:
        """`args`: of a command in a terminal that signs in."""

    @abstractmethod
    def opened(self, state: ThreadState, *, is_new: bool) -> Json:
        """The answer to a request that opens a session; with its id if it is a new one."""

    def before_opened(self, _state: ThreadState, /, *, is_new: bool) -> Iterator[Update]:  # noqa: ARG002
        yield from ()

    def after_opened(self, _state: ThreadState, /) -> Iterator[Update]:
        yield from ()

    @abstractmethod
    def option(self, option: Option, choices: list[m.SessionConfigSelectOption]) -> Json: ...

    @abstractmethod
    def permission(self, state: ThreadState, approval: Approval) -> Json: ...

    @abstractmethod
    def output_delta(
        self,
        item: items.CommandExecution | items.McpToolCall | items.ToolCall,
        event: events.ItemDelta,
        before: ThreadState,
    ) -> Sequence[Update]: ...

    @abstractmethod
    def user_message(self, item: items.UserMessage, *, own: bool) -> Iterator[Update]: ...

    @abstractmethod
    def agent_text(self, message_id: str, text: str) -> Iterator[Update]: ...

    @abstractmethod
    def agent_text_completed(self, message_id: str, before: str, text: str) -> Iterator[Update]: ...

    @abstractmethod
    def whole_plan(self, entries: list[m.PlanEntry]) -> Update: ...

    @abstractmethod
    def command_content(self, item: items.CommandExecution) -> list[Json]: ...

    @abstractmethod
    def diffs(self, changes: tuple[items.FileUpdate, ...]) -> list[Json]: ...

    def terminal(self, _item: items.ToolItem, /, *, is_new: bool, is_open: bool) -> Iterator[Update]:  # noqa: ARG002
        """The terminal of a call, in front of the call."""
        yield from ()

    def call_meta(self, _item: items.ToolItem, /, *, is_new: bool, is_open: bool) -> dict[str, Json] | None:  # noqa: ARG002
        return None

    def turn_started(self, _state: ThreadState, /) -> Iterator[Update]:
        yield from ()

    def turn_ended(self, _turn: Turn, _seq: int, /) -> Iterator[Update]:
        yield from ()

    def state_changed(self, _change: Change, /) -> Iterator[Update]:
        """Whether the turn waits for the user may have changed."""
        yield from ()


def _summary_chunk(item: items.Compaction, text: str) -> Update:
    return m.SessionCompactionSummaryChunk(compaction_id=item.id, content=m.TextContent(text=text))


def _rest(before: str, text: str) -> str:
    """What of a completed text was not streamed. Text that was streamed cannot be taken back."""
    return text.removeprefix(before) if text.startswith(before) else ""


def _is_new(change: Change, turn_id: TurnId) -> bool:
    """Whether this change brought an item. By count, because a search would look at every item of a long turn."""
    before, after = change.before.turn(turn_id), change.after.turn(turn_id)
    return after is not None and len(after.items) > (len(before.items) if before else 0)


def _has_said(state: ThreadState, turn_id: TurnId, step: int) -> bool:
    turn = state.turn(turn_id)
    said = items.AgentMessage | items.Reasoning | items.WebSearch
    return any(item.step == step and isinstance(item, said) for item in (turn.items if turn else ()))
