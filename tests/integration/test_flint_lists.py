"""A list says of every thread how it stands at that moment."""

from pathlib import Path

import pytest

from flint_support import Talk, real_engine, talking
from hames.testing.fakes.model import ScriptedModel, call, hang, say


async def statuses(talk: Talk) -> dict[str, object]:
    return {one["id"]: one["status"] for one in (await talk.call("thread/list"))["data"]}


@pytest.mark.parametrize("client", ["test", "codex_cli"])
async def test_a_list_says_how_each_thread_stands(tmp_path: Path, client: str) -> None:
    (tmp_path / "ws").mkdir()
    async with real_engine(ScriptedModel([say("Hi.")]), tmp_path) as engine, talking(engine) as talk:
        old = await talk.start()
        await talk.prompt(old)
    model = ScriptedModel([hang()], [call("shell", command="true")])
    async with real_engine(model, tmp_path) as engine, talking(engine) as talk, talking(engine, client) as other:
        asked = {"threadId": "", "input": [{"type": "text", "text": "go"}]}
        idle, busy, waiting = [await talk.start(approvalPolicy="always") for _ in range(3)]
        await talk.call("turn/start", **{**asked, "threadId": busy})
        await talk.call("turn/start", **{**asked, "threadId": waiting})
        await talk.until("item/commandExecution/requestApproval")
        found = (await statuses(other)).values()
        assert list((await statuses(talk)).values()) == list(found)
        seen = await statuses(talk)
    assert seen[old] == {"type": "notLoaded"}
    assert seen[idle] == {"type": "idle"}
    assert seen[busy] == {"type": "active", "activeFlags": []}
    assert seen[waiting] == {"type": "active", "activeFlags": ["waitingOnApproval"]}
