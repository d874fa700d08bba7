"""`/v1` of a server, driven by OpenAI's own package."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest

from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.domain.approvals import RunCommand
from hames.domain.commands import ListThreads, ReadThread, ThreadPage
from hames.domain.ids import ThreadId
from hames.domain.items import ToolCall
from hames.domain.state import ThreadState
from hames.server.app import Server
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from server_support import following, http, running
from support import ECHO, PlainTool, echo, engine

RUN = PlainTool("run", echo, intent=RunCommand(command="make it", cwd="/"))
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOL: Any = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": WEATHER}}
TOOL: Any = {"type": "function", "name": "weather", "description": "d", "parameters": WEATHER}


class House:
    def __init__(self, engine: Engine, server: Server, client: openai.AsyncOpenAI, model: ScriptedModel) -> None:
        self.engine, self.server, self.client, self.model = engine, server, client, model

    async def threads(self) -> list[ThreadState]:
        page = await self.engine.execute(ListThreads())
        assert isinstance(page, ThreadPage)
        return [await self.state(one.id) for one in page.threads]

    async def state(self, thread_id: str) -> ThreadState:
        state = await self.engine.execute(ReadThread(thread_id=ThreadId(thread_id)))
        assert isinstance(state, ThreadState)
        return state


@asynccontextmanager
async def serving(directory: Path, *script: Any, **options: Any) -> AsyncGenerator[House]:
    model = ScriptedModel(*script)
    extras = {name: options.pop(name) for name in ("api_policy",) if name in options}
    async with (
        engine(model, ECHO, RUN, clock=SystemClock(), **options) as here,
        running(here, directory / "data", **extras) as server,
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
    ):
        with anyio.fail_after(60):
            yield House(here, server, client, model)


async def test_models_are_listed(tmp_path: Path) -> None:
    async with serving(tmp_path) as here:
        names = [model.id async for model in await here.client.models.list()]
        assert names[0] == "hames"
        assert len(names) > 1
        assert (await here.client.models.retrieve(names[1])).id == names[1]
        with pytest.raises(openai.NotFoundError):
            await here.client.models.retrieve("no/such")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_goes_on_in_its_thread_and_the_model_is_told_nothing_twice(tmp_path: Path, stream: bool) -> None:
    script = ([say("Looking."), call("echo", text="x")], [say("One.")], [say("Two.")])
    async with serving(tmp_path, *script) as here:
        messages: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "first"}]
        text = await chat(here.client, messages, stream)
        assert text == "Looking.\n\nOne."
        messages += [{"role": "assistant", "content": text + " "}, {"role": "user", "content": "second"}]
        assert await chat(here.client, messages, stream) == "Two."
        (state,) = await here.threads()
        assert len(state.turns) == 2
        assert state.settings.instructions == "Be brief."
        assert str(here.model.requests[-1]).count("first") == 1


async def chat(client: openai.AsyncOpenAI, messages: list[Any], stream: bool, **more: Any) -> str:
    if not stream:
        done = await client.chat.completions.create(model="hames", messages=messages, **more)
        assert done.usage is not None
        return done.choices[0].message.content or ""
    text = ""
    options: Any = {"include_usage": True}
    async for chunk in await client.chat.completions.create(
        model="hames", messages=messages, stream=True, stream_options=options, **more
    ):
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert chunk.usage is not None
    return text


async def test_a_chat_with_another_past_forks_and_a_foreign_one_brings_its_history(tmp_path: Path) -> None:
    script = ([say("One.")], [say("Two.")], [say("Other.")], [say("Foreign.")])
    async with serving(tmp_path, *script) as here:
        first: list[Any] = [{"role": "user", "content": "first"}]
        await chat(here.client, first, stream=False)
        again = [*first, {"role": "assistant", "content": "One."}, {"role": "user", "content": "second"}]
        await chat(here.client, again, stream=False)
        await chat(here.client, [*again[:2], {"role": "user", "content": "edited"}], stream=False)
        assert len(await here.threads()) == 2
        asked = str(here.model.requests[-1])
        assert "second" not in asked
        assert asked.count("first") == 1
        past = [{"role": "user", "content": "elsewhere"}, {"role": "assistant", "content": "yes"}]
        await chat(here.client, [*past, {"role": "user", "content": "go on"}], stream=False)
        assert len(await here.threads()) == 3
        assert "elsewhere" in str(here.model.requests[-1])


async def test_a_chat_is_found_again_by_a_server_that_remembers_nothing(tmp_path: Path) -> None:
    messages: list[Any] = [{"role": "user", "content": "first"}]
    async with serving(tmp_path, [say("One.")], [say("Two.")]) as here:
        text = await chat(here.client, messages, stream=False)
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "second"}]
        async with (
            running(here.engine, tmp_path / "other") as other,
            openai.AsyncOpenAI(base_url=f"{other.url}/v1", api_key="none", max_retries=0) as client,
        ):
            assert await chat(client, messages, stream=False) == "Two."
        (state,) = await here.threads()
        assert len(state.turns) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_function_tools_of_a_chat_are_carried_out_by_the_client(tmp_path: Path, stream: bool) -> None:
    script = ([call("weather", city="Oslo"), call("weather", city="Rome")], [say("Sunny.")])
    async with serving(tmp_path, *script) as here:
        messages: list[Any] = [{"role": "user", "content": "weather?"}]
        create = here.client.chat.completions.create
        if stream:
            calls: list[Any] = []
            async for chunk in await create(model="hames", messages=messages, tools=[CHAT_TOOL], stream=True):
                for choice in chunk.choices:
                    calls += choice.delta.tool_calls or []
        else:
            done = await create(model="hames", messages=messages, tools=[CHAT_TOOL])
            assert done.choices[0].finish_reason == "tool_calls"
            calls = list(done.choices[0].message.tool_calls or [])
        assert [json.loads(one.function.arguments)["city"] for one in calls] == ["Oslo", "Rome"]
        made = [
            {"id": one.id, "type": "function", "function": {"name": "weather", "arguments": one.function.arguments}}
            for one in calls
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": made})
        messages += [{"role": "tool", "tool_call_id": one.id, "content": f"sun {one.id}"} for one in calls]
        assert await chat(here.client, messages, stream, tools=[CHAT_TOOL]) == "Sunny."
        (state,) = await here.threads()
        assert len(state.turns) == 1
        items = [item for item in state.turns[0].items if isinstance(item, ToolCall)]
        assert [item.result.text for item in items if item.result] == [f"sun {one.id}" for one in calls]


@pytest.mark.parametrize(("word", "status"), [("approve", "completed"), ("No, not that", "declined")])
async def test_a_chat_that_needs_an_approval_says_so_and_the_next_message_decides(
    tmp_path: Path, word: str, status: str
) -> None:
    async with serving(tmp_path, [say("Trying."), call("run", text="x")], [say("Done.")], [say("More.")]) as here:
        messages: list[Any] = [{"role": "user", "content": "go"}]
        text = await chat(here.client, messages, stream=True)
        assert "approval needed" in text
        assert "make it" in text
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": word}]
        assert await chat(here.client, messages, stream=True) == "Done."
        (state,) = await here.threads()
        tool = next(item for item in state.turns[0].items if isinstance(item, ToolCall))
        assert tool.status == status
        messages += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "more"}]
        assert await chat(here.client, messages, stream=True) == "More."
        assert len(await here.threads()) == 1


async def test_a_policy_given_at_start_asks_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, [call("run", text="x")], [say("Done.")], api_policy="never") as here:
        assert await chat(here.client, [{"role": "user", "content": "go"}], stream=False) == "Done."


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_and_the_one_that_follows_it(tmp_path: Path, stream: bool) -> None:
    script = ([say("Looking."), call("echo", text="x")], [say("One.")], [say("Two.")], [say("Fork.")])
    async with serving(tmp_path, *script) as here:
        first = await respond(here.client, stream, input="first", instructions="Be brief.")
        assert [item.type for item in first.output] == ["message", "mcp_call", "message"]
        assert first.status == "completed"
        assert first.usage is not None
        second = await respond(here.client, stream, input="second", previous_response_id=first.id)
        assert second.output_text == "Two."
        (state,) = await here.threads()
        assert len(state.turns) == 2
        stored = await here.client.responses.retrieve(first.id)
        assert (stored.output_text, stored.status) == ("Looking.One.", "completed")
        fork = await respond(here.client, stream, input="third", previous_response_id=first.id)
        assert fork.output_text == "Fork."
        assert len(await here.threads()) == 2
        with pytest.raises(openai.NotFoundError):
            await here.client.responses.create(model="hames", input="x", previous_response_id="resp_a.b.0")


async def test_two_requests_after_one_response_are_both_answered_and_the_slower_one_gets_a_fork(tmp_path: Path) -> None:
    script = ([say("One.")], [say("Two.")], [say("Two.")], [say("Two.")])
    async with serving(tmp_path, *script) as here:
        first = await here.client.responses.create(model="hames", input="first")
        found: list[Any] = []

        async def go_on(number: int) -> None:
            more: Any = {"previous_response_id": first.id, "input": f"more {number}"}
            found.append(await here.client.responses.create(model="hames", **more))

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(go_on, number)
        assert [one.output_text for one in found] == ["Two."] * 3
        assert sorted(len(state.turns) for state in await here.threads()) == [2, 2, 2]
        assert all("first" in str(request.messages) for request in here.model.requests)


async def respond(client: openai.AsyncOpenAI, stream: bool, **more: Any) -> Any:
    if not stream:
        return await client.responses.create(model="hames", **more)
    numbers: list[int] = []
    text = ""
    async with client.responses.stream(model="hames", **more) as events:
        async for one in events:
            numbers.append(one.sequence_number)
            text += one.delta if one.type == "response.output_text.delta" else ""
        done = await events.get_final_response()
    assert numbers == list(range(len(numbers)))
    assert done.output_text == text
    return done


@pytest.mark.parametrize("stream", [False, True])
async def test_function_tools_of_a_response_are_carried_out_by_the_client(tmp_path: Path, stream: bool) -> None:
    async with serving(tmp_path, [call("weather", city="Oslo")], [say("Sunny.")]) as here:
        first = await respond(here.client, stream, input="weather?", tools=[TOOL])
        (made,) = first.output
        assert (made.type, made.name, json.loads(made.arguments)) == ("function_call", "weather", {"city": "Oslo"})
        output = [{"type": "function_call_output", "call_id": made.call_id, "output": "sun"}]
        second = await respond(here.client, stream, input=output, previous_response_id=first.id, tools=[TOOL])
        assert second.output_text == "Sunny."
        (state,) = await here.threads()
        assert len(state.turns) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("approve", [True, False])
async def test_an_approval_is_an_item_that_the_next_request_answers(
    tmp_path: Path, stream: bool, approve: bool
) -> None:
    async with serving(tmp_path, [call("run", text="x")], [say("Done.")]) as here:
        first = await respond(here.client, stream, input="go")
        asked = first.output[-1]
        assert asked.type == "mcp_approval_request"
        assert "make it" in asked.arguments
        answer = [{"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": approve}]
        second = await respond(here.client, stream, input=answer, previous_response_id=first.id)
        assert second.output_text == "Done."
        (state,) = await here.threads()
        tool = next(item for item in state.turns[0].items if isinstance(item, ToolCall))
        assert tool.status == ("completed" if approve else "declined")


async def test_a_background_response_is_polled_and_cancelled(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("One.")], [hang()]) as here:
        queued = await here.client.responses.create(model="hames", input="go", background=True)
        assert queued.status == "queued"
        while (now := await here.client.responses.retrieve(queued.id)).status == "in_progress":
            await anyio.lowlevel.checkpoint()
        assert now.output_text == "One."
        hanging = await here.client.responses.create(model="hames", input="go", background=True)
        cancelled = await here.client.responses.cancel(hanging.id)
        assert cancelled.status == "cancelled"


async def test_a_client_that_goes_interrupts_its_turn(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("one two three ", cut=True), hang()]) as here:
        stream = await here.client.chat.completions.create(
            model="hames", messages=[{"role": "user", "content": "go"}], stream=True
        )
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
        (state,) = await here.threads()
        watcher = await here.engine.follow(state.id)
        while watcher.state.running is not None:
            watcher.state = (await watcher.next())[-1].after
        assert watcher.state.turns[-1].status == "interrupted"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("chat/completions", {}, 400),
        ("chat/completions", {"messages": []}, 400),
        ("chat/completions", {"messages": [{"role": "king", "content": "x"}]}, 400),
        ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, 400),
        ("chat/completions", {"messages": [{"role": "user", "content": "x"}], "n": 2}, 400),
        ("chat/completions", {"messages": [{"role": "user", "content": "x"}], "functions": []}, 400),
        ("chat/completions", {"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}, 400),
        ("chat/completions", {"messages": [{"role": "user", "content": "x"}], "model": "no/such"}, 404),
        ("responses", {"input": ""}, 400),
        ("responses", {"input": "x", "conversation": "c"}, 400),
        ("responses", {"input": "x", "tools": [{"type": "file_search"}]}, 400),
        ("responses", {"input": [{"type": "item_reference"}]}, 400),
        ("responses", {"input": "x", "previous_response_id": "nonsense"}, 404),
    ],
)
async def test_what_is_not_supported_is_refused_in_openais_shape(
    tmp_path: Path, path: str, body: Any, status: int
) -> None:
    async with serving(tmp_path) as here, http(here.server) as client:
        refused = await client.post(f"/v1/{path}", json=body)
        assert refused.status_code == status
        error = refused.json()["error"]
        assert error["message"]
        assert error["type"] == "invalid_request_error"
        assert not await here.threads()


async def test_what_is_ignored_is_named_and_the_thread_is_seen_live(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("One.")], [say("Two.")]) as here, http(here.server) as client:
        body = {"messages": [{"role": "user", "content": "x"}], "temperature": 0.5, "stop": ["a"]}
        done = await client.post("/v1/chat/completions", json=body)
        assert done.headers["x-hames-ignored"] == "temperature, stop"
        thread = done.headers["x-hames-thread"]
        async with following(here.server, thread) as follower:
            messages = [*body["messages"], {"role": "assistant", "content": "One."}, {"role": "user", "content": "y"}]
            await client.post("/v1/chat/completions", json={"messages": messages})
            await follower.until(lambda state: "Two." in json.dumps(state))


async def test_images_reach_the_model(tmp_path: Path) -> None:
    pixel = (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
        "RU5ErkJggg=="
    )
    async with serving(tmp_path, [say("A pixel.")]) as here:
        content: Any = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": pixel}}]
        assert await chat(here.client, [{"role": "user", "content": content}], stream=False) == "A pixel."
        assert "iVBORw0KGgo" in str(here.model.requests[-1])
