"""A running turn: the one handle that agents write through, and its end, whatever happens inside."""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
from msgspec.structs import replace

from hames.core.context import Memory
from hames.core.offered_tools import offered_tools
from hames.core.questions import Questions
from hames.core.rule_checks import judge_by_rules, offered_rule
from hames.core.surroundings import Surroundings
from hames.core.thread import CLOSE_SECONDS, Thread
from hames.core.token_estimate import ContextGauge
from hames.core.turn_budget import TurnBudget
from hames.domain import forms
from hames.domain.actors import HAMES, Actor
from hames.domain.approvals import Answer, Approval, ChangeFiles, Elicit, Harmless, Intent, RunCommand
from hames.domain.continuing import close_cut_off, last_step, paused_notice
from hames.domain.endings import endings
from hames.domain.errors import Fenced, HarnessError, ProviderError, StorageFailed
from hames.domain.events import (
    Event,
    ItemCompleted,
    ItemStarted,
    QueueHeld,
    TurnEnded,
    TurnError,
    TurnStatus,
    UsageReported,
)
from hames.domain.ids import ApprovalId, ItemId, ThreadId, TurnId
from hames.domain.items import STREAMS, Item, ItemStatus, Stream
from hames.domain.models import ModelCard
from hames.domain.options import Settings, ThreadServer
from hames.domain.project_notes import Note
from hames.domain.request import OfferedTool
from hames.domain.rulings import Ruling
from hames.domain.state import Called, ThreadState, Turn
from hames.ports import (
    Clock,
    Ids,
    OwnTools,
    Place,
    Provider,
    RuleBook,
    Tool,
    Trust,
    TurnCheckpoint,
    TurnEvent,
    TurnHandle,
)

log = logging.getLogger(__name__)

NOBODY_ASKED = "declined: the approval policy is `never`, so nobody is asked"


class RunningTurn:
    """Implements `ports.TurnHandle`. It may still be closing its items when the next turn starts."""

    def __init__(
        self,
        thread: Thread,
        turn_id: TurnId,
        *,
        questions: Questions,
        ids: Ids,
        servers: Callable[[], tuple[ThreadServer, ...]],
        continued: bool = False,
        patient: bool = False,
        rulebook: RuleBook | None = None,
        own_tools: Callable[["RunningTurn"], OwnTools | None] = lambda _: None,
        model: str = "",
    ) -> None:
        """`servers` are the MCP servers of the thread with their values, which are in no log.

        `model` is the model of this turn alone. `continued`: another process began the turn. `patient`: its questions
        wait until a client comes.
        """
        self.turn_id = turn_id
        self.continued = continued
        self.worked_before_s = 0.0
        """How long it ran in processes that stopped. Questions that were answered there count as work."""
        self.can_continue = False
        """Whether the next process could go on with it: its agent is known, and can."""
        self.keeps_questions = True
        """Its questions can be asked again by the next process: our own loop runs it."""
        self.pauses = False
        """When it is stopped, it is left for the next process instead of ended."""
        self.step = 0
        self._patient = patient
        self.scope = anyio.CancelScope()
        """Cancel it to interrupt the turn."""
        self.failure: HarnessError | None = None
        """What the turn failed with, once it is over."""
        self.over = anyio.Event()
        self.interrupted_by = ""
        """Why it was interrupted, when no user asked for that."""
        self.interrupted_for: Actor | None = None
        """Who asked for the interrupt. Without anybody it was the harness itself."""
        self.budget: TurnBudget | None = None
        """None: nothing limits what it may use."""
        self.waited_s = 0.0
        """How long its questions waited for their answers."""
        self._waiting: list[float] = []
        """When the questions that wait now were asked."""
        self._thread = thread
        self._questions = questions
        self._ids = ids
        self._servers = servers
        self._rulebook = rulebook
        self._model = model
        self.own_tools = own_tools(self)
        if continued:
            self.step = last_step(current_turn(self))

    @property
    def thread_id(self) -> ThreadId:
        return self._thread.id

    @property
    def clock(self) -> Clock:
        return self._thread.clock

    @property
    def state(self) -> ThreadState:
        return self._thread.state

    @property
    def settings(self) -> Settings:
        settings = self._thread.state.settings
        return replace(settings, model=self._model, options={}) if self._model else settings

    @property
    def mcp_servers(self) -> tuple[ThreadServer, ...]:
        return self._servers()

    def new_item_id(self) -> ItemId:
        return ItemId(self._ids.new("item"))

    async def start(self, item: Item) -> None:
        await self._thread.emit_when_possible(ItemStarted(turn_id=self.turn_id, item=item))
        if self.budget is not None:
            self.budget.check()

    def append(self, item_id: ItemId, text: str, stream: Stream) -> Awaitable[None]:
        # Not a coroutine of its own: this is called for every token.
        return self._thread.delta(self.turn_id, item_id, stream, text) if text else _nothing()

    async def complete(self, item: Item) -> None:
        if STREAMS[type(item)] and (shown := find_item(self, item.id)) is not None:
            item = replace(item, **{stream: getattr(shown, stream) for stream in STREAMS[type(item)]})
        if self.continued:
            await self._questions.withdraw(self._thread, item.id)
        await self._thread.emit_when_possible(ItemCompleted(turn_id=self.turn_id, item=item))

    async def emit(self, *events: TurnEvent) -> None:
        await self._thread.emit_when_possible(*events)
        if self.budget is not None and any(isinstance(event, UsageReported) for event in events):
            await self.budget.counted()

    def waited(self) -> float:
        """Seconds. Questions that wait at the same time count once."""
        return self.waited_s + (self._thread.clock.monotonic() - self._waiting[0] if self._waiting else 0.0)

    async def ask(
        self, item_id: ItemId, intent: Intent | Elicit, reason: str = "", *, ruling: Ruling | None = None
    ) -> Answer:
        if isinstance(intent, Harmless):
            return Answer(decision="once")
        rule = ruling.rule if ruling is not None else None
        if ruling is None:  # an agent with a loop of its own: what it asks about is all that we see of it
            if mode := self._refused_by_mode(intent):
                return Answer(decision="reject", note=mode)
            judged = await judge_by_rules(self._rulebook, intent, self.settings)
            if judged.action == "deny":
                return Answer(decision="reject", note=judged.reason)
            rule, reason = (judged.rule, judged.reason) if judged.action == "ask" else (None, reason)
        if isinstance(intent, Elicit):  # no grant and no trust answers a server's question: only a person can
            if self.settings.approval_policy == "never":
                log.warning("elicitation.declined", extra={"server": intent.server, "why": "approval policy is never"})
                return Answer(decision="reject", note=NOBODY_ASKED)
            reason = forms.question(intent)
        approval = Approval(
            id=ApprovalId(self._ids.new("apr")),
            turn_id=self.turn_id,
            item_id=item_id,
            intent=intent,
            reason=reason,
            rule=rule,
            offer=await offered_rule(self._rulebook, intent, self.settings) if ruling and rule is None else None,
        )
        self._waiting.append(self._thread.clock.monotonic())
        try:
            # Another agent may take its question back, or be killed, and its turn goes on.
            withdraws = None if ruling is not None else lambda: not self.scope.cancel_called
            return await self._questions.ask(self._thread, approval, patient=self._patient, withdraws=withdraws)
        finally:
            if len(self._waiting) == 1:
                self.waited_s = self.waited()
            self._waiting.pop()

    async def find_denial(self, intent: Intent) -> str:
        if mode := self._refused_by_mode(intent):
            return mode
        judged = await judge_by_rules(self._rulebook, intent, self.settings)
        if judged.action == "ask":
            return f"{judged.reason}, and approvals are off (`never`)"
        return judged.reason if judged.action == "deny" else ""

    def _refused_by_mode(self, intent: Intent | Elicit) -> str:
        """What another agent would do in a thread whose mode changes nothing."""
        agent = self.settings.agent
        leaves = isinstance(intent, ChangeFiles) or (isinstance(intent, RunCommand) and intent.unsandboxed)
        return f"{agent} mode changes nothing" if agent != "code" and leaves else ""

    async def run(self, work: Callable[[], Awaitable[str]]) -> None:
        """Runs the work until it is done, fails or is interrupted, and ends the turn in the log exactly once."""
        status: TurnStatus = "interrupted"
        stop_reason = ""
        about = {"thread_id": self.thread_id, "turn_id": self.turn_id}
        log.info("turn.started", extra={**about, "model": self.settings.model})
        began = self._thread.clock.monotonic()
        try:
            with self.scope:
                stop_reason = await work()
                status = "completed"
        except HarnessError as known:
            status, self.failure = "failed", known
        except Exception:
            log.exception("turn.crashed", extra={"thread_id": self.thread_id, "turn_id": self.turn_id})
            status, self.failure = "failed", HarnessError("internal error; the log has the details")
        finally:
            # We may be here because we are being cancelled, and the log must
            # still be closed: shielded, but not forever.
            try:
                with anyio.move_on_after(CLOSE_SECONDS, shield=True) as closing:
                    error = _turn_error(self.failure) if self.failure is not None else None
                    if status == "interrupted" and self.interrupted_by:
                        error = TurnError(message=self.interrupted_by)
                    took = None if self.continued else round((self._thread.clock.monotonic() - began) * 1000)
                    waited_ms = round(self.waited() * 1000)
                    by = (self.interrupted_for or HAMES) if status == "interrupted" else None
                    if status == "interrupted" and self.pauses and self.can_continue:
                        await self._pause()
                    else:
                        await self._end(
                            TurnEnded(
                                turn_id=self.turn_id,
                                status=status,
                                error=error,
                                stop_reason=stop_reason,
                                by=by,
                                waited_ms=waited_ms,
                                duration_ms=took,
                            ),
                            closing,
                        )
            finally:
                self._questions.forget(self.turn_id)
                log.info("turn.ended", extra={**about, "status": status, "why": str(self.failure or "")})
                self.over.set()

    async def _pause(self) -> None:
        """Closes what cannot go on, and leaves the turn running in the log."""
        if self._thread.lost:
            return
        thread, turn = self._thread, current_turn(self)
        cut_off = close_cut_off(thread.state, self.new_item_id, keep_questions=self.keeps_questions)
        try:
            await thread.emit(*cut_off.events, paused_notice(turn, cut_off.message))
        except Fenced:
            pass
        except StorageFailed:  # the next process closes it
            log.exception("turn.pause_not_stored", extra={"thread_id": thread.id, "turn_id": self.turn_id})
        finally:
            thread.log.rest()

    async def _end(self, ended: TurnEnded, closing: anyio.CancelScope) -> None:
        thread = self._thread
        if thread.lost:  # it goes on at another node: any ending told here would be wrong
            return
        events: list[Event] = [*endings(thread.state, "")[:-1], ended]
        if ended.status != "completed" and thread.state.queue:
            events.append(QueueHeld(held=True))
        try:
            await thread.emit(*events)
        except Fenced:
            pass
        except StorageFailed as failure:
            log.exception("turn.end_not_stored", extra={"thread_id": thread.id, "turn_id": ended.turn_id})
            if ended.status == "completed" and failure.retryable:  # it has time, until it is interrupted or stopped
                closing.shield, closing.deadline = False, math.inf
                self.scope = anyio.CancelScope()
                with self.scope, suppress(StorageFailed):
                    await thread.wait_for_room(failure)
                    await thread.emit_when_possible(*events)
            if (running := thread.state.running) is not None and running.id == ended.turn_id:
                thread.tell_unstored(*events)
        finally:
            thread.log.rest()


@dataclass(slots=True)
class LoopTurn:
    """What our own loop needs for one turn, beside the handle."""

    handle: TurnHandle
    settings: Settings
    card: ModelCard
    provider: Provider
    tools: Mapping[str, Tool]
    place: Place
    system: str
    trust: Trust
    clock: Clock
    max_steps: int
    max_tokens: int
    memory: Memory = field(default_factory=Memory)
    gauge: ContextGauge = field(default_factory=ContextGauge)
    surroundings: Surroundings = field(default_factory=lambda: Surroundings(None))
    compacts: bool = True
    compact_at: int = 0
    """From how many tokens on the conversation is shortened; 0: a limit that suits the model."""
    supervises: bool = True
    """Whether the model is told about cut and empty replies, unfinished plans and changes that nothing was run for."""
    notes: tuple[Note, ...] = ()
    text_block_ended: Callable[[ThreadId, str], None] | None = None
    """Called with each whole text block of a reply. A message may have several."""
    user_messages_shown: int = 0
    """How many of the turn's user messages the model has been shown."""
    made_room_at: int = -1
    """The step at which the conversation was last shortened."""
    checkpoint: TurnCheckpoint | None = None
    """Keeps what is about to be changed, for undo."""
    rulebook: RuleBook | None = None
    budget: TurnBudget | None = None
    not_offered: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that the rules in force forbid, and why."""

    @property
    def turn_id(self) -> TurnId:
        return self.handle.turn_id

    @property
    def step(self) -> int:
        return self.handle.step

    @property
    def items(self) -> tuple[Item, ...]:
        return current_turn(self.handle).items

    @property
    def offered(self) -> tuple[OfferedTool, ...]:
        """The tools as the model is told of them."""
        return offered_tools(self.tools, self.card.dialect, self.settings)

    @property
    def calls(self) -> tuple[Called, ...]:
        return current_turn(self.handle).calls

    def item(self, item_id: ItemId) -> Item:
        item = find_item(self.handle, item_id)
        assert item is not None
        return item

    async def complete(self, item_id: ItemId, status: ItemStatus, **fields: object) -> None:
        """Completes an open item as it is in the log, with these fields changed."""
        await self.handle.complete(replace(self.item(item_id), status=status, **fields))


def current_turn(handle: TurnHandle) -> Turn:
    turn = handle.state.turn(handle.turn_id)
    assert turn is not None
    return turn


def find_item(handle: TurnHandle, item_id: ItemId) -> Item | None:
    """An item of this turn. Searched from the end, where it nearly always is."""
    return next((item for item in reversed(current_turn(handle).items) if item.id == item_id), None)


async def _nothing() -> None:
    return


def _turn_error(failure: HarnessError) -> TurnError:
    status = failure.status if isinstance(failure, ProviderError) else None
    return TurnError(message=str(failure), info=failure.info, http_status=status)
