"""What a client of OpenAI's APIs sends, as values. Each member reaches somebody, is ignored by name, or is refused."""

import json
from collections.abc import Iterator
from typing import Literal

import msgspec

from hames.codecs.jsontext import Repeated, Unreadable, parse, torn, whole
from hames.domain.errors import InvalidCommand
from hames.domain.items import ImageInput, Picture, TextInput, ToolResult, UserInput
from hames.domain.json import NOTHING, Json
from hames.domain.options import Overrides
from hames.domain.value import Value
from hames.protocols.openai.conversation import (
    AssistantCalls,
    AssistantSays,
    Conversation,
    Entry,
    ItemReference,
    ToolSays,
    UserDecides,
    UserSays,
    split,
)
from hames.protocols.openai.errors import InvalidParameter
from hames.protocols.openai.tools import RequestTools, read_tools

DEFAULT_MODEL = "hames"
"""The model that the server was started with."""
MOST_ENTRIES = 5_000

_SAMPLING = frozenset(
    {
        "temperature",
        "top_p",
        "seed",
        "stop",
        "logit_bias",
        "presence_penalty",
        "frequency_penalty",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tool_calls",
        "parallel_tool_calls",
        "verbosity",
    }
)
_BOOKKEEPING = frozenset(
    {
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "service_tier",
        "truncation",
        "include",
        "moderation",
        "access_programs",
        "context_management",
        "prediction",
        "client_metadata",
    }
)
IGNORED = _SAMPLING | _BOOKKEEPING
"""Hints about sampling and accounting: the agent makes many model calls of its own for one request. The header
`X-Hames-Ignored` of the response names those that were sent."""
_CHAT = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "response_format",
        "reasoning_effort",
        "metadata",
        "store",
        "n",
        "logprobs",
        "top_logprobs",
        "modalities",
    }
)
_RESPONSES = frozenset(
    {
        "model",
        "input",
        "instructions",
        "previous_response_id",
        "store",
        "stream",
        "stream_options",
        "background",
        "tools",
        "tool_choice",
        "text",
        "reasoning",
        "metadata",
        "top_logprobs",
    }
)


class ApiRequest(Value):
    """A request of either API."""

    model: str | None
    conversation: Conversation
    overrides: Overrides
    stream: bool = False
    include_usage: bool = False
    background: bool = False
    previous: str = ""
    output_schema: Json = NOTHING
    metadata: Json = None
    tools: Json = ()
    store: bool = True
    instructions: str | None = None
    answer_tool: str = ""
    """The client's tool that the answer is a call of."""
    ignored: tuple[str, ...] = ()

    @property
    def has_one_answer(self) -> bool:
        """Whether a program reads the answer: then nothing that is said on the way may stand before it."""
        return self.output_schema is not NOTHING


def read_json(body: bytes) -> dict[str, Json]:
    """Raises `InvalidCommand`."""
    try:
        value = parse(body or b"{}")
    except (Unreadable, Repeated) as why:
        raise InvalidCommand(f"the body: {why}") from None
    value = whole(value) if torn(body) else value
    if not isinstance(value, dict):
        raise InvalidCommand("the body must be a JSON object")
    return value


def read_chat(body: bytes) -> ApiRequest:
    """A body of `/v1/chat/completions`. Raises `InvalidCommand`."""
    given = read_json(body)
    ignored = _check_members(given, _CHAT)
    _check_only(given, ("n", 1), ("logprobs", False), ("top_logprobs", 0), ("modalities", ["text"]))
    tools = read_tools(given, is_chat=True)
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidParameter("messages: must be a list of messages", "messages")
    if len(messages) > MOST_ENTRIES:
        raise InvalidParameter(f"messages: more than {MOST_ENTRIES}", "messages")
    system: list[str] = []
    entries: list[Entry] = []
    for number, message in enumerate(messages):
        entries += _chat_message(message, f"messages[{number}]", system)
    options = given.get("stream_options")
    return ApiRequest(
        model=_model(given),
        conversation=split(entries),
        overrides=_overrides(given, system, tools, given.get("reasoning_effort")),
        stream=_flag(given, "stream"),
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        output_schema=_chat_format(given.get("response_format")) if not tools.answer else tools.schema,
        answer_tool=tools.answer,
        ignored=(*ignored, *tools.ignored),
    )


def read_responses(body: bytes) -> ApiRequest:
    """A body of `/v1/responses`. Raises `InvalidCommand`."""
    given = read_json(body)
    ignored = _check_members(given, _RESPONSES)
    system: list[str] = []
    instructions = given.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise InvalidParameter("instructions: must be a string", "instructions")
    if instructions:
        system.append(instructions)
    items = given.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list) or not items:
        raise InvalidParameter("input: must be a string or a list of items", "input")
    if len(items) > MOST_ENTRIES:
        raise InvalidParameter(f"input: more than {MOST_ENTRIES} items", "input")
    entries: list[Entry] = []
    for number, item in enumerate(items):
        entries += _input_item(item, f"input[{number}]", system)
    previous = given.get("previous_response_id")
    if previous is not None and not isinstance(previous, str):
        raise InvalidParameter("previous_response_id: must be a string", "previous_response_id")
    text, reasoning = given.get("text"), given.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    background = _flag(given, "background")
    _check_only(given, ("top_logprobs", 0))
    tools = read_tools(given, is_chat=False)
    if background and given.get("store") is False:
        raise InvalidParameter("background: needs store", "background")
    return ApiRequest(
        model=_model(given),
        # With the response that it follows named, everything here is new.
        conversation=Conversation(new=tuple(entries)) if previous else split(entries),
        overrides=_overrides(given, system, tools, effort),
        stream=_flag(given, "stream"),
        background=background,
        previous=previous or "",
        output_schema=_text_format(text.get("format") if isinstance(text, dict) else None)
        if not tools.answer
        else tools.schema,
        answer_tool=tools.answer,
        metadata=given.get("metadata"),
        tools=given.get("tools") or [],
        store=given.get("store") is not False,
        instructions=instructions,
        ignored=(*ignored, *tools.ignored),
    )


def _check_only(given: dict[str, Json], *pairs: tuple[str, Json]) -> None:
    for name, only in pairs:
        if given.get(name) not in (None, only):
            raise InvalidParameter(f"{name}: only {json.dumps(only)} is supported", name, "unsupported_value")


def _check_members(given: dict[str, Json], known: frozenset[str]) -> tuple[str, ...]:
    for name, value in given.items():
        if name not in known and name not in IGNORED and value is not None:
            raise InvalidParameter(f"the parameter {name!r} is not supported", name, "unsupported_parameter")
    return tuple(name for name, value in given.items() if name in IGNORED and value is not None)


def _model(given: dict[str, Json]) -> str | None:
    model = given.get("model")
    if model is not None and not isinstance(model, str):
        raise InvalidParameter("model: must be a string", "model")
    return None if model in (None, "", DEFAULT_MODEL) else model


def _flag(given: dict[str, Json], name: str) -> bool:
    value = given.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidParameter(f"{name}: must be true or false", name)
    return value is True


def _overrides(given: dict[str, Json], system: list[str], tools: RequestTools, effort: Json) -> Overrides:
    if effort is not None and not isinstance(effort, str):
        raise InvalidParameter("the reasoning effort must be a string", "reasoning")
    told = [*system, tools.demand] if tools.demand else system
    return Overrides(
        model=_model(given),
        instructions="\n\n".join(told),
        client_tools=tools.tools,
        options=None if effort is None else {"reasoning_effort": effort},
    )


# -- formats


def _chat_format(form: Json) -> Json:
    match form:
        case None | {"type": "text"}:
            return NOTHING
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case _:
            raise InvalidParameter("response_format: must be text, json_object or json_schema", "response_format")


def _text_format(form: Json) -> Json:
    match form:
        case None | {"type": "text"}:
            return NOTHING
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "schema": dict(schema)}:
            return schema
        case _:
            raise InvalidParameter("text.format: must be text, json_object or json_schema", "text")


# -- messages


def _chat_message(message: Json, where: str, system: list[str]) -> Iterator[Entry]:
    match message:
        case {"role": "system" | "developer"}:
            system.append(_plain(message.get("content"), where))
        case {"role": "user"}:
            yield UserSays(content=tuple(_parts(message.get("content"), f"{where}.content")))
        case {"role": "assistant"}:
            if text := _plain(message.get("content"), where):
                yield AssistantSays(text=text)
            for call in message.get("tool_calls") or []:
                match call:
                    case {"id": str(name), "function": {"name": str(tool), "arguments": str(arguments)}} | {
                        "id": str(name),
                        "custom": {"name": str(tool), "input": str(arguments)},
                    }:
                        yield AssistantCalls(call_id=name, name=tool, arguments=arguments)
                    case _:
                        raise InvalidParameter(f"{where}.tool_calls: only function calls are supported", "messages")
        case {"role": "tool", "tool_call_id": str(name)}:
            yield ToolSays(call_id=name, result=_result(message.get("content"), where))
        case _:
            raise InvalidParameter(f"{where}: the role must be system, developer, user, assistant or tool", "messages")


def _input_item(item: Json, where: str, system: list[str]) -> Iterator[Entry]:
    match item:
        case {"role": "system" | "developer"}:
            system.append(_plain(item.get("content"), where))
        case {"role": "user"}:
            yield UserSays(content=tuple(_parts(item.get("content"), f"{where}.content")))
        case {"role": "assistant"}:
            if text := _plain(item.get("content"), where):
                yield AssistantSays(text=text)
        case {"type": "function_call", "call_id": str(name), "name": str(tool), "arguments": str(arguments)} | {
            "type": "custom_tool_call",
            "call_id": str(name),
            "name": str(tool),
            "input": str(arguments),
        }:
            yield AssistantCalls(call_id=name, name=tool, arguments=arguments)
        case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(name)}:
            yield ToolSays(call_id=name, result=_result(item.get("output"), where))
        case {"type": "mcp_approval_response", "approval_request_id": str(name), "approve": bool(approve)}:
            reason = item.get("reason")
            yield UserDecides(approval_id=name, approve=approve, reason=reason if isinstance(reason, str) else "")
        case {"type": "reasoning" | "mcp_call" | "mcp_approval_request" | "mcp_list_tools"}:
            pass  # our own words, which the thread has
        case {"type": "item_reference", "id": str(name)} if name:
            yield ItemReference(name=name)
        case _:
            kind = item.get("type") if isinstance(item, dict) else None
            raise InvalidParameter(f"{where}: an item of type {kind!r} is not supported", "input")


def _plain(content: Json, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        match part:
            case {"type": "text" | "input_text" | "output_text", "text": str(text)} | {"refusal": str(text)}:
                texts.append(text)
            case _:
                raise InvalidCommand(f"{where}: only text is possible here")
    return "\n".join(texts)


def _parts(content: Json, where: str) -> Iterator[UserInput]:
    if isinstance(content, str):
        yield TextInput(text=content)
        return
    if not isinstance(content, list):
        raise InvalidCommand(f"{where}: must be a string or a list of parts")
    for number, part in enumerate(content):
        match part:
            case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
                yield TextInput(text=text)
            case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
                yield _image(url, f"{where}[{number}]")
            case {"type": "input_file" | "file"} | {"type": "input_audio"}:
                raise InvalidCommand(f"{where}[{number}]: files and audio are not supported; send text or images")
            case _:
                raise InvalidCommand(f"{where}[{number}]: must be text or an image with a url")


def _image(url: str, where: str) -> ImageInput:
    if not url.startswith(("data:image/", "https://", "http://")):
        raise InvalidCommand(f"{where}: an image has a data: or https: url")
    return ImageInput(url=url)


def _result(content: Json, where: str) -> ToolResult:
    if isinstance(content, str):
        return ToolResult(text=content)
    texts: list[str] = []
    pictures: list[Picture] = []
    for part in _parts(content, where):
        match part:
            case TextInput(text=text):
                texts.append(text)
            case ImageInput(url=url) if url.startswith("data:") and ";base64," in url:
                kind, _, data = url.removeprefix("data:").partition(";base64,")
                pictures.append(Picture(media_type=kind, base64=data))
            case _:
                raise InvalidCommand(f"{where}: an image of a tool result must be a data: url")
    return ToolResult(text="\n".join(texts), pictures=tuple(pictures))


def waiting_keys(kind: Literal["chat", "responses"], body: bytes) -> set[str]:
    """Names of a run that may wait for this body."""
    try:
        given = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return set()
    if not isinstance(given, dict):
        return set()
    if kind == "responses" and isinstance(given.get("previous_response_id"), str):
        return {f"response:{given['previous_response_id']}"}
    try:
        conversation = (read_chat if kind == "chat" else read_responses)(body).conversation
    except InvalidCommand:
        return set()
    keys = {f"call:{name}" for name in conversation.results}
    keys |= {f"approval:{one.approval_id}" for one in conversation.decisions}
    return keys | ({f"conversation:{conversation.key}"} if conversation.earlier else set())
