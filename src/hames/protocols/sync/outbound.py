"""From a change to the operations that bring a client from the view before to the view after.

It is the difference of two views, made cheap: values are shared between states, so what is the very same value
has not changed and is not looked at. A law in the tests holds it to the difference.
"""

from collections.abc import Iterator

import msgspec

from hames.domain import items
from hames.domain.events import ItemDelta, Noticed
from hames.domain.ids import ItemId, TurnId
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState, Turn
from hames.protocols.sync import messages as m
from hames.protocols.sync import view as views
from hames.protocols.sync.messages import AppendText, Operation, Set
from hames.protocols.sync.tails import omitted_units, units
from hames.protocols.sync.tools import output_of
from hames.protocols.sync.turns import Draft, last_reply, layout, message, message_status
from hames.protocols.sync.view import Offer, view

STREAMED = frozenset({"content", "reasoning", "output"})
"""Members that grow by `append-text`."""

Path = tuple[str, ...]


def project(change: Change, offer: Offer) -> list[Operation]:
    return Projector(offer).project(change)


def snapshot(state: ThreadState, offer: Offer) -> m.StateMessage:
    return m.StateMessage(state=view(state, offer), rev=state.seq)


class Projector:
    """`project`, for one thread and many changes in their order: it remembers where things are.

    Nothing in it is a state of its own. A place never changes, so what is remembered is what would be found again.
    """

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._turn_id: TurnId | None = None
        self._offset = 0
        self._places: dict[ItemId, Path] = {}
        self._units: dict[ItemId, int] = {}

    def project(self, change: Change) -> list[Operation]:
        event = change.record.event
        if isinstance(event, ItemDelta) and (operations := self._delta(change, event)) is not None:
            return operations
        before, after = change.before, change.after
        undone = isinstance(event, Noticed) and before.turns is not after.turns  # of any turn
        if undone or before.settings.cwd != after.settings.cwd or _is_rewritten(before, after):
            return list(diff(view(before, self._offer), view(after, self._offer)))
        return [*self._messages(before, after), *self._head(before, after)]

    # -- streams

    def _delta(self, change: Change, delta: ItemDelta) -> list[Operation] | None:
        """Two views per token would be quadratic in a long turn. None: this is no plain append."""
        turn = change.after.running
        if turn is None or turn.id != delta.turn_id:
            return None
        item = next((item for item in reversed(turn.items) if item.id == delta.item_id), None)
        first = False
        match item:
            case items.AgentMessage(text=text) if delta.stream == "text":
                member, first = "content", len(text) == len(delta.text)
            case items.Reasoning(summary="", text=text) if delta.stream == "text":
                member, first = "reasoning", len(text) == len(delta.text)
            case items.CommandExecution() | items.FileChange() | items.McpToolCall() | items.ToolCall():
                if delta.stream != "output" or not self._extends_tail(item, delta.text):
                    return None
                member = "output"
            case _:
                return None
        if not delta.text:
            return []
        path = self._place(change.after, turn, delta.item_id)
        append = AppendText(path=(*path, member), value=delta.text)
        return [*self._first_text(change, turn, path), append] if first else [append]

    def _first_text(self, change: Change, turn: Turn, path: Path) -> Iterator[Operation]:
        """The first word of a message takes it out of its waiting."""
        before, number = change.before.running, int(path[1]) - self._offset
        now = message_status(turn, layout(turn), number)
        if before is None or message_status(before, layout(before), number) != now:
            yield Set(path=(*path[:2], "status"), value=now)

    def _extends_tail(
        self, item: items.CommandExecution | items.FileChange | items.McpToolCall | items.ToolCall, text: str
    ) -> bool:
        """Whether the tail after this text is the tail before it and the text."""
        if item.result is not None and len(item.output) == len(text):
            return False  # a result was shown, and goes
        known = self._units.get(item.id)
        count = known + units(text) if known is not None else units(item.output)
        self._units[item.id] = count
        return omitted_units(count) == omitted_units(count - units(text))

    def _place(self, state: ThreadState, turn: Turn, item_id: ItemId) -> Path:
        self._look_at(state, turn)
        if item_id not in self._places:
            self._places |= _places(layout(turn), self._offset)
        return self._places[item_id]

    def _look_at(self, state: ThreadState, turn: Turn) -> None:
        if self._turn_id != turn.id:
            self._turn_id = turn.id
            self._offset = sum(len(layout(earlier)) for earlier in state.turns[:-1])
            self._places = {}
            self._units = {}

    # -- messages

    def _messages(self, before: ThreadState, after: ThreadState) -> Iterator[Operation]:
        if not after.turns:
            return
        turn = after.turns[-1]
        earlier = before.turns[-1] if before.turns and before.turns[-1].id == turn.id else None
        same = earlier is not None and earlier.items is turn.items and earlier.answered is turn.answered
        if same and earlier is not None and earlier.status == turn.status:
            return
        self._look_at(after, turn)
        self._units.clear()
        drafts = layout(turn)
        old = layout(earlier) if earlier is not None else []
        for number in range(len(drafts)):
            path = ("messages", str(self._offset + number))
            if number >= len(old) or earlier is None:
                yield Set(path=path, value=message(turn, drafts, number, after.id, after.settings.cwd))
            elif not _is_unchanged(earlier, old, turn, drafts, number):
                was = message(earlier, old, number, after.id, after.settings.cwd)
                now = message(turn, drafts, number, after.id, after.settings.cwd)
                yield from diff(was, now, path)

    # -- everything else

    def _head(self, before: ThreadState, after: ThreadState) -> Iterator[Operation]:
        for member, was, now in (
            ("error", views.error_of(before)[0], views.error_of(after)[0]),
            ("errorInfo", views.error_of(before)[1], views.error_of(after)[1]),
            ("status", views.status_of(before), views.status_of(after)),
            ("queueHeld", views.held_of(before), views.held_of(after)),
        ):
            if was != now:
                yield Set(path=(member,), value=now)
        yield from diff(views.head_of(before), views.head_of(after), ("thread",))
        if before.approvals is not after.approvals:
            yield from _replace_if_changed("approvals", views.approvals_of(before), views.approvals_of(after))
        if before.queue is not after.queue:
            yield from _replace_if_changed("queue", views.queue_of(before), views.queue_of(after))
        if before.warnings is not after.warnings:
            yield from _replace_if_changed("notices", views.notices_of(before), views.notices_of(after))
        yield from self._plan(before, after)
        if _usage_changed(before, after) or _settings_changed(before, after):
            yield from _replace_if_changed(
                "usage", views.usage_of(before, self._offer), views.usage_of(after, self._offer)
            )
        if _settings_changed(before, after):
            yield from _replace_if_changed("settings", views.settings_of(before), views.settings_of(after))
            yield from _replace_if_changed(
                "selectors", views.selectors_of(before, self._offer), views.selectors_of(after, self._offer)
            )

    def _plan(self, before: ThreadState, after: ThreadState) -> Iterator[Operation]:
        if not after.turns or (before.turns and before.turns[-1].items is after.turns[-1].items):
            return
        now = views.plan_of_turn(after.turns[-1])
        if now is not None and now != views.plan_of(before):
            yield Set(path=("plan",), value=now)


def diff(before: msgspec.Struct, after: msgspec.Struct, path: Path = ()) -> Iterator[Operation]:
    """What turns one value into another of its type."""
    for field in msgspec.structs.fields(type(after)):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if was is now or was == now:
            continue
        here = (*path, field.encode_name)
        if isinstance(now, m.ThreadHead):
            yield from diff(was, now, here)
        elif field.name in ("messages", "tool_calls") and len(was) <= len(now):
            yield from _diff_list(was, now, here)
        elif field.name in STREAMED and was and now.startswith(was):
            yield AppendText(path=here, value=now[len(was) :])
        else:
            yield Set(path=here, value=now)


def _diff_list(
    before: tuple[msgspec.Struct, ...], after: tuple[msgspec.Struct, ...], path: Path
) -> Iterator[Operation]:
    for number, now in enumerate(after):
        here = (*path, str(number))
        if number >= len(before):
            yield Set(path=here, value=now)
        else:
            yield from diff(before[number], now, here)


def _replace_if_changed(member: str, was: Json, now: Json) -> Iterator[Operation]:
    if was != now:
        yield Set(path=(member,), value=now)


def _usage_changed(before: ThreadState, after: ThreadState) -> bool:
    return before.usage is not after.usage or before.last_usage is not after.last_usage


def _settings_changed(before: ThreadState, after: ThreadState) -> bool:
    return before.settings is not after.settings


def _is_rewritten(before: ThreadState, after: ThreadState) -> bool:
    """Not the ordinary way on: a thread that changed its name, or a history that is not the earlier one and more."""
    return before.id != after.id or not 0 <= len(after.turns) - len(before.turns) <= 1


def _is_unchanged(earlier: Turn, old: list[Draft], turn: Turn, drafts: list[Draft], number: int) -> bool:
    if not old[number].same(drafts[number]):
        return False
    if message_status(earlier, old, number) != message_status(turn, drafts, number):
        return False
    if earlier.answered is not turn.answered and drafts[number].tools:
        return False
    return earlier.status == turn.status or number != last_reply(drafts)


def _places(drafts: list[Draft], offset: int) -> dict[ItemId, Path]:
    found: dict[ItemId, Path] = {}
    for number, draft in enumerate(drafts):
        path = ("messages", str(offset + number))
        if draft.reasoning is not None:
            found[draft.reasoning.id] = path
        if draft.text is not None:
            found[draft.text.id] = path
        for position, item in enumerate(draft.tools):
            found[item.id] = (*path, "toolCalls", str(position))
    return found


def whole_output(state: ThreadState, item_id: ItemId) -> str | None:
    """Everything a tool said, where the state carries a tail. None: no such tool call."""
    item = state.item(item_id)
    if item is None or isinstance(item, items.UserMessage | items.AgentMessage | items.Reasoning):
        return None
    return output_of(item)
