"""A request in the dialect of OpenAI's Responses API. Pure: `ModelRequest` in, a JSON body out.

Nothing is stored with the service: what it thought comes back encrypted, and is sent
back in its place. Reasoning of another provider means nothing there and stays at home.
"""

import re

import msgspec

from hames.domain.items import Picture
from hames.domain.json import Json
from hames.domain.request import (
    Block,
    CallBlock,
    ModelRequest,
    PictureBlock,
    ReasoningBlock,
    ResultBlock,
    SearchBlock,
    TextBlock,
)
from hames.providers.gpt import PROVIDER, gpt

EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh"})
SHOWN_PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
CALL_ID_CHARS = 64

_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def encode(request: ModelRequest, *, reasoning: bool = True) -> bytes:
    """The body of `POST /v1/responses`. Without `reasoning`, earlier thoughts stay at home."""
    body = as_json(request, reasoning=reasoning)
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # half a surrogate pair in somebody's text
        return msgspec.json.encode(_encodable(body))


def as_json(request: ModelRequest, *, reasoning: bool = True) -> dict[str, Json]:
    card = gpt(request.model)
    body: dict[str, Json] = {
        "model": request.model,
        "input": [part for message in request.messages for part in _message(message.role, message.blocks, reasoning)],
        "max_output_tokens": max(16, request.max_tokens),
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
        body["prompt_cache_key"] = request.cache_key
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


def _message(role: str, blocks: tuple[Block, ...], reasoning: bool) -> list[dict[str, Json]]:
    """Results and calls are items of their own; what stands between them is one message."""
    sent: list[dict[str, Json]] = []
    content: list[dict[str, Json]] = []

    def flush() -> None:
        if content:
            sent.append({"type": "message", "role": role, "content": content.copy()})
            content.clear()

    for block in blocks:
        match block:
            case TextBlock(text=text) if text.strip():
                content.append({"type": "output_text" if role == "assistant" else "input_text", "text": text})
            case PictureBlock() if role == "user" and (url := _url(block)):
                content.append({"type": "input_image", "image_url": url, "detail": "auto"})
            case _:
                flush()
                sent += _item(block, reasoning=reasoning)
    flush()
    return sent


def _item(block: Block, *, reasoning: bool) -> list[dict[str, Json]]:
    match block:
        case ReasoningBlock(provider=provider, opaque=opaque) if provider == PROVIDER and reasoning:
            return [opaque] if isinstance(opaque, dict) else []
        case SearchBlock(provider=provider, opaque=opaque) if provider == PROVIDER:
            return [opaque] if isinstance(opaque, dict) else []
        case CallBlock(call=call):
            return [
                {
                    "type": "function_call",
                    "call_id": call_id(call.id),
                    "name": _NOT_IN_NAME.sub("_", call.name) or "_",
                    "arguments": call.arguments or "{}",
                }
            ]
        case ResultBlock(call=call):
            return [{"type": "function_call_output", "call_id": call_id(call.id), "output": _output(block)}]
        case _:
            return []


def _output(block: ResultBlock) -> Json:
    text = block.text or ("failed" if block.failed else "(no output)")
    pictures = [picture for picture in block.pictures if picture.media_type in SHOWN_PICTURES]
    if not pictures:
        return text
    shown = [{"type": "input_image", "image_url": _data_url(picture), "detail": "auto"} for picture in pictures]
    return [{"type": "input_text", "text": text}, *shown]


def _url(block: PictureBlock) -> str:
    if block.picture is None:
        return block.url
    return _data_url(block.picture) if block.picture.media_type in SHOWN_PICTURES else ""


def _data_url(picture: Picture) -> str:
    return f"data:{picture.media_type};base64,{picture.base64}"


def call_id(name: str) -> str:
    """The service's alphabet and length; the same name always becomes the same id."""
    return (_NOT_IN_NAME.sub("_", name) or "_")[-CALL_ID_CHARS:]


def _encodable(value: Json) -> Json:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case list():
            return [_encodable(one) for one in value]
        case dict():
            return {_encodable(name): _encodable(one) for name, one in value.items()}
        case _:
            return value
