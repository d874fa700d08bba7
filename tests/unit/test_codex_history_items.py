"""Codex's items of the model service: injected into a thread, and sent to clients that asked for them."""

from typing import Any

import msgspec
import pytest

from flint_support import talking
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say, think
from support import engine

TEXT = [{"type": "text", "text": "go"}]


def message(role: str, text: str, kind: str = "input_text") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


async def test_the_model_reads_what_was_injected_and_clients_are_not_told_of_it() -> None:
    model = ScriptedModel([say("Done.")])
    async with engine(OneModel(model)) as the_engine, talking(the_engine, "codex_client") as talk:
        thread_id = await talk.start()
        items = [message("developer", "The boundary."), message("assistant", "Understood.", "output_text")]
        assert await talk.call("thread/inject_items", threadId=thread_id, items=items) == {}
        await talk.prompt(thread_id)
        read = (await talk.call("thread/read", threadId=thread_id, includeTurns=True))["thread"]
        listed = (await talk.call("thread/turns/list", threadId=thread_id))["data"]
        told = [params["turn"]["id"] for params in talk.params("turn/started")]
    asked = msgspec.json.encode(model.requests[0].messages).decode()
    assert asked.index("The boundary.") < asked.index("Understood.") < asked.index("go")
    assert [turn["id"] for turn in read["turns"]] == [turn["id"] for turn in listed] == told
    assert len(told) == 1


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        ({"type": "function_call_output", "call_id": "c", "output": "x"}, "items[0]: must be a message"),
        ({"type": "message", "role": "tool", "content": []}, "items[0]: must be a message"),
        ({"type": "message", "role": "user", "content": "text"}, "items[0]: must be a message"),
        ({"type": "message", "role": "user", "content": [{"type": "input_audio"}]}, "items[0]: content must be text"),
        ("text", "items[0]: must be a message"),
    ],
)
async def test_what_is_no_message_is_not_injected(item: Any, sentence: str) -> None:
    async with engine(OneModel(ScriptedModel())) as the_engine, talking(the_engine, "codex_client") as talk:
        thread_id = await talk.start()
        answer = await talk.answer("thread/inject_items", threadId=thread_id, items=[item])
        assert answer["error"]["message"].startswith(sentence)


async def test_a_thread_with_raw_events_tells_what_the_model_said_called_and_read() -> None:
    reply = [think("Hm."), call("plan", entries=[{"step": "Begin", "status": "pending"}])]
    model = ScriptedModel(reply, [say("Done.")], [say("Quiet.")])
    async with engine(OneModel(model)) as the_engine, talking(the_engine, "codex_client") as talk:
        await talk.prompt(await talk.start(experimentalRawEvents=True))
        raw = [params["item"] for params in talk.params("rawResponseItem/completed")]
        await talk.prompt(await talk.start())
        assert len(talk.params("rawResponseItem/completed")) == len(raw)
    kinds = [item["type"] for item in raw]
    assert kinds == ["message", "reasoning", "function_call", "function_call_output", "message"]
    assert raw[0]["content"] == [{"type": "input_text", "text": "go"}]
    assert raw[2]["call_id"] == raw[3]["call_id"]
    assert raw[4]["content"] == [{"type": "output_text", "text": "Done."}]
