"""Who wrote a prompt or answered a question is told in the events of bootstrap and of the HTTP stream."""

from typing import Any

import pytest
from msgspec import to_builtins

from hames.domain.actors import Actor
from hames.domain.approvals import UseTool
from hames.domain.commands import ResolveApproval, StartTurn
from hames.domain.items import TextInput
from hames.domain.state import Change
from hames.ports import Tell
from hames.protocols.bootstrap import outbound as bootstrap
from hames.protocols.sse import outbound as sse
from hames.testing.fakes.model import ScriptedModel, call, say
from support import PlainTool, created, engine, question, turn_end

ANN = Actor(kind="token", name="ann", via="page")
BOB = Actor(kind="user", name="bob", via="flint", client="an editor")


async def _one_turn(prompted: Actor | None, answered: Actor | None) -> list[Change]:
    async def run(_arguments: dict[str, object], _tell: Tell) -> str:
        return "done"

    tool = PlainTool("ask", run, intent=UseTool(name="ask", arguments={}))
    async with engine(ScriptedModel([call("ask")], [say("Done.")]), tool) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        prompt = StartTurn(thread_id=thread.id, content=(TextInput(text="go"),), by=prompted)
        await the_engine.execute(prompt)
        approval = (await question(watcher)).approval
        await the_engine.execute(ResolveApproval(approval_id=approval.id, decision="once", by=answered))
        await turn_end(watcher)
        return await the_engine.history(thread.id)


@pytest.mark.parametrize(("prompted", "answered"), [(ANN, BOB), (None, None)])
async def test_the_http_stream_and_bootstrap_say_who_prompted_and_who_answered(
    prompted: Actor | None, answered: Actor | None
) -> None:
    history = await _one_turn(prompted, answered)
    told: list[Any] = [to_builtins(event) for change in history for event in sse.project(change)]
    [prompt] = [event for event in told if event["type"] == "user"]
    [answer] = [event for event in told if event["type"] == "approval_resolved"]
    items: list[Any] = [
        message["params"]["item"]
        for change in history
        for message in map(to_builtins, bootstrap.project(change))
        if message["method"] == "item.completed"
    ]
    [written] = [item["data"] for item in items if item["type"] == "user_message"]
    [resolved] = [item["data"] for item in items if item["type"] == "approval"]
    assert prompt.get("by") == written.get("by") == (to_builtins(prompted) if prompted else None)
    assert answer.get("by") == resolved.get("by") == (to_builtins(answered) if answered else None)
