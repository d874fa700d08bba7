"""A request in the dialect of OpenAI's Responses API. Pure: `ModelRequest` in, a JSON body out.

Nothing is stored with the service: what it thought comes back encrypted, and is sent
back in its place. A thought without what came of it is refused, so an interrupted one stays at home.
"""

import re

from hames.codecs.jsontext import encode_mended
from hames.domain.items import Picture
from hames.domain.json import Json
from hames.domain.request import (
    Block,
    CallBlock,
    Message,
    ModelRequest,
    PictureBlock,
    ReasoningBlock,
    ResultBlock,
    SearchBlock,
    TextBlock,
)
from hames.domain.value import Value
from hames.providers.call_ids import CallNames, plain
from hames.providers.openai.models import PROVIDER, gpt, has_message_phases

EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
SHOWN_PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
CALL_ID_CHARS = 64
NAME_CHARS = 64
SHORTEST_REPLY = 16
"""Fewer tokens than this are refused."""

_DATA_URL = re.compile(r"data:(?P<type>[\w/+.-]+);base64,(?P<data>.*)", re.DOTALL)


def encode(request: ModelRequest, *, reasoning: bool = True) -> bytes:
    """The body of `POST /v1/responses`. Without `reasoning`, earlier thoughts stay at home."""
    return encode_mended(as_json(request, reasoning=reasoning))


def as_json(request: ModelRequest, *, reasoning: bool = True) -> dict[str, Json]:
    card = gpt(request.model)
    names = CallNames(longest=CALL_ID_CHARS)
    asks = _Asks(reasoning=reasoning, phases=has_message_phases(request.model))
    body: dict[str, Json] = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message, names, asks)],
        "max_output_tokens": max(SHORTEST_REPLY, request.max_tokens),
        "stream": True,
        "store": False,
    }
    if request.system.strip():
        body["instructions"] = request.system
    if tools := _tools(request, searches=card.web_search):
        body["tools"] = tools
        body["tool_choice"] = "auto"
    if card.reasoning:
        body["include"] = ["reasoning.encrypted_content"]
        asked: dict[str, Json] = {"summary": "auto"}
        if (effort := request.options.get("reasoning_effort", "")) in EFFORTS:
            asked["effort"] = effort
        body["reasoning"] = asked
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key[:NAME_CHARS]
    return body


def _tools(request: ModelRequest, *, searches: bool) -> list[dict[str, Json]]:
    tools: list[dict[str, Json]] = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema,
            "strict": False,
        }
        for tool in request.tools
    ]
    if request.options.get("web_search") == "on" and searches:
        tools.append({"type": "web_search"})
    return tools


class _Asks(Value):
    """`phases`: the model wants to be told which of its messages were commentary."""

    reasoning: bool
    phases: bool


def _items(message: Message, names: CallNames, asks: _Asks) -> list[dict[str, Json]]:
    """Thoughts, calls and results are items of their own; what a user says between them is one message."""
    if message.role == "assistant":
        said = [item for block in message.blocks for item in _said(block, names, reasoning=asks.reasoning)]
        while said and said[-1]["type"] == "reasoning":
            said.pop()
        working = any(item["type"] == "function_call" for item in said)
        for item in said:
            if item["type"] == "message" and asks.phases:
                item["phase"] = "commentary" if working else "final_answer"
        return said
    results = [_result(block, names) for block in message.blocks if isinstance(block, ResultBlock)]
    content = [part for block in message.blocks for part in _content(block)]
    return [*results, {"type": "message", "role": "user", "content": content}] if content else results


def _said(block: Block, names: CallNames, *, reasoning: bool) -> list[dict[str, Json]]:
    match block:
        case TextBlock(text=text) if text.strip():
            return [{"type": "message", "role": "assistant", "content": text}]
        case ReasoningBlock(provider=provider, opaque=opaque) if provider == PROVIDER and reasoning:
            return [opaque] if isinstance(opaque, dict) else []
        case SearchBlock(provider=provider, opaque=opaque) if provider == PROVIDER and reasoning:
            return [opaque] if isinstance(opaque, dict) else []
        case CallBlock(call=call):
            return [
                {
                    "type": "function_call",
                    "call_id": names.call(call.id),
                    "name": plain(call.name)[:NAME_CHARS] or "_",
                    "arguments": call.arguments or "{}",
                }
            ]
        case _:
            return []


def _content(block: Block) -> list[dict[str, Json]]:
    match block:
        case TextBlock(text=text) if text.strip():
            return [{"type": "input_text", "text": text}]
        case PictureBlock(picture=picture, url=url):
            return [_picture(picture) if picture is not None else _picture_at(url)]
        case _:
            return []


def _result(block: ResultBlock, names: CallNames) -> dict[str, Json]:
    text = block.text if block.text.strip() else "(failed without a message)" if block.failed else "(no output)"
    output: Json = text
    if block.pictures:
        output = [{"type": "input_text", "text": text}, *map(_picture, block.pictures)]
    return {"type": "function_call_output", "call_id": names.result(block.call.id), "output": output}


def _picture(picture: Picture) -> dict[str, Json]:
    if picture.media_type not in SHOWN_PICTURES:
        return {"type": "input_text", "text": f"(a picture of type {picture.media_type!r}, which cannot be shown)"}
    return _picture_of(f"data:{picture.media_type};base64,{picture.base64}")


def _picture_at(url: str) -> dict[str, Json]:
    if found := _DATA_URL.fullmatch(url):
        return _picture(Picture(media_type=found["type"], base64=found["data"]))
    if url.startswith(("https://", "http://")):
        return _picture_of(url)
    return {"type": "input_text", "text": "(a picture at an address that cannot be read)"}


def _picture_of(url: str) -> dict[str, Json]:
    return {"type": "input_image", "image_url": url, "detail": "auto"}
