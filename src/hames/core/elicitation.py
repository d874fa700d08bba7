"""Questions that come up while a tool runs: asked like approvals, answered by a person or not at all."""

import logging

from hames.core.turn import TurnWork
from hames.domain import forms
from hames.domain.approvals import Answer, Approval, Elicit
from hames.domain.ids import ApprovalId, ItemId
from hames.ports import Ask

log = logging.getLogger(__name__)

NOBODY_ASKED = "declined: the approval policy is `never`, so nobody is asked"


def asking(work: TurnWork, item_id: ItemId) -> Ask:
    """How the tool behind this item asks. Trust and grants answer nothing here: only a person knows."""

    async def ask(question: Elicit) -> Answer:
        if work.settings.approval_policy == "never":
            log.warning(
                "elicitation.declined", extra={"server": question.server, "why": "the approval policy is never"}
            )
            return Answer(decision="reject", note=NOBODY_ASKED)
        approval = Approval(
            id=ApprovalId(work.ids.new("apr")),
            turn_id=work.turn_id,
            item_id=item_id,
            intent=question,
            reason=forms.question(question),
        )
        return await work.questions.ask(work.thread, approval, workspace=work.place.workspace)

    return ask
