"""The state of a thread, computed from its events by one pure function: `apply`.

`apply` is pure and total: a record that makes no sense (a delta for an item
that is not there) changes nothing but the position, so that a damaged log still opens.
"""

from collections.abc import Callable
from typing import Literal, assert_never

from msgspec.structs import replace

from hames.domain import events
from hames.domain.actors import Actor
from hames.domain.approvals import Approval, is_about_running
from hames.domain.authority import grants_after
from hames.domain.commands import Standing, ThreadSummary
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import (
    OUTPUT_HEAD,
    AgentMessage,
    Compaction,
    Item,
    Reasoning,
    TextInput,
    UserMessage,
    WebSearch,
    extended,
)
from hames.domain.json import NOTHING, Json
from hames.domain.options import Settings
from hames.domain.policy import Grant
from hames.domain.project_notes import NoteFile
from hames.domain.servers import warnings_after, without_waiting
from hames.domain.situation import Situation
from hames.domain.turn_parts import AddedContext, AnsweredApproval, Called, QueuedPrompt, Warned
from hames.domain.undo import undone_after, undone_paths
from hames.domain.usage import Usage
from hames.domain.value import Value

PREVIEW_CHARS = 120
LONGEST_TURN_MS = 30 * 86_400_000
"""No turn takes longer: where the clock says so, it was set."""
WARNINGS = 20
"""So many are remembered."""


class Turn(Value):
    id: TurnId
    started_at_ms: int
    kind: events.TurnKind = "prompt"
    status: events.TurnStatus = "running"
    ended_at_ms: int | None = None
    duration_ms: int | None = None
    """None while it runs, and where the clock says what cannot be."""
    items: tuple[Item, ...] = ()
    open: tuple[ItemId, ...] = ()
    """The items that were started and not yet completed."""
    calls: tuple[Called, ...] = ()
    context: tuple[AddedContext, ...] = ()
    void_steps: tuple[int, ...] = ()
    unanswered: tuple[ItemId, ...] = ()
    """Items that waited for an approval when the turn ended: they never ran."""
    usage: Usage = Usage()
    spent: dict[str, Usage] = {}
    """`usage` by model, because each has its own price."""
    replies: int = 0
    """How many model replies reported their tokens."""
    waited_ms: int = 0
    """How long its questions waited for their answers."""
    error: events.TurnError | None = None
    stop_reason: str = ""
    output_schema: Json = NOTHING
    """The JSON Schema that its final answer has to match."""
    meta: Json = NOTHING
    crashes: int = 0
    """How often its process died and the turn was continued."""
    model: str = ""
    """The model of this turn alone; empty: the thread's."""
    paused: bool = False
    """A server was stopped in good order while it ran, and it has not been continued since."""
    by: Actor | None = None
    ended_by: Actor | None = None
    """Who interrupted it."""
    answered: tuple[AnsweredApproval, ...] = ()
    undone: tuple[str, ...] = ()
    """Files, by absolute path, of which its changes were taken back by an undo and not done again."""


class ThreadState(Value):
    id: ThreadId
    settings: Settings
    seq: int = 0
    created_at_ms: int = 0
    updated_at_ms: int = 0
    title: str = ""
    preview: str = ""
    archived: bool = False
    forked_from: ThreadId | None = None
    foreign: bool = False
    """Not written by this user on this machine. No event says so: whoever opens the log does."""
    format: int = 0
    meta: Json = NOTHING
    ephemeral: bool = False
    turns: tuple[Turn, ...] = ()
    approvals: tuple[Approval, ...] = ()
    """The pending ones."""
    grants: tuple[Grant, ...] = ()
    queue: tuple[QueuedPrompt, ...] = ()
    queue_held: bool = False
    usage: Usage = Usage()
    last_usage: Usage = Usage()
    """Of the last model call: how full the window is. Nothing once the conversation was shortened, until the next."""
    spent: dict[str, Usage] = {}
    """`usage` by model, because each has its own price."""
    warnings: tuple[Warned, ...] = ()
    """The latest ones, oldest first."""
    notes: tuple[NoteFile, ...] = ()
    """The project notes that the model is shown."""
    situation: Situation | None = None
    """What the model was last told about where it works."""
    trimmed: events.ContextTrimmed | None = None
    """How much of its past the model is shown; None: all of it."""

    @property
    def running(self) -> Turn | None:
        return self.turns[-1] if self.turns and self.turns[-1].status == "running" else None

    @property
    def standing(self) -> Standing:
        status = thread_status(self)
        return "idle" if status == "failed" else status

    def turn(self, turn_id: TurnId) -> Turn | None:
        return next((turn for turn in reversed(self.turns) if turn.id == turn_id), None)

    def item(self, item_id: ItemId) -> Item | None:
        for turn in reversed(self.turns):
            for item in reversed(turn.items):
                if item.id == item_id:
                    return item
        return None


ThreadStatus = Literal["away", "idle", "running", "asking", "failed"]
"""`asking`: it runs, and waits for an answer. `failed`: the last turn failed, or ended because the harness stopped."""


def thread_status(state: ThreadState | None) -> ThreadStatus:
    """What a thread is doing. `state` is None for a thread that is not loaded."""
    if state is None:
        return "away"
    if state.running is not None:
        return "asking" if state.approvals else "running"
    last = state.turns[-1] if state.turns else None
    failed = last is not None and (last.status == "failed" or (last.status == "interrupted" and last.error is not None))
    return "failed" if failed else "idle"


class Change(Value):
    """A record with the state before and after it: what makes projections stateless."""

    record: events.Record
    before: ThreadState
    after: ThreadState

    @property
    def is_passing(self) -> bool:
        """Told to whoever watches, and in no log: it changes nothing."""
        return self.before is self.after


def blank(thread_id: ThreadId, *, foreign: bool = False) -> ThreadState:
    """Before the first record."""
    return ThreadState(id=thread_id, settings=Settings(model="", cwd=""), foreign=foreign)


def apply(state: ThreadState, record: events.Record) -> ThreadState:
    event = record.event
    if isinstance(event, events.ItemDelta):  # first, because a token is by far the most frequent event
        return _in_turn(
            state,
            record,
            event.turn_id,
            lambda turn: _with_item(turn, event.item_id, lambda item: extended(item, event.stream, event.text)),
        )
    match event:
        case events.ThreadCreated():
            return replace(
                state,
                seq=record.seq,
                settings=event.settings,
                title=event.title,
                format=event.format,
                forked_from=event.forked_from,
                meta=event.meta,
                ephemeral=event.ephemeral,
                created_at_ms=record.at_ms,
                updated_at_ms=record.at_ms,
            )
        case events.ThreadRenamed(title=title):
            return replace(state, seq=record.seq, updated_at_ms=record.at_ms, title=title)
        case events.ThreadArchived(archived=archived):
            # Putting a thread away and taking it back leaves it where it was in the list.
            return replace(state, seq=record.seq, archived=archived)
        case events.SettingsChanged(settings=settings):
            grants = grants_after(state.settings, state.grants, event)
            return replace(state, seq=record.seq, updated_at_ms=record.at_ms, settings=settings, grants=grants)
        case events.TurnStarted():
            turn = Turn(
                id=event.turn_id,
                kind=event.kind,
                started_at_ms=record.at_ms,
                output_schema=event.output_schema,
                meta=event.meta,
                by=event.by,
                model=event.model,
            )
            return replace(state, seq=record.seq, updated_at_ms=record.at_ms, turns=(*state.turns, turn))
        case events.ItemStarted(item=item):
            state = _in_turn(state, record, event.turn_id, lambda turn: _opened(turn, item))
            return _previewed(state, item)
        case events.ItemCompleted(item=item):
            if _shortens(state, item):
                state = replace(state, last_usage=Usage())
            state = _in_turn(state, record, event.turn_id, lambda turn: _completed(turn, item))
            return _previewed(state, item)
        case events.ToolCalled(step=step, call=call):
            return _in_turn(
                state,
                record,
                event.turn_id,
                lambda turn: replace(turn, calls=(*turn.calls, Called(step=step, position=len(turn.items), call=call))),
            )
        case events.StepVoided(step=step):
            return _in_turn(
                state, record, event.turn_id, lambda turn: replace(turn, void_steps=(*turn.void_steps, step))
            )
        case events.ApprovalRequested(approval=approval):
            approval = replace(approval, asked_at_ms=approval.asked_at_ms or record.at_ms)
            return replace(_asked(state, approval), seq=record.seq, approvals=(*state.approvals, approval))
        case events.ApprovalResolved(approval_id=approval_id, grant=grant):
            return replace(
                _answered(_unanswered(state, event), event),
                seq=record.seq,
                approvals=tuple(a for a in state.approvals if a.id != approval_id),
                grants=state.grants if grant is None or grant in state.grants else (*state.grants, grant),
            )
        case events.UsageReported(usage=usage, model=model):
            state = _in_turn(
                state,
                record,
                event.turn_id,
                lambda turn: replace(
                    turn, usage=turn.usage + usage, spent=_paid(turn.spent, model, usage), replies=turn.replies + 1
                ),
            )
            spent = _paid(state.spent, model, usage)
            return replace(state, usage=state.usage + usage, last_usage=usage, spent=spent)
        case events.PromptQueued():
            prompt = QueuedPrompt(
                id=event.prompt_id,
                content=event.content,
                output_schema=event.output_schema,
                meta=event.meta,
                by=event.by,
            )
            return replace(state, seq=record.seq, queue=(*state.queue, prompt))
        case events.PromptRemoved(prompt_id=prompt_id):
            return replace(state, seq=record.seq, queue=tuple(p for p in state.queue if p.id != prompt_id))
        case events.QueueHeld(held=held):
            return replace(state, seq=record.seq, queue_held=held)
        case events.Noticed():
            return _noticed(state, record, event)
        case events.NotesRead(files=files):
            return replace(state, seq=record.seq, notes=files)
        case events.ContextAdded(situation=situation):
            state = _in_turn(state, record, event.turn_id, lambda turn: _with_context(turn, event))
            return state if situation is None else replace(state, situation=situation)
        case events.ContextTrimmed():
            return replace(state, seq=record.seq, trimmed=event, last_usage=Usage())
        case events.TurnEnded():
            return _in_turn(
                replace(state, warnings=without_waiting(state.warnings)),
                record,
                event.turn_id,
                lambda turn: replace(
                    turn,
                    status=event.status,
                    error=event.error,
                    stop_reason=event.stop_reason,
                    waited_ms=event.waited_ms,
                    ended_at_ms=record.at_ms,
                    ended_by=event.by,
                    duration_ms=_duration(turn, event, record.at_ms),
                ),
            )
        case _ as never:
            assert_never(never)


def _duration(turn: Turn, event: events.TurnEnded, at_ms: int) -> int | None:
    if event.duration_ms is not None:
        return event.duration_ms
    return took if 0 <= (took := at_ms - turn.started_at_ms) <= LONGEST_TURN_MS else None


def is_voided(turn: Turn, item: Item) -> bool:
    """Whether it is of a reply that broke off: people saw it, the model was not shown it."""
    return item.step in turn.void_steps and isinstance(item, AgentMessage | Reasoning | WebSearch)


def _in_turn(state: ThreadState, record: events.Record, turn_id: TurnId, change: Callable[[Turn], Turn]) -> ThreadState:
    turns = state.turns
    if turns and turns[-1].id == turn_id:
        turns = (*turns[:-1], change(turns[-1]))
    return replace(state, seq=record.seq, updated_at_ms=record.at_ms, turns=turns)


def _paid(spent: dict[str, Usage], model: str, usage: Usage) -> dict[str, Usage]:
    return {**spent, model: spent.get(model, Usage()) + usage}


def _opened(turn: Turn, item: Item) -> Turn:
    return replace(turn, items=(*turn.items, item), open=(*turn.open, item.id))


def _shortens(state: ThreadState, item: Item) -> bool:
    """Whether this completes a summary that takes the place of the conversation."""
    if not isinstance(item, Compaction) or item.status != "completed":
        return False
    return bool(state.turns) and item.id in state.turns[-1].open


def _with_context(turn: Turn, event: events.ContextAdded) -> Turn:
    added = AddedContext(step=event.step, position=len(turn.items), text=event.text)
    return replace(turn, context=(*turn.context, added))


def _completed(turn: Turn, item: Item) -> Turn:
    still_open = tuple(item_id for item_id in turn.open if item_id != item.id)
    if all(item.id != there.id for there in reversed(turn.items)):
        return replace(turn, items=(*turn.items, item), open=still_open)
    return _with_item(replace(turn, open=still_open), item.id, lambda _: item)


def _noticed(state: ThreadState, record: events.Record, notice: events.Noticed) -> ThreadState:
    if (
        notice.source == "hames"
        and notice.name in (events.TURN_CONTINUED, events.TURN_PAUSED)
        and notice.turn_id is not None
    ):
        paused = notice.name == events.TURN_PAUSED
        state = _in_turn(state, record, notice.turn_id, lambda turn: _continued(turn, state, paused=paused))
    if notice.source == "hames" and notice.name in (events.UNDONE, events.REDONE):
        turns = tuple(_undone(turn, notice, state.settings.cwd) for turn in state.turns)
        state = replace(state, turns=turns)
    warnings = warnings_after(state.warnings, record.at_ms, notice)
    return replace(state, seq=record.seq, warnings=warnings[-WARNINGS:])


def _undone(turn: Turn, notice: events.Noticed, cwd: str) -> Turn:
    paths = undone_paths(notice.data, turn.id)
    return replace(turn, undone=undone_after(turn.undone, notice.name, paths, cwd)) if paths else turn


def _continued(turn: Turn, state: ThreadState, *, paused: bool) -> Turn:
    """A server that was stopped in good order, or that waited for an answer, did not die of the turn."""
    if paused:
        return replace(turn, paused=True)
    innocent = turn.paused or bool(state.approvals)
    return replace(turn, paused=False, crashes=turn.crashes if innocent else turn.crashes + 1)


def _with_item(turn: Turn, item_id: ItemId, change: Callable[[Item], Item]) -> Turn:
    items = turn.items
    for index in range(len(items) - 1, -1, -1):  # nearly always the last
        if items[index].id == item_id:
            changed = list(items)
            changed[index] = change(items[index])
            return replace(turn, items=tuple(changed))
    return turn


def _unanswered(state: ThreadState, event: events.ApprovalResolved) -> ThreadState:
    """Questions of a tool that runs leave it as it is; any other question comes before its tool does."""
    asked = next((one for one in state.approvals if one.id == event.approval_id), None)
    if event.decision != "void" or asked is None or is_about_running(asked.intent) or not state.turns:
        return state
    last = state.turns[-1]
    if last.id != event.turn_id:
        return state
    return replace(state, turns=(*state.turns[:-1], replace(last, unanswered=(*last.unanswered, event.item_id))))


def _asked(state: ThreadState, approval: Approval) -> ThreadState:
    """An item that is asked about again has not been left unanswered."""
    if not state.turns or approval.item_id not in state.turns[-1].unanswered:
        return state
    last = state.turns[-1]
    left = tuple(item_id for item_id in last.unanswered if item_id != approval.item_id)
    return replace(state, turns=(*state.turns[:-1], replace(last, unanswered=left)))


def _answered(state: ThreadState, event: events.ApprovalResolved) -> ThreadState:
    """What the log of an earlier version does not say is not remembered either."""
    if event.by is None or not state.turns or state.turns[-1].id != event.turn_id:
        return state
    last = state.turns[-1]
    answer = AnsweredApproval(item_id=event.item_id, decision=event.decision, by=event.by)
    return replace(state, turns=(*state.turns[:-1], replace(last, answered=(*last.answered, answer))))


def _previewed(state: ThreadState, item: Item) -> ThreadState:
    if state.preview or not isinstance(item, UserMessage):
        return state
    texts = [part.text for part in item.content if isinstance(part, TextInput)]
    typed = " ".join(text for text in texts if not text.startswith(OUTPUT_HEAD)).split()
    return replace(state, preview=" ".join(typed)[:PREVIEW_CHARS])


def summary(state: ThreadState) -> ThreadSummary:
    """The thread as a list shows it."""
    return ThreadSummary(
        id=state.id,
        title=state.title,
        preview=state.preview,
        cwd=state.settings.cwd,
        model=state.settings.model,
        created_at_ms=state.created_at_ms,
        updated_at_ms=state.updated_at_ms,
        archived=state.archived,
        meta=state.meta,
        foreign=state.foreign,
        ephemeral=state.ephemeral,
    )
