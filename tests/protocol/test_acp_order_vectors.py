"""ACP, message by message: prompts that wait, cancel at any moment, and the order of what is said."""

import json

import pytest
from acp_messages import BOTH, TEXT, THREAD, TURN, ask, following, messages, prompted, tell

from hames.domain.events import (
    PromptQueued,
    PromptRemoved,
    QueueHeld,
    TurnStarted,
)
from hames.domain.ids import PromptId
from hames.domain.state import QueuedPrompt
from hames.protocols.session import Execute
from hames.testing.checks.session import receive


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("how", ["held", "dropped", "cancelled", "$/cancel_request", "lost"])
def test_a_queued_prompt_is_always_answered(version: int, how: str) -> None:
    session, now = following(version)
    now, _ = tell(session, now, TurnStarted(turn_id=TURN), PromptQueued(prompt_id=PromptId("p"), content=()))
    [action], _ = ask(session, "session/prompt", prompted(*TEXT))
    session.done(action, QueuedPrompt(id=PromptId("p"), content=()))
    assert messages(session) == []
    match how:
        case "held":
            _, heard = tell(session, now, QueueHeld(held=True))
            assert session.next_deadline() == 0.0
            [drop] = session.expire(0.0)
            assert isinstance(drop, Execute)
        case "dropped":
            _, heard = tell(session, now, PromptRemoved(prompt_id=PromptId("p")))
        case "lost":
            session.lost(THREAD, "the thread was closed")
            heard = messages(session)
        case _:
            params = {"sessionId": THREAD} if how == "cancelled" else {"requestId": 7}
            method = "session/cancel" if how == "cancelled" else how
            _, said = receive(session, json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())
            heard = [json.loads(line) for line in said.splitlines()]
    [answer] = [one for one in heard if one.get("id") == 7]
    if how == "lost":
        assert answer["error"]["code"] == -32603
    elif version == 1:
        assert answer["result"]["stopReason"] == "cancelled"
    else:
        assert answer["error"]["code"] == -32800
