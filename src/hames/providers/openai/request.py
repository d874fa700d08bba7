"""A request in the dialect of OpenAI's Responses API. Pure: `ModelRequest` in, a JSON body out.

Nothing is stored with the service: what it thought comes back encrypted, and is sent
back in its place. Reasoning without what followed it is refused, so that of an interrupted reply is left out.
"""

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
from hames.providers.openai.models import PROVIDER, gpt, has_message_phases
from hames.providers.pictures import picture_url
from hames.providers.tool_calls import CallNames, plain, result_text

EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
CALL_ID_CHARS = 64
NAME_CHARS = 64
SHORTEST_REPLY = 16
"""Fewer tokens than this are refused."""


def encode(request: ModelRequest, *, reasoning: bool = True) -> bytes:
    """The body of `POST /v1/responses`. Without `reasoning`, earlier reasoning is left out."""
    return encode_mended(as_json(request, reasoning=reasoning))


def as_json(request: ModelRequest, *, reasoning: bool = True) -> dict[str, Json]:
    card = gpt(request.model)
    names = CallNames(longest=CALL_ID_CHARS)
    phases = has_message_phases(request.model)
    body: dict[str, Json] = {
        "model": request.model,
        "input": [
            item for message in request.messages for item in _items(message, names, reasoning=reasoning, phases=phases)
        ],
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


def _items(message: Message, names: CallNames, *, reasoning: bool, phases: bool) -> list[dict[str, Json]]:
    """Thoughts, calls and results are items of their own; what a user says between them is one message."""
    if message.role == "assistant":
        items = [item for block in message.blocks for item in _assistant_items(block, names, reasoning=reasoning)]
        while items and items[-1]["type"] == "reasoning":
            items.pop()
        working = any(item["type"] == "function_call" for item in items)
        for item in items:
            if item["type"] == "message" and phases:
                item["phase"] = "commentary" if working else "final_answer"
        return items
    results = [_result(block, names) for block in message.blocks if isinstance(block, ResultBlock)]
    content = [part for block in message.blocks for part in _content(block)]
    return [*results, {"type": "message", "role": "user", "content": content}] if content else results


def _assistant_items(block: Block, names: CallNames, *, reasoning: bool) -> list[dict[str, Json]]:
    match block:
        case TextBlock(text=text) if text.strip():
            return [{"type": "message", "role": "assistant", "content": text}]
        case ReasoningBlock() | SearchBlock() if block.provider == PROVIDER and reasoning:
            return [block.opaque] if isinstance(block.opaque, dict) else []
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
            return [_picture(picture, url)]
        case _:
            return []


def _result(block: ResultBlock, names: CallNames) -> dict[str, Json]:
    output: Json = result_text(block)
    if block.pictures:
        output = [{"type": "input_text", "text": output}, *map(_picture, block.pictures)]
    return {"type": "function_call_output", "call_id": names.result(block.call.id), "output": output}


def _picture(picture: Picture | None, url: str = "") -> dict[str, Json]:
    address, words = picture_url(picture, url)
    if words:
        return {"type": "input_text", "text": words}
    return {"type": "input_image", "image_url": address, "detail": "auto"}
