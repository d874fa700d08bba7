"""OpenAI's dialect: what the Responses API sends, event by event, and what it refuses.

Held to the official SDK: every stream made here is one that `openai` reads. Thoughts are
told as summaries, because that is all the service shows; their signature is the encrypted content.
"""

import re
from collections.abc import Iterator

import msgspec

from hames.domain.errors import ErrorInfo
from hames.domain.json import Json
from hames.domain.request import StopReason
from hames.domain.usage import Usage
from hames.testing.services.server import ServerReply, ServerTalk, Thoughts, Use, Words

KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
WORDS: dict[StopReason, str] = {
    "end": "completed",
    "tools": "completed",
    "max_tokens": "max_output_tokens",
    "refusal": "content_filter",
    "unknown": "something_new",
}
"""Why a reply ended; all but the first two are reasons of an incomplete one."""
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ITEMS = frozenset({"message", "reasoning", "function_call", "function_call_output", "web_search_call"})


def sse(event: dict[str, Json]) -> bytes:
    return b"event: " + event["type"].encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"


class ResponseEvents:
    """Events in order, each with its number. `output` is what was done so far."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.output: list[Json] = []

    def say(self, kind: str, **members: Json) -> None:
        self.events.append(sse({"type": kind, "sequence_number": len(self.events), **members}))

    def begin(self) -> None:
        self.say("response.created", response=response("in_progress"))
        self.say("response.in_progress", response=response("in_progress"))

    def added(self, item: dict[str, Json]) -> None:
        self.say("response.output_item.added", output_index=len(self.output), item=item)

    def done(self, item: dict[str, Json]) -> None:
        self.say("response.output_item.done", output_index=len(self.output), item=item)
        self.output.append(item)

    def end(self, word: str = "completed", usage: Usage | None = None) -> None:
        status = "completed" if word == "completed" else "incomplete"
        whole = {**response(status, word), "output": self.output, "usage": counted(usage or Usage(input_tokens=12))}
        self.say(f"response.{status}", response=whole)


def response(status: str, word: str = "") -> dict[str, Json]:
    return {
        "id": "resp_01",
        "object": "response",
        "created_at": 1_790_000_000,
        "status": status,
        "model": "gpt-test",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": {"reason": word} if status == "incomplete" else None,
    }


def counted(usage: Usage) -> Json:
    inside = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": inside,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
        "total_tokens": inside + usage.output_tokens,
    }


class OpenAIDialect:
    path = "/v1/responses"
    opening = 4

    def events(self, talk: ServerTalk) -> list[bytes]:
        told = ResponseEvents()
        told.begin()
        for part in talk.parts:
            match part:
                case Words(text=text):
                    say_words(told, text, talk.cuts)
                case Thoughts(text=text, signature=signature):
                    think(told, text, signature, talk.cuts)
                case Use():
                    call(told, part, talk.cuts)
        told.end(WORDS[talk.stop], talk.usage)
        return told.events

    def refusal(self, status: int, *, info: ErrorInfo = "Other", message: str = "") -> ServerReply:
        kind, code = KINDS.get(status, "invalid_request_error" if status < 500 else "server_error"), None
        if info == "UsageLimitExceeded":
            kind, code = "insufficient_quota", "insufficient_quota"
            message = message or "You exceeded your current quota, please check your plan and billing details."
        if info == "ModelNotFound":
            code, message = "model_not_found", message or "The model `gpt-gone` does not exist"
        if info == "ContextWindowExceeded":
            code, message = "context_length_exceeded", message or "Your input exceeds the context window of this model."
        error = {"message": message or f"scripted status {status}", "type": kind, "param": None, "code": code}
        return ServerReply(
            parts=(msgspec.json.encode({"error": error}),),
            status=status,
            headers=(("content-type", "application/json"),),
        )

    def broken(self) -> bytes:
        error = {"code": "server_is_overloaded", "message": "Our servers are currently overloaded."}
        failed = {**response("failed"), "error": error}
        return sse({"type": "response.failed", "sequence_number": 99, "response": failed})

    def ping(self) -> bytes:
        return sse({"type": "keepalive", "sequence_number": 3})

    def refuses(self, body: Json) -> str:
        if not isinstance(body, dict):
            return "the body is not an object"
        return next(_wrong(body), "")


OPENAI = OpenAIDialect()


def say_words(told: ResponseEvents, text: str, cuts: int = 3, *, refusal: bool = False) -> None:
    index, name = len(told.output), f"msg_{len(told.output)}"
    kind, member = ("refusal", "refusal") if refusal else ("output_text", "text")
    where = {"item_id": name, "output_index": index, "content_index": 0}
    item = {"id": name, "type": "message", "role": "assistant"}
    more: dict[str, Json] = {} if refusal else {"annotations": []}
    told.added({**item, "status": "in_progress", "content": []})
    told.say("response.content_part.added", **where, part={"type": kind, member: "", **more})
    deltas = "response.refusal" if refusal else "response.output_text"
    logs: dict[str, Json] = {} if refusal else {"logprobs": []}
    for piece in cut(text, cuts):
        told.say(f"{deltas}.delta", **where, delta=piece, **logs)
    told.say(f"{deltas}.done", **where, **{member: text}, **logs)
    told.say("response.content_part.done", **where, part={"type": kind, member: text, **more})
    told.done({**item, "status": "completed", "content": [{"type": kind, member: text, **more}]})


def think(told: ResponseEvents, text: str, encrypted: str, cuts: int = 3) -> None:
    index, name = len(told.output), f"rs_{len(told.output)}"
    where = {"item_id": name, "output_index": index, "summary_index": 0}
    told.added({"id": name, "type": "reasoning", "summary": []})
    told.say("response.reasoning_summary_part.added", **where, part={"type": "summary_text", "text": ""})
    for piece in cut(text, cuts):
        told.say("response.reasoning_summary_text.delta", **where, delta=piece)
    told.say("response.reasoning_summary_text.done", **where, text=text)
    told.say("response.reasoning_summary_part.done", **where, part={"type": "summary_text", "text": text})
    summary = [{"type": "summary_text", "text": text}] if text else []
    told.done({"id": name, "type": "reasoning", "summary": summary, "encrypted_content": encrypted})


def call(told: ResponseEvents, use: Use, cuts: int = 3, *, status: str = "completed") -> None:
    index, name = len(told.output), f"fc_{len(told.output)}"
    where = {"item_id": name, "output_index": index}
    item = {"id": name, "type": "function_call", "call_id": use.id, "name": use.name}
    told.added({**item, "status": "in_progress", "arguments": ""})
    for piece in cut(use.arguments, cuts):
        told.say("response.function_call_arguments.delta", **where, delta=piece)
    told.say("response.function_call_arguments.done", **where, name=use.name, arguments=use.arguments)
    told.done({**item, "status": status, "arguments": use.arguments})


def write(told: ResponseEvents, use: Use, cuts: int = 3, *, status: str = "completed") -> None:
    """A call of a tool that takes plain text: `use.arguments` is that text."""
    index, name = len(told.output), f"ctc_{len(told.output)}"
    where = {"item_id": name, "output_index": index}
    item = {"id": name, "type": "custom_tool_call", "call_id": use.id, "name": use.name}
    told.added({**item, "status": "in_progress", "input": ""})
    for piece in cut(use.arguments, cuts):
        told.say("response.custom_tool_call_input.delta", **where, delta=piece)
    told.say("response.custom_tool_call_input.done", **where, input=use.arguments)
    told.done({**item, "status": status, "input": use.arguments})


def search(told: ResponseEvents, action: Json, *, status: str = "completed") -> None:
    index, name = len(told.output), f"ws_{len(told.output)}"
    where = {"item_id": name, "output_index": index}
    told.added({"id": name, "type": "web_search_call", "status": "in_progress"})
    told.say("response.web_search_call.in_progress", **where)
    told.say("response.web_search_call.searching", **where)
    told.say("response.web_search_call.completed", **where)
    told.done({"id": name, "type": "web_search_call", "status": status, "action": action})


def cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _wrong(body: dict[str, Json]) -> Iterator[str]:
    if body.get("store") is not False:
        yield "store: nothing is to be kept"
    if body.get("max_output_tokens", 16) < 16:
        yield "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16"
    items = body.get("input")
    if not isinstance(items, list) or not items:
        yield "One of 'input' or 'previous_response_id' must be provided"
        return
    for tool in body.get("tools", []):
        if tool["type"] == "function" and not _ID.fullmatch(tool["name"]):
            yield f"Invalid 'tools[].name': {tool['name']!r}"
    open_calls: set[str] = set()
    used: set[str] = set()
    for item, after in zip(items, [*items[1:], None], strict=True):
        yield from _wrong_item(item, after)
        if item["type"] == "function_call":
            if item["call_id"] in used:
                yield f"Duplicate call_id {item['call_id']}"
            used.add(item["call_id"])
            open_calls.add(item["call_id"])
        elif item["type"] == "function_call_output":
            if item["call_id"] not in open_calls:
                yield f"No tool call found for function call output with call_id {item['call_id']}."
            open_calls.discard(item["call_id"])
    if open_calls:
        yield f"No tool output found for function call {min(open_calls)}."


def _wrong_item(item: dict[str, Json], after: Json) -> Iterator[str]:
    if item["type"] not in _ITEMS:
        yield f"Invalid value: {item['type']!r}"
    for name in ("call_id", "name"):
        if name in item and not _ID.fullmatch(item[name]):
            yield f"Invalid 'input[].{name}': {item[name]!r}"
    if item["type"] == "reasoning":
        if not item.get("encrypted_content"):
            yield f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."
        if after is None or after.get("role") == "user" or after["type"] == "function_call_output":
            yield f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
    if item["type"] == "message":
        content = item["content"]
        if not content or (isinstance(content, str) and item["role"] == "user"):
            yield "messages of users have parts, and none is empty"
        if item["role"] == "assistant" and not isinstance(content, str):
            yield f"Invalid value: '{content[0]['type']}'. Supported values are: 'output_text' and 'refusal'."
    if item["type"] == "function_call_output" and not item.get("output"):
        yield "Missing required parameter: 'input[].output'."
