"""Turns whose process stopped: they are continued, asked about or ended when their thread is opened for writing."""

import logging
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from hames.core.loaded import LoadedThread
from hames.core.questions import Questions
from hames.core.thread import STOPPED
from hames.core.threads import Threads
from hames.core.toolcall import carry_out, carry_out_all, hold_tools, skip
from hames.core.turn import LoopTurn, RunningTurn, current_turn
from hames.domain.approvals import UseTool
from hames.domain.commands import ReviewTarget
from hames.domain.continuing import (
    CONTINUE_TURN,
    close_cut_off,
    continued_notice,
    given_up_notice,
    open_calls,
    reason_not_to_continue,
    unstarted_calls,
)
from hames.domain.endings import endings
from hames.domain.errors import HarnessError, ThreadInUse, ThreadNotFound
from hames.domain.events import Event, QueueHeld
from hames.domain.ids import CallId, ItemId, ThreadId, TurnId
from hames.domain.items import ToolCall, UserMessage
from hames.domain.policy import AfterCrash
from hames.domain.state import Turn
from hames.ports import AgentThread, Compact, Prompt, Review, Task

log = logging.getLogger(__name__)

DAMAGED = "interrupted: the harness stopped while this turn ran, and its log is damaged, so the turn was not continued"
NOT_WANTED = "interrupted: the harness stopped while this turn ran, and you chose not to continue it"
GO_ON = "This turn was cut off when Hames stopped. Continue it?"


class CutOffTurns:
    """What an engine does with the turns that other processes left running."""

    def __init__(
        self,
        threads: Threads,
        questions: Questions,
        *,
        handle: Callable[[LoadedThread, TurnId], RunningTurn],
        run: Callable[[LoadedThread, RunningTurn, Task], None],
        start_next: Callable[[LoadedThread], None],
        new_item_id: Callable[[], ItemId],
    ) -> None:
        """`handle` makes the handle of a turn that goes on, `run` starts its task."""
        self._threads = threads
        self._questions = questions
        self._handle = handle
        self._run = run
        self._start_next = start_next
        self._new_item_id = new_item_id

    async def take_up(self, loaded: LoadedThread) -> None:
        """Called with a thread that was just opened for writing, before anybody else sees it.

        When this returns, either no turn runs or one has a task. Looking at a thread does not come here.
        """
        thread, rules = loaded.thread, self._threads.rules
        turn = thread.state.running
        if not rules.continues:
            return
        with anyio.CancelScope(shield=True):  # a turn that is said to go on has a task
            if turn is None:
                await self._take_up_queue(loaded)
            elif why := self._reason_to_end(loaded, turn):
                await self.end(loaded, why)
            else:
                await self._continue(loaded, turn)

    async def end(self, loaded: LoadedThread, why: str = STOPPED) -> None:
        """Ends a turn that nothing runs."""
        state = loaded.thread.state
        # Looking at a thread is not using it: lists keep its time and its place.
        last_used = min(max(state.updated_at_ms, 0), loaded.thread.clock.now_ms())
        held: list[Event] = [QueueHeld(held=True)] if state.queue else []
        await loaded.thread.emit(*endings(state, why), *held, at_ms=last_used)

    def _reason_to_end(self, loaded: LoadedThread, turn: Turn) -> str:
        thread = loaded.thread
        if after_crash(loaded, self._threads) == "end":
            return STOPPED
        if thread.log.damaged:
            return DAMAGED
        return reason_not_to_continue(turn, waits=bool(thread.state.approvals), deaths=thread.log.deaths)

    async def _take_up_queue(self, loaded: LoadedThread) -> None:
        """Prompts that waited when the process stopped."""
        state = loaded.thread.state
        if not state.queue or state.queue_held:
            return
        if loaded.thread.log.repaired or after_crash(loaded, self._threads) != "go_on":
            # What is missing from a damaged log may be that a prompt was taken from the queue: a person decides.
            await loaded.thread.emit(QueueHeld(held=True), at_ms=state.updated_at_ms)
        else:
            self._start_next(loaded)

    async def _continue(self, loaded: LoadedThread, turn: Turn) -> None:
        thread = loaded.thread
        worked_s = max(0, thread.state.updated_at_ms - turn.started_at_ms) / 1000
        cut_off = close_cut_off(thread.state, self._new_item_id, keep_questions=is_ours(loaded, self._threads))
        given_up = [given_up_notice(turn)] if thread.log.deaths == 0 and not turn.paused else []
        await thread.emit(*cut_off.events, *given_up, continued_notice(turn, cut_off.message))
        running = loaded.turn = self._handle(loaded, turn.id)
        running.worked_before_s = worked_s
        self._questions.reopen(thread, turn.id)
        log.info("turn.continued", extra={"thread_id": thread.id, "turn_id": turn.id, "crashes": turn.crashes})
        self._run(loaded, running, task_of(turn))

    async def permit(self, loaded: LoadedThread, turn: RunningTurn, agent: AgentThread) -> None:
        """Asks whether to go on, where that is wanted. Raises `HarnessError` for an agent that cannot."""
        if "continue" not in agent.abilities:
            name = loaded.thread.state.settings.model.partition("/")[0]
            raise HarnessError(f"{STOPPED}, and {name!r} cannot continue a turn. Send the prompt again")
        if after_crash(loaded, self._threads) != "ask":
            return
        item = _open_question(current_turn(turn))
        if item is None:
            item = ToolCall(id=turn.new_item_id(), step=turn.step, call_id=CallId(""), name=CONTINUE_TURN, arguments={})
            await turn.start(item)
        answer = await turn.ask(item.id, UseTool(name=CONTINUE_TURN, arguments={}), GO_ON)
        if answer.decision in ("once", "always"):
            await turn.complete(replace(item, status="completed"))
            return
        await turn.complete(replace(item, status="declined"))
        turn.interrupted_by = f"{NOT_WANTED}: {answer.note}" if answer.note else NOT_WANTED
        turn.scope.cancel()
        await checkpoint()

    async def continue_all(self) -> None:
        """Opens the threads whose turns were running when their process stopped. Raises nothing."""
        try:
            marked = await self._threads.running()
        except (HarnessError, OSError):
            log.exception("turns.not_found")
            return
        for thread_id in marked:
            try:
                await self._continue_marked(thread_id)
            except Exception:  # one thread must not keep the others from going on
                log.exception("turn.not_continued", extra={"thread_id": thread_id})

    async def _continue_marked(self, thread_id: ThreadId) -> None:
        try:
            loaded = await self._threads.open(thread_id)
        except ThreadInUse:  # another process runs it
            return
        except ThreadNotFound:
            await self._threads.unmark(thread_id)
            return
        state = loaded.thread.state
        if not loaded.busy and (not state.queue or state.queue_held):
            loaded.thread.log.mark_running(running=False)


async def finish_calls(turn: LoopTurn) -> None:
    """Carries out the calls of the last reply that waited for an approval, and those behind them.

    None of them had begun when the process stopped; whatever may have run was closed. Raises `BudgetReached`.
    """
    unstarted = [one.call for one in unstarted_calls(current_turn(turn.handle))]
    if open_calls(current_turn(turn.handle)) or unstarted:
        await hold_tools(turn, unstarted)
    for called, item_id in open_calls(current_turn(turn.handle)):
        if not await carry_out(turn, called.call, waiting=item_id):
            await skip(turn, [one.call for one in unstarted_calls(current_turn(turn.handle))])
            return
    await carry_out_all(turn, [one.call for one in unstarted_calls(current_turn(turn.handle))])


def task_of(turn: Turn) -> Task:
    """What the turn was started for, as far as the log tells: enough for our own loop."""
    if turn.kind == "compact":
        return Compact()
    message = next(item for item in turn.items if isinstance(item, UserMessage))
    if turn.kind == "review":
        return Review(target=ReviewTarget(kind="custom"), message=message, model=turn.model)
    return Prompt(message=message, output_schema=turn.output_schema)


def is_ours(loaded: LoadedThread, threads: Threads) -> bool:
    """Whether our own loop runs the thread's turns."""
    provider = loaded.thread.state.settings.model.partition("/")[0]
    return not threads.rules.only_agent and provider not in threads.agents


def after_crash(loaded: LoadedThread, threads: Threads) -> AfterCrash:
    """A foreign thread is never continued by itself."""
    return "end" if loaded.thread.log.foreign else loaded.thread.state.settings.after_crash or threads.rules.after_crash


def _open_question(turn: Turn) -> ToolCall | None:
    """Asked by a process that stopped before anybody answered."""
    for item in turn.items:
        if isinstance(item, ToolCall) and item.name == CONTINUE_TURN and not item.call_id and item.id in turn.open:
            return item
    return None
