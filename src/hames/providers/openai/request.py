"""A request in the dialect of OpenAI's Responses API. Pure: `ModelRequest` in, a JSON body out.

Nothing is stored with the service: what it thought comes back encrypted, and is sent
back in its place. Reasoning without what followed it is refused, so that of an interrupted reply is left out.
"""

import msgspec
from msgspec import Struct

from hames.codecs.jsontext import encode_mended
from hames.domain.items import Call, Picture
from hames.domain.json import Json
from hames.domain.request import (
    Block,
    CallBlock,
    Message,
    ModelRequest,
    OfferedTool,
    PictureBlock,
    ReasoningBlock,
    ResultBlock,
    SearchBlock,
    TextBlock,
)
from hames.providers.call_ids import CallNames, plain, result_text
from hames.providers.openai.models import PROVIDER, gpt, has_message_phases, takes_freeform_tools
from hames.providers.pictures import picture_url

EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
USUAL_EFFORT = "medium"
CALL_ID_CHARS = 64
NAME_CHARS = 64
FREEFORM_TOOLS = frozenset({"apply_patch"})
"""Tools that models write plain text for."""
SHORTEST_REPLY = 16
"""Fewer tokens than this are refused."""


def encode(request: ModelRequest, *, reasoning: bool = True) -> bytes:
    """The body of `POST /v1/responses`. Without `reasoning`, earlier reasoning is left out."""
    return encode_mended(as_json(request, reasoning=reasoning))


def as_json(request: ModelRequest, *, reasoning: bool = True) -> dict[str, Json]:
    card = gpt(request.model)
    names = _Names(freeform=takes_freeform_tools(request.model))
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
        body["parallel_tool_calls"] = True
    if card.reasoning:
        body["include"] = ["reasoning.encrypted_content"]
        effort = request.options.get("reasoning_effort", "")
        # Said, because the newer ones do not think at all unless they are asked to.
        body["reasoning"] = {"summary": "auto", "effort": effort if effort in EFFORTS else USUAL_EFFORT}
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key[:NAME_CHARS]
    return body


class _Names(CallNames):
    """The names of calls, and whether text for a tool goes back as plain text."""

    def __init__(self, *, freeform: bool) -> None:
        super().__init__(longest=CALL_ID_CHARS)
        self._freeform = freeform

    def text_of(self, call: Call) -> str | None:
        """What the model wrote for a tool that takes plain text; None for any other call.

        Told from the call alone: the tools that are offered may change, and what was said must stay as it is."""
        if not self._freeform or call.name not in FREEFORM_TOOLS:
            return None
        try:
            return msgspec.json.decode(call.arguments, type=_Freeform).input
        except (msgspec.MsgspecError, RecursionError):
            return None


class _Freeform(Struct, forbid_unknown_fields=True):
    input: str


def _tools(request: ModelRequest, *, searches: bool) -> list[dict[str, Json]]:
    freeform = takes_freeform_tools(request.model)
    tools = [_tool(tool, freeform=freeform) for tool in request.tools]
    if request.options.get("web_search") == "on" and searches:
        tools.append({"type": "web_search"})
    return tools


def _tool(tool: OfferedTool, *, freeform: bool) -> dict[str, Json]:
    if freeform and tool.grammar and tool.name in FREEFORM_TOOLS:
        form = {"type": "grammar", "syntax": "lark", "definition": tool.grammar}
        return {"type": "custom", "name": tool.name, "description": tool.description, "format": form}
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "strict": False,
    }


def _items(message: Message, names: _Names, *, reasoning: bool, phases: bool) -> list[dict[str, Json]]:
    """Thoughts, calls and results are items of their own; what a user says between them is one message."""
    if message.role == "assistant":
        items = [item for block in message.blocks for item in _assistant_items(block, names, reasoning=reasoning)]
        while items and items[-1]["type"] == "reasoning":
            items.pop()
        working = any(item["type"] in ("function_call", "custom_tool_call") for item in items)
        for item in items:
            if item["type"] == "message" and phases:
                item["phase"] = "commentary" if working else "final_answer"
        return items
    results = [_result(block, names) for block in message.blocks if isinstance(block, ResultBlock)]
    content = [part for block in message.blocks for part in _content(block)]
    return [*results, {"type": "message", "role": "user", "content": content}] if content else results


def _assistant_items(block: Block, names: _Names, *, reasoning: bool) -> list[dict[str, Json]]:
    match block:
        case TextBlock(text=text) if text.strip():
            return [{"type": "message", "role": "assistant", "content": text}]
        case ReasoningBlock() | SearchBlock() if block.provider == PROVIDER and reasoning:
            return [block.opaque] if isinstance(block.opaque, dict) else []
        case CallBlock(call=call) if (text := names.text_of(call)) is not None:
            return [{"type": "custom_tool_call", "call_id": names.call(call.id), "name": call.name, "input": text}]
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


def _result(block: ResultBlock, names: _Names) -> dict[str, Json]:
    output: Json = result_text(block)
    if block.pictures:
        output = [{"type": "input_text", "text": output}, *map(_picture, block.pictures)]
    kind = "function_call_output" if names.text_of(block.call) is None else "custom_tool_call_output"
    return {"type": kind, "call_id": names.result(block.call.id), "output": output}


def _picture(picture: Picture | None, url: str = "") -> dict[str, Json]:
    address, words = picture_url(picture, url)
    if words:
        return {"type": "input_text", "text": words}
    return {"type": "input_image", "image_url": address, "detail": "auto"}
