"""sync against the real server: a state on connecting, deltas after it, and any number of clients."""

from pathlib import Path

import pytest

from hames.system import SystemClock
from hames.testing.scripts import ScriptedModel, say, think
from server_support import following, running
from support import engine


@pytest.mark.spec(
    "sync/websocket",
    "sync/snapshot-on-connect",
    "sync/server-sends-state",
    "sync/json-messages",
    "sync/commands-any-time",
    "sync/submit-queues",
    "sync/flow-render-each-delta",
)
async def test_a_prompt_is_submitted_and_its_answer_streams(tmp_path: Path) -> None:
    model = ScriptedModel([think("Hm."), say("Hello there.", pieces=4)])
    async with engine(model, clock=SystemClock()) as house, running(house, tmp_path / "data") as server:
        async with following(server) as client:
            first = await client.hear()
            assert (first["type"], first["state"]["status"], first["state"]["messages"]) == ("state", "idle", [])
            await client.send({"type": "submit", "prompt": "Hi", "id": "p_1"})
            done = await client.until(lambda state: state["status"] == "idle" and len(state["messages"]) > 1)
        assert [(m["id"], m["role"], m["content"], m["status"]) for m in done["messages"]][0] == (
            "p_1",
            "user",
            "Hi",
            "complete",
        )
        assert (done["messages"][1]["content"], done["messages"][1]["reasoning"]) == ("Hello there.", "Hm.")
        assert {message["type"] for message in client.heard} == {"state", "delta"}
