"""A request as chat completions. Pure: `ModelRequest` in, a JSON body out.

Servers differ in what they accept, so requests suit the strictest: arguments are a JSON object whatever the
model wrote, results stand right behind their calls, and pictures a tool made are shown by the user.

`context_length` never travels: no server takes it with a request (Ollama ignores `num_ctx` on this
endpoint). It bounds what is sent instead; what does not fit is refused before anybody cuts it silently.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from hames.codecs.jsontext import encode_mended, is_object
from hames.domain.errors import ProviderError
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
    TextBlock,
)
from hames.domain.value import Value
from hames.providers.call_ids import CallNames, plain, result_text
from hames.providers.pictures import picture_url

TEMPERATURES = ("0.0", "0.3", "0.7", "1.0")
CONTEXT_LENGTHS = ("4096", "8192", "16384")
BYTES_PER_TOKEN = 4
"""Of English and code. An estimate; only the server can count."""
CALL_ID_CHARS = 64
REASONING_FIELDS = ("reasoning_content", "reasoning")


class RequestForm(Value):
    """How one server wants to be asked. `provider`: whose thoughts it takes back; none, if that is empty."""

    provider: str = ""
    usage: bool = True
    """Ask for a count of tokens at the end of the stream."""
    bound: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the server calls the length of a reply. All understand the old name but OpenAI's newest."""
    images: bool = True
    extra: Mapping[str, Json] = {}
    """Members every request carries, whatever else it says."""


def encode(request: ModelRequest, form: RequestForm) -> bytes:
    """The body of `POST /chat/completions`. Raises `ProviderError` when it cannot fit the chosen context length."""
    body = as_json(request, form)
    data = encode_mended(body)
    window = _chosen(request, "context_length", CONTEXT_LENGTHS)
    if window:
        room = int(window) - len(data) // BYTES_PER_TOKEN
        if room < min(request.max_tokens, int(window) // 8):
            raise ProviderError(
                f"the conversation does not fit a context length of {window} tokens; "
                "choose a longer context_length or compact it",
                info="ContextWindowExceeded",
            )
        if body.get(form.bound, 0) > room:
            data = encode_mended({**body, form.bound: room})
    return data


def as_json(request: ModelRequest, form: RequestForm) -> dict[str, Json]:
    body: dict[str, Json] = {
        "model": request.model,
        "messages": list(_messages(request, form)),
        form.bound: request.max_tokens,
        "stream": True,
    }
    if form.usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
            }
            for tool in request.tools
        ]
        body["tool_choice"] = "auto"
    if temperature := _chosen(request, "temperature", TEMPERATURES):
        body["temperature"] = float(temperature)
    return {**body, **form.extra}


def _chosen(request: ModelRequest, name: str, choices: tuple[str, ...]) -> str:
    value = request.options.get(name, "")
    return value if value in choices else ""


def _messages(request: ModelRequest, form: RequestForm) -> Iterator[dict[str, Json]]:
    names = CallNames(longest=CALL_ID_CHARS)
    if request.system.strip():
        yield {"role": "system", "content": request.system}
    fresh = _last_prompt(request.messages)
    for number, message in enumerate(request.messages):
        if message.role == "assistant":
            # A thought is part of the work it began, and of no work after that.
            yield from _assistant_message(message, names, form, thoughts=number > fresh)
        else:
            yield from _user_messages(message, names, form)


def _last_prompt(messages: tuple[Message, ...]) -> int:
    """Where the user last said something, rather than a tool."""
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if message.role == "user" and not any(isinstance(block, ResultBlock) for block in message.blocks):
            return number
    return -1


def _assistant_message(
    message: Message, names: CallNames, form: RequestForm, *, thoughts: bool
) -> Iterator[dict[str, Json]]:
    text = "\n\n".join(block.text for block in message.blocks if isinstance(block, TextBlock) and block.text.strip())
    calls = [_call(block, names) for block in message.blocks if isinstance(block, CallBlock)]
    if not text and not calls:
        return
    sent: dict[str, Json] = {"role": "assistant", "content": text or None}
    if calls:
        sent["tool_calls"] = calls
    if thoughts and calls:
        for block in message.blocks:
            if isinstance(block, ReasoningBlock) and block.provider == form.provider:
                _add_reasoning(sent, block)
    yield sent


def _add_reasoning(sent: dict[str, Json], block: ReasoningBlock) -> None:
    """A thought goes back where it came from; one with details by those alone, because they are what is checked."""
    opaque = block.opaque if isinstance(block.opaque, dict) else {}
    field, details = opaque.get("field"), opaque.get("details")
    if isinstance(details, list):
        sent["reasoning_details"] = [*sent.get("reasoning_details", []), *details]
    elif field in REASONING_FIELDS and block.text:
        sent[field] = f"{sent[field]}\n\n{block.text}" if field in sent else block.text


def _call(block: CallBlock, names: CallNames) -> dict[str, Json]:
    arguments = block.call.arguments
    function = {
        "name": plain(block.call.name)[:CALL_ID_CHARS] or "_",
        "arguments": arguments if is_object(arguments) else "{}",
    }
    return {"id": names.call(block.call.id), "type": "function", "function": function}


def _user_messages(message: Message, names: CallNames, form: RequestForm) -> Iterator[dict[str, Json]]:
    shown: list[dict[str, Json]] = []
    for block in message.blocks:
        if isinstance(block, ResultBlock):
            yield {"role": "tool", "tool_call_id": names.result(block.call.id), "content": result_text(block)}
            shown += [_picture(picture, form) for picture in block.pictures]
    parts = [*shown, *(part for block in message.blocks for part in _part(block, form))]
    if not parts:
        return
    if all(part["type"] == "text" for part in parts):  # many servers take nothing but a text
        yield {"role": "user", "content": "\n\n".join(part["text"] for part in parts)}
    else:
        yield {"role": "user", "content": parts}


def _part(block: Block, form: RequestForm) -> Iterator[dict[str, Json]]:
    match block:
        case TextBlock(text=text) if text.strip():
            yield {"type": "text", "text": text}
        case PictureBlock(picture=picture, url=url):
            yield _picture(picture, form, url)
        case _:
            pass


def _picture(picture: Picture | None, form: RequestForm, url: str = "") -> dict[str, Json]:
    address, words = picture_url(picture, url)
    if not words and not form.images:
        words = "(a picture, which this model cannot see)"
    return {"type": "text", "text": words} if words else {"type": "image_url", "image_url": {"url": address}}
