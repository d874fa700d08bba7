"""What an agent tells its client, as typed events.

`read_event` turns a notification into one and raises nothing: a method nobody here knows, or a
message in a shape of tomorrow, becomes an `Unknown` with everything in it.
"""

from collections.abc import Callable

import msgspec

from hames.domain.json import Json
from hames.domain.value import Value
from hames.protocols.flint import messages as m
from hames.protocols.flint.items import ThreadItem, read_item


class ThreadRenamed(Value):
    thread_id: str
    name: str


class ThreadArchived(Value):
    thread_id: str
    archived: bool


class SettingsChanged(Value):
    thread_id: str
    settings: m.ThreadSettings


class NotesChanged(Value):
    """The project notes that the model is shown, by path."""

    thread_id: str
    paths: list[str]


class TurnStarted(m.TurnChanged):
    pass


class TurnCompleted(m.TurnChanged):
    """However it ended: `turn.status` says how, `turn.items` has all of it."""


class ItemStarted(Value):
    thread_id: str
    turn_id: str
    item: ThreadItem


class ItemDelta(Value):
    """A piece of what an item says. `channel` is the method behind `item/`: `reasoning/textDelta`, …"""

    thread_id: str
    turn_id: str
    item_id: str
    channel: str
    text: str


class ItemCompleted(Value):
    """The item's final state, which counts: deltas may be forgotten."""

    thread_id: str
    turn_id: str
    item: ThreadItem


class ThreadStarted(m.ThreadStarted):
    """It was made, resumed or forked."""


class StatusChanged(m.ThreadStatusChanged):
    pass


class QueueChanged(m.ThreadQueueChanged):
    pass


class PlanUpdated(m.TurnPlanUpdated):
    pass


class UsageUpdated(m.TokenUsageUpdated):
    pass


Question = (
    m.CommandApprovalParams
    | m.FileChangeApprovalParams
    | m.McpApprovalParams
    | m.ToolApprovalParams
    | m.ElicitationParams
)


class ApprovalAsked(Value):
    """Something waits for a decision. `params` is the question, by its type."""

    request_id: str
    thread_id: str
    method: str
    params: Question

    @property
    def offers_always(self) -> bool:
        """Whether it can be allowed for good. A server that does not say what it offers takes every answer."""
        offered = self.params.available_decisions
        return not offered or "acceptForSession" in offered

    @property
    def always_covers(self) -> str:
        """What `acceptForSession` would allow, as a phrase; empty if it is not offered or unknown."""
        if isinstance(self.params, m.ElicitationParams) or self.params.always_covers is None or not self.offers_always:
            return ""
        return self.params.always_covers.text

    @property
    def project_covers(self) -> str:
        """The rule that `acceptForProject` would keep, as a phrase; empty if none is offered."""
        if isinstance(self.params, m.ElicitationParams) or self.params.project_covers is None:
            return ""
        return self.params.project_covers.text if "acceptForProject" in self.params.available_decisions else ""


class ApprovalSettled(Value):
    """Decided, by this client or another, or void because the turn ended."""

    thread_id: str
    request_id: str


class Unknown(Value):
    """A notification this version does not know: a provider's own, or one of tomorrow's."""

    method: str
    params: Json

    @property
    def thread_id(self) -> str | None:
        found = self.params.get("threadId") if isinstance(self.params, dict) else None
        return found if isinstance(found, str) else None

    @property
    def message(self) -> str:
        """What it says to people, if it does."""
        found = self.params.get("message") if isinstance(self.params, dict) else None
        return found if isinstance(found, str) else ""


class Closed(Value):
    """The last event of all: the agent is gone, or we are."""

    why: str
    thread_id: None = None


AgentEvent = (
    ThreadStarted
    | ThreadRenamed
    | ThreadArchived
    | StatusChanged
    | SettingsChanged
    | NotesChanged
    | QueueChanged
    | TurnStarted
    | TurnCompleted
    | PlanUpdated
    | UsageUpdated
    | ItemStarted
    | ItemDelta
    | ItemCompleted
    | ApprovalAsked
    | ApprovalSettled
    | Unknown
    | Closed
)


def thread_of(event: AgentEvent) -> str | None:
    """Which thread it is about."""
    return event.thread.id if isinstance(event, ThreadStarted) else event.thread_id


def read_event(method: str, params: Json) -> AgentEvent:
    try:
        if method in _DELTAS:
            return _delta(method, params)
        if method in _EVENTS:
            return _EVENTS[method](with_items(params))
    except (msgspec.ValidationError, KeyError, TypeError):
        pass
    return Unknown(method=method, params=params)


def read_question(request_id: str, method: str, params: Json) -> ApprovalAsked | None:
    """None for a request that is no approval, or none that can be read."""
    if (shape := _QUESTIONS.get(method)) is None:
        return None
    try:
        asked = msgspec.convert(params, shape)
    except msgspec.ValidationError:
        return None
    return ApprovalAsked(request_id=request_id, thread_id=asked.thread_id, method=method, params=asked)


def with_items(value: Json) -> Json:
    """The same members, with every item read; an item of an unknown type is kept whole."""
    if not isinstance(value, dict):
        return value
    found = dict(value)
    if "item" in found:
        found["item"] = read_item(found["item"])
    if isinstance(found.get("items"), list):
        found["items"] = [read_item(item) for item in found["items"]]
    for name in ("turn", "thread"):
        if isinstance(found.get(name), dict):
            found[name] = with_items(found[name])
    for name in ("turns", "data"):
        if isinstance(found.get(name), list):
            found[name] = [with_items(one) for one in found[name]]
    return found


def _delta(method: str, params: Json) -> ItemDelta:
    told = msgspec.convert(params, m.Delta)
    return ItemDelta(
        thread_id=told.thread_id,
        turn_id=told.turn_id,
        item_id=told.item_id,
        channel=method.removeprefix("item/"),
        text=told.delta,
    )


def _settings(params: Json) -> SettingsChanged:
    told = msgspec.convert(params, m.ThreadSettingsUpdated)
    return SettingsChanged(thread_id=told.thread_id, settings=told.thread_settings)


def _notes(params: Json) -> NotesChanged:
    told = msgspec.convert(params, m.InstructionSources)
    return NotesChanged(thread_id=told.thread_id, paths=told.instruction_sources)


def _whole(kind: type[AgentEvent]) -> Callable[[Json], AgentEvent]:
    """A notification that is told as it came."""
    return lambda params: msgspec.convert(params, kind, from_attributes=True)


def _item(kind: type[ItemStarted] | type[ItemCompleted]) -> Callable[[Json], AgentEvent]:
    def read(params: Json) -> AgentEvent:
        return kind(thread_id=_text(params, "threadId"), turn_id=_text(params, "turnId"), item=params["item"])

    return read


def _text(params: Json, name: str) -> str:
    return msgspec.convert(params[name], str)


_DELTAS = frozenset(
    {
        "item/agentMessage/delta",
        "item/reasoning/textDelta",
        "item/reasoning/summaryTextDelta",
        "item/commandExecution/outputDelta",
        "item/fileChange/outputDelta",
        "item/mcpToolCall/outputDelta",
        "item/plan/delta",
        "item/toolCall/outputDelta",
        "item/contextCompaction/delta",
    }
)

_EVENTS: dict[str, Callable[[Json], AgentEvent]] = {
    "thread/started": _whole(ThreadStarted),
    "thread/name/updated": lambda params: ThreadRenamed(
        thread_id=_text(params, "threadId"), name=_text(params, "threadName")
    ),
    "thread/archived": lambda params: ThreadArchived(thread_id=_text(params, "threadId"), archived=True),
    "thread/unarchived": lambda params: ThreadArchived(thread_id=_text(params, "threadId"), archived=False),
    "thread/status/changed": _whole(StatusChanged),
    "thread/settings/updated": _settings,
    "thread/queue/changed": _whole(QueueChanged),
    "thread/instructionSources/updated": _notes,
    "thread/tokenUsage/updated": _whole(UsageUpdated),
    "turn/started": _whole(TurnStarted),
    "turn/completed": _whole(TurnCompleted),
    "turn/plan/updated": _whole(PlanUpdated),
    "item/started": _item(ItemStarted),
    "item/completed": _item(ItemCompleted),
    "serverRequest/resolved": lambda params: ApprovalSettled(
        thread_id=_text(params, "threadId"), request_id=str(msgspec.convert(params["requestId"], str | int))
    ),
}

_QUESTIONS: dict[str, type[Question]] = {
    "item/commandExecution/requestApproval": m.CommandApprovalParams,
    "item/fileChange/requestApproval": m.FileChangeApprovalParams,
    "item/mcpToolCall/requestApproval": m.McpApprovalParams,
    "item/toolCall/requestApproval": m.ToolApprovalParams,
    "mcpServer/elicitation/request": m.ElicitationParams,
}
