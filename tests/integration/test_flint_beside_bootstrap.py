"""One live thread, two protocols: what one client starts, the other watches, answers and hears to the end."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from flint_support import Box, Message, Talk, Wire, talking
from hames.core.engine import Engine
from hames.protocols.bootstrap.session import BootstrapSession
from hames.stdio.connection import Connection, read_lines
from hames.testing.fakes.model import ScriptedModel, call, hang, say, think
from support import ASKING, engine


class Bootstrapped(Talk):
    async def say(self, message: Message | bytes | str) -> None:
        assert isinstance(message, dict)
        await super().say(msgspec.json.encode({"jsonrpc": "2.0", **message}))


@asynccontextmanager
async def bootstrapped(the_engine: Engine) -> AsyncGenerator[Bootstrapped]:
    up_send, up_receive = anyio.create_memory_object_stream[bytes](float("inf"))
    down_send, down_receive = anyio.create_memory_object_stream[bytes](float("inf"))
    async with anyio.create_task_group() as tasks:
        connection = Connection(the_engine, BootstrapSession(), Box(down_send), tasks)
        tasks.start_soon(connection.serve, read_lines(up_receive))
        try:
            yield Bootstrapped(Wire(up_send, down_receive))
        finally:
            tasks.cancel_scope.cancel()
    for stream in (up_send, up_receive, down_send, down_receive):
        stream.close()


def texts(items: list[Any]) -> list[str]:
    return [item["text"] for item in items if item["type"] == "agentMessage"]


async def test_started_over_flint_approved_over_bootstrap_and_both_hear_all_of_it() -> None:
    model = ScriptedModel([think("hm"), say("Let me."), call("asking", x=1)], [say("Done.")])
    async with engine(model, ASKING) as the_engine, talking(the_engine) as flint, bootstrapped(the_engine) as other:
        thread_id = await flint.start()
        await other.call("thread.get", threadId=thread_id)
        await flint.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        question = await flint.until("item/toolCall/requestApproval")
        asked = await other.until("approval.requested")
        assert asked["params"]["requestId"] == question["id"]

        await other.call("approval.respond", requestId=asked["params"]["requestId"], decision="once")
        settled = await flint.until("serverRequest/resolved")
        assert settled["params"]["requestId"] == question["id"]
        ended = await flint.until("turn/completed")
        await other.until("turn.completed")
    assert texts(ended["params"]["turn"]["items"]) == ["Let me.", "Done."]
    for started, completed, talk in (
        ("item/started", "item/completed", flint),
        ("item.started", "item.completed", other),
    ):
        ids = [_item_id(params) for params in talk.params(started)]
        assert len(ids) == len(set(ids))
        assert set(ids) == {_item_id(params) for params in talk.params(completed)}
    mine = {_item_id(params) for params in flint.params("item/completed")}
    assert mine <= {_item_id(params) for params in other.params("item.completed")}


def _item_id(params: Message) -> str:
    return params["item"].get("id") or params["item"]["itemId"]


async def test_started_over_bootstrap_interrupted_over_flint() -> None:
    model = ScriptedModel([say("Once", cut=True), hang()])
    async with engine(model) as the_engine, talking(the_engine) as flint, bootstrapped(the_engine) as other:
        thread_id = (await other.call("thread.create"))["thread"]["threadId"]
        await flint.call("thread/resume", threadId=thread_id)
        await other.call("turn.start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        turn_id = (await flint.until("turn/started"))["params"]["turn"]["id"]
        await flint.until("item/agentMessage/delta")
        await flint.call("turn/interrupt", threadId=thread_id, turnId=turn_id)
        ended = await flint.until("turn/completed")
        cancelled = await other.until("turn.error")
    assert ended["params"]["turn"]["status"] == "interrupted"
    assert cancelled["params"]["status"] == "cancelled"
    assert texts(ended["params"]["turn"]["items"]) == ["Once"]
