"""Questions of MCP servers while their tool runs: asked like approvals, answered by a person or not at all."""

import logging

from hames.core.questions import Questions
from hames.core.thread import Thread
from hames.core.turn import TurnWork
from hames.domain import forms
from hames.domain.approvals import Answer, Approval, Elicit
from hames.domain.ids import ApprovalId, ItemId, TurnId
from hames.ports import Ask, Ids

log = logging.getLogger(__name__)

NOBODY_ASKED = "declined: the approval policy is `never`, so nobody is asked"


class Elicitations:
    """The questions of one turn. Trust and grants answer nothing here: only a person knows."""

    def __init__(self, thread: Thread, turn_id: TurnId, *, questions: Questions, ids: Ids) -> None:
        self._thread = thread
        self._turn_id = turn_id
        self._questions = questions
        self._ids = ids

    async def ask(self, item_id: ItemId, question: Elicit) -> Answer:
        settings = self._thread.state.settings
        if settings.approval_policy == "never":
            log.warning(
                "elicitation.declined", extra={"server": question.server, "why": "the approval policy is never"}
            )
            return Answer(decision="reject", note=NOBODY_ASKED)
        approval = Approval(
            id=ApprovalId(self._ids.new("apr")),
            turn_id=self._turn_id,
            item_id=item_id,
            intent=question,
            reason=forms.question(question),
        )
        return await self._questions.ask(self._thread, approval)


def asking(work: TurnWork, item_id: ItemId) -> Ask:
    """How the tool behind this item asks."""
    turn = Elicitations(work.thread, work.turn_id, questions=work.questions, ids=work.ids)
    return lambda question: turn.ask(item_id, question)
