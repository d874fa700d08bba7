"""The official `openai` SDK as the oracle: the same bytes, read by those who wrote them.

Only tests import this; the SDK takes more than a second to load.
"""

import warnings
from typing import Any

import httpx2
import msgspec
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, completion_create_params
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseIncompleteEvent,
    response_create_params,
)
from pydantic import TypeAdapter

from hames.domain.ids import CallId
from hames.domain.items import Call
from hames.domain.json import Json
from hames.domain.request import StopReason
from hames.domain.usage import Usage
from hames.testing.services.outcome import Outcome
from oracles.canned import CannedTransport

INCOMPLETE: dict[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
FINISHED: dict[str, StopReason] = {
    "stop": "end",
    "length": "max_tokens",
    "tool_calls": "tools",
    "content_filter": "refusal",
}


def _client(transport: CannedTransport) -> AsyncOpenAI:
    http = httpx2.AsyncClient(transport=transport, trust_env=False)
    return AsyncOpenAI(api_key="test", max_retries=0, http_client=http)


async def read_by_sdk(chunks: list[bytes]) -> Outcome:
    """What the SDK makes of a stream of the Responses API. Raises whatever the SDK raises.

    The SDK's own accumulator knows only completed replies, so an incomplete one is its last event's.
    """
    last: Response | None = None
    async with _client(CannedTransport(chunks)).responses.stream(model="gpt-test", input="?") as stream:
        async for event in stream:
            if isinstance(event, ResponseCompletedEvent | ResponseIncompleteEvent):
                last = event.response
    assert last is not None, "the stream ended without its last word"
    read = last.to_dict(mode="json")
    output: list[Json] = [item for item in _list(read["output"]) if isinstance(item, dict)]
    details = read.get("incomplete_details")
    word = _text(details, "reason") or str(read["status"])
    calls = tuple(
        Call(id=CallId(item["call_id"]), name=item["name"], arguments=_arguments(item))
        for item in output
        if item["type"] in ("function_call", "custom_tool_call") and item.get("status") != "incomplete"
    )
    parts = [part for item in output if item["type"] == "message" for part in item["content"]]
    refused = any(part["type"] == "refusal" for part in parts)
    reason: StopReason = "tools" if calls else "refusal" if refused else "end"
    if read["status"] == "incomplete":
        reason = INCOMPLETE.get(word, "unknown")
    return Outcome(
        texts=tuple(
            text
            for item in output
            if item["type"] == "message"
            if (text := "".join(_text(part, "text") or _text(part, "refusal") for part in item["content"]))
        ),
        thoughts=tuple(text for item in output if item["type"] == "reasoning" if (text := _summary(item))),
        opaques=tuple(
            {name: item[name] for name in ("type", "id", "summary", "encrypted_content")}
            if item.get("encrypted_content")
            else None
            for item in output
            if item["type"] == "reasoning"
        ),
        calls=calls,
        searches=tuple(_query(item["action"]) for item in output if item["type"] == "web_search_call"),
        usage=_usage(read.get("usage"), "input", "output"),
        reason=reason,
        word=word,
    )


def _arguments(item: Json) -> str:
    """Plain text for a tool is the one argument of its call."""
    if item["type"] == "function_call":
        return item["arguments"]
    return msgspec.json.encode({"input": item["input"]}).decode()


async def read_chat_by_sdk(chunks: list[bytes]) -> Outcome:
    """What the SDK's accumulator makes of a stream of chat completions."""
    client = _client(CannedTransport(chunks))
    async with client.chat.completions.stream(model="test", messages=[{"role": "user", "content": "?"}]) as stream:
        completion: ChatCompletion = await stream.get_final_completion()
    read = completion.to_dict(mode="json", exclude_unset=False)
    choice: Json = _list(read["choices"])[0]
    message = choice["message"]
    calls = tuple(
        Call(id=CallId(call["id"]), name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in message.get("tool_calls") or []
    )
    thought = message.get("reasoning_content") or message.get("reasoning")
    return Outcome(
        texts=(message["content"],) if message.get("content") else (),
        thoughts=(thought,) if thought else (),
        calls=calls,
        usage=_usage(read.get("usage"), "prompt", "completion"),
        reason=FINISHED.get(choice["finish_reason"], "unknown"),
        word=choice["finish_reason"],
    )


async def accepted_by_sdk(body: Json) -> Json:
    """The request the SDK would send for the same arguments, which it must know by name and by type."""
    _typed(response_create_params.ResponseCreateParamsStreaming, body)
    transport = CannedTransport([b"data: [DONE]\n\n"])
    async for _ in await _client(transport).responses.create(**body):
        pass
    return msgspec.json.decode(transport.requests[0].content)


async def accepted_chat_by_sdk(body: Json) -> Json:
    """The same for chat completions."""
    _typed(completion_create_params.CompletionCreateParamsStreaming, body)
    transport = CannedTransport([b"data: [DONE]\n\n"])
    async for _ in await _client(transport).chat.completions.create(**body):
        pass
    return msgspec.json.decode(transport.requests[0].content)


async def address_of_sdk(base_url: str) -> tuple[str, str]:
    """Where the SDK sends requests for the Responses API and chat completions, given a base URL."""
    transport = CannedTransport([b"data: [DONE]\n\n"])
    client = _client(transport).with_options(base_url=base_url)
    async for _ in await client.responses.create(model="m", input="?", stream=True):
        pass
    async for _ in await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "?"}], stream=True
    ):
        pass
    first, second = transport.requests
    return str(first.url), str(second.url)


def _typed(kind: Any, body: Json) -> None:
    """Validated by the SDK's own types; a member they do not know is lost there, and noticed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapter = TypeAdapter(kind)
        kept = adapter.dump_python(adapter.validate_python(body, strict=False), mode="json", warnings=False)
    assert kept == body, f"the SDK knows {kept}, not {body}"


def _usage(usage: Json, asked: str, said: str) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    into, out = usage.get(f"{asked}_tokens_details") or {}, usage.get(f"{said}_tokens_details") or {}
    read, written = into.get("cached_tokens") or 0, into.get("cache_write_tokens") or 0
    return Usage(
        input_tokens=usage[f"{asked}_tokens"] - read - written,
        output_tokens=usage[f"{said}_tokens"],
        thinking_tokens=out.get("reasoning_tokens") or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _query(action: Json) -> str:
    return _text(action, "query") or next(iter(action.get("queries") or []), "") or _text(action, "url")


def _summary(item: Json) -> str:
    return "\n\n".join(part["text"] for part in item["summary"])


def _text(value: Json, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _list(value: object) -> list[Json]:
    return value if isinstance(value, list) else []
