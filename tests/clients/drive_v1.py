"""Clients of OpenAI's APIs for Python, against `/v1` of a server. Prints what one of them saw, as JSON.

python drive_v1.py CLIENT http://127.0.0.1:PORT
"""

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

client, url = sys.argv[1:3]
BASE, KEY = f"{url}/v1", "none"
told: dict[str, Any] = {}
called: list[str] = []
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def count_threads() -> int:
    with urllib.request.urlopen(f"{url}/threads") as response:
        return len(json.load(response)["threads"])


def litellm() -> None:
    from litellm import completion, responses
    from pydantic import BaseModel

    class Count(BaseModel):
        n: int

    where: Any = {"model": "openai/hames", "api_base": BASE, "api_key": KEY}
    messages: list[Any] = [{"role": "user", "content": "Greet me"}]
    first = completion(messages=messages, **where)
    told["text"] = first.choices[0].message.content
    told["usage"] = first.usage.completion_tokens
    messages += [first.choices[0].message, {"role": "user", "content": "Still there?"}]
    parts = completion(messages=messages, stream=True, **where)
    told["streamed"] = "".join(part.choices[0].delta.content or "" for part in parts)
    told["threads"] = count_threads()
    tools = [{"type": "function", "function": {"name": "weather", "description": "d", "parameters": WEATHER}}]
    messages = [{"role": "user", "content": "Weather"}]
    asked = completion(messages=messages, tools=tools, **where).choices[0].message
    messages.append(asked)
    for one in asked.tool_calls:
        called.append(json.loads(one.function.arguments)["city"])
        messages.append({"role": "tool", "tool_call_id": one.id, "content": "sunny"})
    told["tool"] = completion(messages=messages, tools=tools, **where).choices[0].message.content
    typed = completion(messages=[{"role": "user", "content": "Count"}], response_format=Count, **where)
    told["typed"] = json.loads(typed.choices[0].message.content)
    told["responses"] = {"text": responses(input="Greet me", **where).output_text}


def pydantic_ai() -> None:
    from pydantic import BaseModel
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    class Count(BaseModel):
        n: int

    provider = OpenAIProvider(base_url=BASE, api_key=KEY)

    def weather(city: str) -> str:
        called.append(city)
        return "sunny"

    async def drive(model: Any, into: dict[str, Any]) -> None:
        agent = Agent(model, instructions="You are a lighthouse.")
        first = await agent.run("Greet me")
        into["text"], into["usage"] = first.output, first.usage.output_tokens
        async with agent.run_stream("Still there?", message_history=first.all_messages()) as stream:
            into["streamed"] = await stream.get_output()
        into["threads"] = count_threads()
        into["tool"] = (await Agent(model, tools=[weather]).run("Weather")).output
        into["typed"] = (await Agent(model, output_type=Count).run("Count")).output.model_dump()

    async def both() -> None:
        await drive(OpenAIChatModel("hames", provider=provider), told)
        other: dict[str, Any] = {}
        await drive(OpenAIResponsesModel("hames", provider=provider), other)
        told["responses"] = other

    asyncio.run(both())


def langchain() -> None:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from pydantic import BaseModel

    class Count(BaseModel):
        """A number."""

        n: int

    @tool
    def weather(city: str) -> str:
        """The weather."""
        called.append(city)
        return "sunny"

    def drive(model: Any, into: dict[str, Any]) -> None:
        messages: list[Any] = [HumanMessage("Greet me")]
        first = model.invoke(messages)
        into["text"], into["usage"] = first.text, first.usage_metadata["output_tokens"]
        messages += [first, HumanMessage("Still there?")]
        into["streamed"] = "".join(part.text for part in model.stream(messages))
        into["threads"] = count_threads()
        messages = [HumanMessage("Weather")]
        asked = model.bind_tools([weather]).invoke(messages)
        messages.append(asked)
        for call in asked.tool_calls:
            messages.append(ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]))
        into["tool"] = model.bind_tools([weather]).invoke(messages).text
        into["typed"] = model.with_structured_output(Count).invoke("Count").model_dump()
        into["forced"] = model.with_structured_output(Count, method="function_calling").invoke("Count").model_dump()

    drive(ChatOpenAI(model="hames", base_url=BASE, api_key=KEY), told)
    other: dict[str, Any] = {}
    drive(ChatOpenAI(model="hames", base_url=BASE, api_key=KEY, use_responses_api=True), other)
    told["responses"] = other


def openai_agents() -> None:
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        Runner,
        function_tool,
        set_tracing_disabled,
    )
    from openai import AsyncOpenAI
    from pydantic import BaseModel

    class Count(BaseModel):
        n: int

    @function_tool
    def weather(city: str) -> str:
        """The weather."""
        called.append(city)
        return "sunny"

    set_tracing_disabled(True)
    api = AsyncOpenAI(base_url=BASE, api_key=KEY, max_retries=0)

    async def drive(model: Any, into: dict[str, Any]) -> None:
        agent = Agent(name="a", instructions="You are a lighthouse.", model=model)
        first = await Runner.run(agent, "Greet me")
        into["text"] = first.final_output
        into["usage"] = first.raw_responses[0].usage.output_tokens
        stream = Runner.run_streamed(agent, [*first.to_input_list(), {"role": "user", "content": "Still there?"}])
        async for _ in stream.stream_events():
            pass
        into["streamed"] = stream.final_output
        into["threads"] = count_threads()
        into["tool"] = (await Runner.run(Agent(name="b", tools=[weather], model=model), "Weather")).final_output
        typed = await Runner.run(Agent(name="c", output_type=Count, model=model), "Count")
        into["typed"] = typed.final_output.model_dump()

    async def both() -> None:
        await drive(OpenAIChatCompletionsModel("hames", api), told)
        other: dict[str, Any] = {}
        await drive(OpenAIResponsesModel("hames", api), other)
        told["responses"] = other

    asyncio.run(both())


def llm() -> None:
    """The command `llm`, with the file that its documentation asks for."""
    folder = Path(os.environ["HOME"]) / "llm"
    folder.mkdir()
    (folder / "extra-openai-models.yaml").write_text(os.environ["LLM_MODELS"])

    def run(*words: str) -> str:
        command = [str(Path(sys.executable).parent / "llm"), *words]
        environment = {**os.environ, "LLM_USER_PATH": str(folder)}
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    run("keys", "set", "hames", "--value", KEY)
    told["text"] = run("-m", "hames", "--no-stream", "Greet me")
    told["streamed"] = run("-m", "hames", "-c", "Still there?")
    told["threads"] = count_threads()
    told["typed"] = json.loads(run("-m", "hames", "--schema", "n int", "Count"))


{
    "litellm": litellm,
    "pydantic-ai": pydantic_ai,
    "langchain-openai": langchain,
    "openai-agents": openai_agents,
    "llm": llm,
}[client]()
told["called"] = called
print(json.dumps(told))
