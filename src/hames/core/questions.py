"""Approvals that wait for an answer. The first recorded answer wins; without one nothing runs."""

import logging
import math
from collections.abc import Callable
from contextlib import suppress

import anyio
from anyio import to_thread

from hames.core.thread import Thread
from hames.domain.actors import HAMES, Actor
from hames.domain.approvals import Answer, Approval, Elicit, is_about_running
from hames.domain.errors import ApprovalNotFound, HarnessError, InvalidCommand, Misconfigured, StorageFailed
from hames.domain.events import ApprovalRequested, ApprovalResolved
from hames.domain.forms import filled, misfit
from hames.domain.grants import grant_for
from hames.domain.ids import ApprovalId, ItemId, TurnId
from hames.domain.json import Json
from hames.domain.policy import AlwaysScope, ApprovalEnd, Decision
from hames.domain.rules import Rule
from hames.ports import RuleBook

log = logging.getLogger(__name__)

WITHDRAW_SECONDS = 3.0


class Questions:
    """The pending approvals of every thread of an engine."""

    def __init__(
        self,
        *,
        patience_s: float,
        deadline_s: float = 0.0,
        default: Decision = "reject",
        rulebook: RuleBook | None = None,
    ) -> None:
        """`deadline_s`: an approval that nobody answers for so long gets the answer `default`; 0: it waits."""
        self.stopping = False
        """Questions stay open in the log: the next process asks them again."""
        self._patience_s = patience_s
        self._deadline_s = deadline_s
        self._default: Decision = default
        self._rulebook = rulebook
        self._open: dict[ApprovalId, _Question] = {}
        self._reopened: list[_Question] = []
        """Asked by another process, and not yet asked for by the turn that goes on. Some may have their answers."""

    def reopen(self, thread: Thread, turn_id: TurnId) -> None:
        """The questions of a turn that another process asked: from now on they can be answered here."""
        for approval in thread.state.approvals:
            if approval.turn_id == turn_id:
                question = self._open[approval.id] = _Question(thread, approval)
                self._reopened.append(question)

    def forget(self, turn_id: TurnId) -> None:
        """The turn is over: nobody waits for an answer any more."""
        for question in [one for one in self._open.values() if one.approval.turn_id == turn_id]:
            del self._open[question.approval.id]
        self._reopened = [one for one in self._reopened if one.approval.turn_id != turn_id]

    async def ask(
        self, thread: Thread, approval: Approval, *, patient: bool = False, withdraws: Callable[[], bool] | None = None
    ) -> Answer:
        """Waits for an answer. Where nobody who could give one is left, it declines after a while and says so.

        `patient`: it waits for a client, however long that takes. `withdraws` says, when it is cancelled, whether the
        question is taken back although the turn goes on. A question that is open already, about the same
        item and the same intent, is not asked a second time: its answer counts.
        """
        before = await self._asked_before(thread, approval)
        question = before or _Question(thread, approval)
        approval = question.approval
        try:
            if before is None:
                self._open[approval.id] = question
                about = {"thread_id": thread.id, "approval_id": approval.id, "intent": type(approval.intent).__name__}
                log.info("approval.asked", extra=about)
                await thread.emit_when_possible(ApprovalRequested(approval=approval))
            await self._wait(question, patient=patient)
            return question.answer
        except anyio.get_cancelled_exc_class():
            # Its call can be over before its turn is.
            if is_about_running(approval.intent) or (withdraws is not None and withdraws()):
                await self._withdraw(question)
            raise
        finally:
            self._open.pop(approval.id, None)

    async def _asked_before(self, thread: Thread, approval: Approval) -> "_Question | None":
        """The same question as another process asked it. What it asked about the item otherwise is withdrawn: what
        would run now is not what people were shown."""
        about = [one for one in self._reopened if one.thread is thread and one.approval.item_id == approval.item_id]
        self._reopened = [one for one in self._reopened if one not in about]
        same = None
        for one in about:
            if one.approval.intent == approval.intent:
                same = one
            else:
                await self._withdraw(one)
        return same

    async def withdraw(self, thread: Thread, item_id: ItemId) -> None:
        """Takes back the questions of another process about an item that is over without them."""
        about = [one for one in self._reopened if one.thread is thread and one.approval.item_id == item_id]
        self._reopened = [one for one in self._reopened if one not in about]
        for one in about:
            await self._withdraw(one)

    async def _wait(self, question: "_Question", *, patient: bool) -> None:
        thread = question.thread
        while not question.answered.is_set():
            left = self._seconds_left(question)
            with anyio.move_on_after(min(self._patience_s, left)):
                await question.answered.wait()
            if question.answered.is_set():
                return
            if self._seconds_left(question) <= 0:
                note = f"nobody answered within {self._deadline_s:g} s"
                await self._decide(question, self._default, note, "timedOut")
            elif not patient and not thread.answerable:
                note = f"no client that could answer was connected for {self._patience_s:g} s"
                await self._decide(question, "reject", note, "noClient")

    def _seconds_left(self, question: "_Question") -> float:
        """Counted from when it was first asked, by whichever process."""
        if not self._deadline_s:
            return math.inf
        asked = next((one for one in question.thread.state.approvals if one.id == question.approval.id), None)
        since_ms = asked.asked_at_ms if asked is not None else question.thread.clock.now_ms()
        return self._deadline_s - (question.thread.clock.now_ms() - since_ms) / 1000

    async def _decide(self, question: "_Question", decision: Decision, note: str, ended: ApprovalEnd) -> None:
        if isinstance(question.approval.intent, Elicit):  # a form has no answer by default
            decision = "reject"
        try:
            await self.resolve(question.approval.id, decision, note=note, ended=ended, by=HAMES)
        except ApprovalNotFound:  # somebody answers at this moment
            pass
        except StorageFailed as failure:
            await question.thread.wait_for_room(failure)

    async def resolve(
        self,
        approval_id: ApprovalId,
        decision: Decision,
        *,
        note: str = "",
        content: Json = None,
        ended: ApprovalEnd = "answered",
        by: Actor | None = None,
        scope: AlwaysScope = "thread",
    ) -> Thread:
        """The first answer is recorded and counts; a later one finds nothing to answer.

        Raises `ApprovalNotFound`, and `InvalidCommand` for a form filled in wrongly and a rule that cannot be kept:
        these can be tried again.
        """
        question = self._open.get(approval_id)
        if question is None:
            raise ApprovalNotFound(f"no approval {approval_id!r} waits for an answer")
        approval = question.approval
        content = _handed_in(approval, decision, content)
        rule = await self._kept_rule(approval) if decision == "always" and scope == "project" else None
        if self._open.get(approval_id) is not question:
            raise ApprovalNotFound(f"no approval {approval_id!r} waits for an answer")
        del self._open[approval_id]
        grant = grant_for(approval.intent) if decision == "always" and rule is None else None
        resolved = ApprovalResolved(
            turn_id=approval.turn_id,
            approval_id=approval.id,
            item_id=approval.item_id,
            decision=decision,
            grant=grant,
            note=note,
            content=content,
            ended=ended,
            by=by,
            rule=rule,
        )
        try:
            await question.thread.emit(resolved)
        except StorageFailed:  # it is still open, and can be answered when the disk has room
            self._open[approval_id] = question
            raise
        log.info("approval.answered", extra={"approval_id": approval.id, "decision": decision})
        question.answer = Answer(decision=decision, note=note, content=content)
        question.answered.set()
        return question.thread

    async def _kept_rule(self, approval: Approval) -> Rule:
        if self._rulebook is None or approval.offer is None:
            raise InvalidCommand("no rule for this project was offered with this question")
        try:
            return await to_thread.run_sync(self._rulebook.keep, approval.offer)
        except Misconfigured as problem:
            raise InvalidCommand(f"the rule was not kept: {problem}") from None

    async def _withdraw(self, question: "_Question") -> None:
        if self.stopping or all(one.id != question.approval.id for one in question.thread.state.approvals):
            return
        with anyio.move_on_after(WITHDRAW_SECONDS, shield=True), suppress(HarnessError):
            await self.resolve(question.approval.id, "void", ended="withdrawn", by=HAMES)


def _handed_in(approval: Approval, decision: Decision, content: Json) -> Json:
    """What goes back to a server that asked; nothing else has anything to fill in."""
    intent = approval.intent
    if not isinstance(intent, Elicit) or decision not in ("once", "always"):
        return None
    if complaint := misfit(intent, content):
        raise InvalidCommand(f"the form is not valid: {complaint}")
    return filled(intent, content)


class _Question:
    def __init__(self, thread: Thread, approval: Approval) -> None:
        self.thread = thread
        self.approval = approval
        self.answered = anyio.Event()
        self.answer = Answer(decision="void")
