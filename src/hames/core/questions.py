"""Approvals that wait for an answer. The first recorded answer wins; without one nothing runs."""

import logging
from contextlib import suppress

import anyio

from hames.core.thread import Thread
from hames.domain.approvals import Answer, Approval, Elicit, is_about_running
from hames.domain.errors import ApprovalNotFound, HarnessError, InvalidCommand
from hames.domain.events import ApprovalRequested, ApprovalResolved
from hames.domain.forms import filled, misfit
from hames.domain.grants import grant_for
from hames.domain.ids import ApprovalId
from hames.domain.json import Json
from hames.domain.policy import Decision

log = logging.getLogger(__name__)

WITHDRAW_SECONDS = 3.0


class Questions:
    """The pending approvals of every thread of an engine."""

    def __init__(self, *, patience_s: float) -> None:
        self._patience_s = patience_s
        self._open: dict[ApprovalId, _Question] = {}

    async def ask(self, thread: Thread, approval: Approval) -> Answer:
        """Waits for an answer. Where nobody who could give one is left, it declines after a while and says so."""
        question = self._open[approval.id] = _Question(thread, approval)
        about = {"thread_id": thread.id, "approval_id": approval.id, "intent": type(approval.intent).__name__}
        log.info("approval.asked", extra=about)
        try:
            await thread.emit(ApprovalRequested(approval=approval))
            while not question.answered.is_set():
                with anyio.move_on_after(self._patience_s):
                    await question.answered.wait()
                if not question.answered.is_set() and not thread.answerable:
                    note = f"no client that could answer was connected for {self._patience_s:g} s"
                    await self.resolve(approval.id, "reject", note=note)
            return question.answer
        except anyio.get_cancelled_exc_class():
            if is_about_running(approval.intent):  # its call can be over before its turn is
                await self._withdraw(question)
            raise
        finally:
            self._open.pop(approval.id, None)

    async def resolve(
        self, approval_id: ApprovalId, decision: Decision, *, note: str = "", content: Json = None
    ) -> Thread:
        """The first answer is recorded and counts; a later one finds nothing to answer.

        Raises `ApprovalNotFound`, and `InvalidCommand` for a form filled in wrongly: that one can be tried again.
        """
        question = self._open.get(approval_id)
        if question is None:
            raise ApprovalNotFound(f"no approval {approval_id!r} waits for an answer")
        approval = question.approval
        content = _handed_in(approval, decision, content)
        del self._open[approval_id]
        grant = grant_for(approval.intent) if decision == "always" else None
        await question.thread.emit(
            ApprovalResolved(
                turn_id=approval.turn_id,
                approval_id=approval.id,
                item_id=approval.item_id,
                decision=decision,
                grant=grant,
                note=note,
                content=content,
            )
        )
        log.info("approval.answered", extra={"approval_id": approval.id, "decision": decision})
        question.answer = Answer(decision=decision, note=note, content=content)
        question.answered.set()
        return question.thread

    async def _withdraw(self, question: "_Question") -> None:
        if question.approval not in question.thread.state.approvals:
            return
        with anyio.move_on_after(WITHDRAW_SECONDS, shield=True), suppress(HarnessError):
            await self.resolve(question.approval.id, "void")


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
