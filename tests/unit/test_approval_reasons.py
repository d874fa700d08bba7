"""Why something is asked, as every protocol tells it."""

import pytest

from hames.domain.approvals import Approval, RunCommand
from hames.domain.ids import ApprovalId, ItemId, TurnId
from hames.protocols.describe import approval_question, approval_reason


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("runs outside the sandbox: it needs the network", "runs outside the sandbox: it needs the network"),
        ("may change files", "may change files\n\nit needs the network"),
        ("", "it needs the network"),
    ],
)
def test_the_reason_of_the_model_is_told_once(reason: str, shown: str) -> None:
    intent = RunCommand(command="make", cwd="/w", unsandboxed=True, why="it needs the network")
    approval = Approval(id=ApprovalId("a"), turn_id=TurnId("t"), item_id=ItemId("i"), intent=intent, reason=reason)
    assert approval_reason(approval) == shown
    assert approval_question(approval) == f"Run this command in /w?\n\nmake\n\n{shown}"
