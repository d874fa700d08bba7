"""`/v1`: what clients ask of tools and of typed answers, with OpenAI's own package."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from test_openai_api import chat, respond, serving

from hames.domain.items import ToolCall
from hames.testing.fakes.model import call, say
from server_support import http

COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CHAT_COUNT: Any = {"type": "function", "function": {"name": "count", "parameters": COUNT}}
COUNTS: Any = {"type": "function", "name": "count", "parameters": COUNT, "strict": False}
OTHER: Any = {"type": "function", "name": "other", "parameters": {"type": "object", "properties": {}}, "strict": False}
ANSWER = ([say("Looking."), call("echo", text="x")], [say('{"n": 1}')])
"""What the agent says on the way stands before its answer."""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "count"}}])
async def test_a_chat_that_demands_a_function_is_answered_with_its_call(
    tmp_path: Path, stream: bool, choice: Any
) -> None:
    async with serving(tmp_path, *ANSWER, [say("Thanks.")]) as here:
        messages: list[Any] = [{"role": "user", "content": "count"}]
        more: Any = {"tools": [CHAT_COUNT], "tool_choice": choice}
        create = here.client.chat.completions.create
        if stream:
            text, calls = "", list[Any]()
            async for chunk in await create(model="hames", messages=messages, stream=True, **more):
                for one in chunk.choices:
                    text += one.delta.content or ""
                    calls += one.delta.tool_calls or []
            assert text == ""
        else:
            done = await create(model="hames", messages=messages, **more)
            assert done.choices[0].finish_reason == "tool_calls"
            assert done.choices[0].message.content is None
            calls = list(done.choices[0].message.tool_calls or [])
        ((name, arguments),) = [(one.function.name, json.loads(one.function.arguments)) for one in calls]
        assert (name, arguments) == ("count", {"n": 1})
        made = {"id": calls[0].id, "type": "function", "function": {"name": "count", "arguments": '{"n": 1}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        messages.append({"role": "tool", "tool_call_id": calls[0].id, "content": "noted"})
        assert await chat(here.client, messages, stream) == "Thanks."
        (state,) = await here.threads()
        assert len(state.turns) == 2
        assert "noted" in str(here.model.requests[-1])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_that_demands_a_function_is_answered_with_its_call(tmp_path: Path, stream: bool) -> None:
    async with serving(tmp_path, *ANSWER) as here:
        choice = {"type": "function", "name": "count"}
        done = await respond(here.client, stream, input="count", tools=[COUNTS, OTHER], tool_choice=choice)
        assert [item.type for item in done.output] == ["mcp_call", "function_call"]
        assert (done.output[-1].name, json.loads(done.output[-1].arguments)) == ("count", {"n": 1})
        stored: Any = await here.client.responses.retrieve(done.id)
        assert [(one.type, one.id) for one in stored.output] == [(one.type, one.id) for one in done.output]
        assert (stored.output[-1].name, stored.output[-1].arguments) == ("count", '{"n": 1}')


async def test_several_demanded_functions_are_named_to_the_model(tmp_path: Path) -> None:
    async with serving(tmp_path, [call("other")]) as here:
        done = await respond(here.client, False, input="go", tools=[COUNTS, OTHER], tool_choice="required")
        assert done.output[-1].name == "other"
        assert "one of these tools of the application, and not with text: count, other" in str(here.model.requests[-1])


async def test_allowed_tools_are_the_ones_that_are_offered(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("One.")]) as here:
        allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "other"}]}
        await respond(here.client, False, input="go", tools=[COUNTS, OTHER], tool_choice=allowed)
        (state,) = await here.threads()
        assert [tool.name for tool in state.settings.client_tools] == ["other"]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_with_a_schema_is_nothing_but_the_answer(tmp_path: Path, stream: bool) -> None:
    async with serving(tmp_path, *ANSWER, *ANSWER, [say("On.")]) as here:
        form: Any = {"type": "json_schema", "json_schema": {"name": "count", "schema": COUNT}}
        messages: list[Any] = [{"role": "user", "content": "count"}]
        text = await chat(here.client, messages, stream, response_format=form)
        assert json.loads(text) == {"n": 1}
        given = {"format": {"type": "json_schema", "name": "count", "schema": COUNT}}
        done = await respond(here.client, stream, input="count", text=given)
        assert json.loads(done.output_text) == {"n": 1}
        stored: Any = await here.client.responses.retrieve(done.id)
        assert stored.output_text == done.output_text
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "go on"}]
        assert await chat(here.client, messages, stream) == "On."
        assert len(await here.threads()) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_custom_tools_and_tools_of_a_namespace_are_carried_out_by_the_client(
    tmp_path: Path, stream: bool
) -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    tools: Any = [
        {"type": "custom", "name": "patch", "description": "Patches.", "format": grammar},
        {"type": "namespace", "name": "team", "description": "d", "tools": [OTHER]},
        {"type": "web_search"},
    ]
    script = ([call("patch", input="*** Begin")], [call("team__other")], [say("Done.")])
    async with serving(tmp_path, *script) as here:
        first = await respond(here.client, stream, input="go", tools=tools)
        (made,) = first.output
        assert (made.type, made.name, made.input) == ("custom_tool_call", "patch", "*** Begin")
        assert "start: /.+/" in str(here.model.requests[-1])
        output: Any = [{"type": "custom_tool_call_output", "call_id": made.call_id, "output": "patched"}]
        second = await respond(here.client, stream, input=output, previous_response_id=first.id, tools=tools)
        (asked,) = second.output
        assert (asked.type, asked.name, asked.namespace) == ("function_call", "other", "team")
        output = [{"type": "function_call_output", "call_id": asked.call_id, "output": "told"}]
        third = await respond(here.client, stream, input=output, previous_response_id=second.id, tools=tools)
        assert third.output_text == "Done."
        (state,) = await here.threads()
        results = [item.result.text for item in state.turns[0].items if isinstance(item, ToolCall) and item.result]
        assert results == ["patched", "told"]


async def test_an_item_reference_goes_on_in_its_thread(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("One.")], [say("Two.")], [say("Fork.")]) as here:
        first = await here.client.responses.create(model="hames", input="first")
        said: Any = {"type": "item_reference", "id": first.output[-1].id}
        items: Any = [{"role": "user", "content": "first"}, said, {"role": "user", "content": "second"}]
        second = await here.client.responses.create(model="hames", input=items)
        assert second.output_text == "Two."
        (state,) = await here.threads()
        assert len(state.turns) == 2
        fork = await here.client.responses.create(model="hames", input=items)
        assert fork.output_text == "Fork."
        assert len(await here.threads()) == 2
        for name in ("msg_nonsense", f"msg_{state.id}.item_9", "msg_ses_nobody.item_1", ""):
            unknown: Any = [{"type": "item_reference", "id": name}, {"role": "user", "content": "x"}]
            with pytest.raises(openai.APIStatusError) as refused:
                await here.client.responses.create(model="hames", input=unknown)
            assert refused.value.status_code in (400, 404)


async def test_what_codex_sends_beside_its_request_is_named_as_ignored(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("One.")]) as here, http(here.server) as client:
        body = {"input": "x", "client_metadata": {"a": "b"}, "tools": [{"type": "web_search"}]}
        done = await client.post("/v1/responses", json=body)
        assert done.headers["x-hames-ignored"] == "client_metadata, tools.web_search"


async def test_a_chat_that_asks_says_how_a_server_asks_nothing(tmp_path: Path) -> None:
    script = ([call("run", text="x")], [call("run", text="x")])
    async with serving(tmp_path, *script) as here:
        text = await chat(here.client, [{"role": "user", "content": "go"}], stream=False)
        assert "hames serve --v1-policy never" in text
    (tmp_path / "other").mkdir()
    async with serving(tmp_path / "other", *script, api_policy="always") as here:
        text = await chat(here.client, [{"role": "user", "content": "go"}], stream=False)
        assert "approval needed" in text
        assert "--v1-policy" not in text
