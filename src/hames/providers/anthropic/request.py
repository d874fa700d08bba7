"""A request in Anthropic's dialect. Pure: `ModelRequest` in, a JSON body out.

The service refuses what other services let pass: empty text, thinking it did not sign,
a tool call id with a dot in it, a message that ends with a thought. A thread may have
been held with another provider before, so all of that is put right here.
"""

from collections.abc import Iterator

from msgspec import Raw

from hames.codecs.jsontext import encode_mended, is_object
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
from hames.providers.anthropic.models import PROVIDER, Claude, claude
from hames.providers.call_ids import CallNames, plain
from hames.providers.pictures import picture_url

WEB_SEARCH = "web_search_20250305"
"""The form every model that searches understands. Later ones bring a code interpreter along."""
WEB_SEARCHES = 8
NAME_CHARS = 128
CACHED = {"type": "ephemeral"}

BUDGETS = {"low": 8_000, "medium": 16_000, "high": 32_000}
USUAL_EFFORT = "medium"
"""For models that think only when they are given a number of tokens."""
EFFORTS = {str(tokens): effort for effort, tokens in BUDGETS.items()}


def encode(request: ModelRequest, *, reasoning: bool = True) -> bytes:
    """The body of `POST /v1/messages`. Without `reasoning`, earlier reasoning is left out."""
    return encode_mended(as_json(request, reasoning=reasoning))


def as_json(request: ModelRequest, *, reasoning: bool = True) -> dict[str, Json]:
    model = claude(request.model)
    messages = _messages(request.messages, reasoning=reasoning)
    body: dict[str, Json] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "stream": True,
        "messages": messages,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": CACHED}]
    if tools := _tools(request, model):
        body["tools"] = tools
        body["tool_choice"] = {"type": "auto"}
    body |= _thinking(request, model, allowed=reasoning and _may_think(messages))
    _cache(messages)
    return body


def _tools(request: ModelRequest, model: Claude) -> list[dict[str, Json]]:
    tools: list[dict[str, Json]] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in request.tools
    ]
    if tools:
        tools[-1]["cache_control"] = CACHED
    if request.options.get("web_search") == "on" and model.card.web_search:
        tools.insert(0, {"type": WEB_SEARCH, "name": "web_search", "max_uses": WEB_SEARCHES})
    return tools


def _thinking(request: ModelRequest, model: Claude, *, allowed: bool) -> dict[str, Json]:
    """Effort and budget in the terms the model accepts: one that takes no budget gets the nearest effort, and back."""
    effort, budget = request.options.get("reasoning_effort", ""), request.options.get("max_thinking_tokens", "")
    off = request.options.get("thinking") == "off"
    effort, budget = effort if effort in BUDGETS else "", budget if budget in EFFORTS else ""
    asked: dict[str, Json] = {}
    match model.thinking:
        case "none":
            return {}
        case "budget":
            if model.effort and effort:
                asked["output_config"] = {"effort": effort}
            tokens = int(budget or BUDGETS.get(effort, 0) or (0 if off else BUDGETS[USUAL_EFFORT]))
            # Thoughts count against `max_tokens`, and the answer still wants its own.
            longest = min(request.max_tokens + tokens, model.card.max_output)
            if tokens and allowed and tokens < longest:
                asked["thinking"] = {"type": "enabled", "budget_tokens": tokens}
                asked["max_tokens"] = longest
        case "asked" | "usual":
            if effort := effort or EFFORTS.get(budget, ""):
                asked["output_config"] = {"effort": effort}
            if effort or model.thinking == "usual" or not off:
                asked["thinking"] = {"type": "adaptive", "display": "summarized"}
    return asked


def _may_think(messages: list[dict[str, Json]]) -> bool:
    """A number of tokens to think with is refused while tools run for an answer that began without a thought."""
    thought = True
    for message in reversed(messages):
        kinds = [block["type"] for block in message["content"]]
        if message["role"] == "assistant":
            thought = kinds[0] in ("thinking", "redacted_thinking")
        elif "tool_result" not in kinds:
            break
    return thought


def _messages(messages: tuple[Message, ...], *, reasoning: bool) -> list[dict[str, Json]]:
    names = CallNames()
    sent: list[dict[str, Json]] = []
    for message in messages:
        content = [part for block in message.blocks for part in _block(block, names, reasoning=reasoning)]
        if message.role == "assistant":
            while content and content[-1]["type"] in ("thinking", "redacted_thinking"):
                content.pop()
        else:  # results come first, whatever else was said in between
            content.sort(key=lambda part: part["type"] != "tool_result")
        if content:
            sent.append({"role": message.role, "content": content})
    if sent and sent[-1]["role"] == "assistant" and (last := sent[-1]["content"][-1])["type"] == "text":
        last["text"] = last["text"].rstrip()
    return sent


def _block(block: Block, names: CallNames, *, reasoning: bool) -> Iterator[dict[str, Json]]:
    match block:
        case TextBlock(text=text):
            if text.strip():
                yield {"type": "text", "text": text}
        case PictureBlock(picture=picture, url=url):
            yield _picture(picture, url)
        case ReasoningBlock(provider=provider, text=text, opaque=opaque):
            if reasoning and provider == PROVIDER and isinstance(opaque, dict):
                if "redacted" in opaque:
                    yield {"type": "redacted_thinking", "data": opaque["redacted"]}
                elif "signature" in opaque:
                    yield {"type": "thinking", "thinking": text, "signature": opaque["signature"]}
        case SearchBlock(provider=provider, opaque=opaque):
            if provider == PROVIDER and isinstance(opaque, list):
                yield from opaque
        case CallBlock(call=call):
            name = plain(call.name)[:NAME_CHARS] or "_"  # the service refuses any other, in every later request as well
            yield {"type": "tool_use", "id": names.call(call.id), "name": name, "input": _object(call.arguments)}
        case ResultBlock():
            yield _result(block, names)


def _result(block: ResultBlock, names: CallNames) -> dict[str, Json]:
    result: dict[str, Json] = {"type": "tool_result", "tool_use_id": names.result(block.call.id)}
    text = block.text if block.text.strip() else "(no message)" if block.failed else ""
    if block.pictures:
        words: list[Json] = [{"type": "text", "text": text}] if text else []
        result["content"] = [*words, *map(_picture, block.pictures)]
    elif text:
        result["content"] = text
    if block.failed:
        result["is_error"] = True
    return result


def _object(arguments: str) -> Raw | dict[str, Json]:
    """The model's own text where it is a JSON object: re-encoding it could invalidate the thought before it."""
    return Raw(arguments.encode()) if is_object(arguments) else {}


def _picture(picture: Picture | None, url: str = "") -> dict[str, Json]:
    address, words = picture_url(picture, url)
    if words:
        return {"type": "text", "text": words}
    if not address.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": address}}
    media_type, _, data = address.removeprefix("data:").partition(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _cache(messages: list[dict[str, Json]]) -> None:
    """Mark the end of what was said, and the end of what was said when the last question was asked."""
    ends = [message["content"][-1] for message in messages if message["role"] == "user"]
    for end in ends[-2:]:
        end["cache_control"] = CACHED
