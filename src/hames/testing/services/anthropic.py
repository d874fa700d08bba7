"""Anthropic's dialect: what the Messages API sends, byte for byte, and what it refuses.

Held to the official SDK: every stream made here is one that `anthropic` reads.
"""

import re
from collections.abc import Iterator
from itertools import groupby

import msgspec

from hames.domain.errors import ErrorInfo
from hames.domain.json import Json
from hames.domain.request import StopReason
from hames.domain.usage import Usage
from hames.testing.services.server import ServerReply, ServerTalk, Thoughts, Use, Words

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
WORDS: dict[StopReason, str] = {
    "end": "end_turn",
    "tools": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "pause": "pause_turn",
    "context_exceeded": "model_context_window_exceeded",
    "unknown": "something_new",
}
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_THOUGHTS = ("thinking", "redacted_thinking")


def sse(event: dict[str, Json]) -> bytes:
    return b"event: " + event["type"].encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"


def message_start(usage: Usage | None = None, *, model: str = "claude-test") -> bytes:
    counted = usage or Usage(input_tokens=12)
    message = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": counted.input_tokens,
            "cache_creation_input_tokens": counted.cache_write_tokens,
            "cache_read_input_tokens": counted.cache_read_tokens,
            "output_tokens": 1,
        },
    }
    return sse({"type": "message_start", "message": message})


def block_start(index: int, block: dict[str, Json]) -> bytes:
    return sse({"type": "content_block_start", "index": index, "content_block": block})


def block_delta(index: int, delta: dict[str, Json]) -> bytes:
    return sse({"type": "content_block_delta", "index": index, "delta": delta})


def text_delta(index: int, text: str) -> bytes:
    return block_delta(index, {"type": "text_delta", "text": text})


def input_delta(index: int, text: str) -> bytes:
    return block_delta(index, {"type": "input_json_delta", "partial_json": text})


def block_stop(index: int) -> bytes:
    return sse({"type": "content_block_stop", "index": index})


def message_delta(stop_reason: str | None, usage: Json = None, **details: Json) -> bytes:
    delta = {"stop_reason": stop_reason, "stop_sequence": None, **details}
    return sse({"type": "message_delta", "delta": delta, "usage": usage or {"output_tokens": 7}})


def message_stop() -> bytes:
    return sse({"type": "message_stop"})


class AnthropicDialect:
    path = "/v1/messages"
    opening = 3

    def events(self, talk: ServerTalk) -> list[bytes]:
        told = [message_start(talk.usage)]
        for index, part in enumerate(talk.parts):
            told += _block(index, part, talk.cuts)
            if index == 0:
                told.insert(2, self.ping())
        usage = {
            "output_tokens": talk.usage.output_tokens,
            "output_tokens_details": {"thinking_tokens": talk.usage.thinking_tokens},
        }
        return [*told, message_delta(WORDS[talk.stop], usage), message_stop()]

    def refusal(self, status: int, *, info: ErrorInfo = "Other", message: str = "") -> ServerReply:
        kind = KINDS.get(status, "api_error")
        details: dict[str, Json] = {}
        if info == "UsageLimitExceeded" and status == 429:
            details = {"details": {"error_code": "enforced_spend_limit_reached"}}
        if info == "ModelNotFound":
            message = message or "model: claude-gone"
        if info == "ContextWindowExceeded":
            message = message or "prompt is too long: 210000 tokens > 200000 maximum"
        error = {"type": kind, "message": message or f"scripted status {status}", **details}
        body = {"type": "error", "error": error, "request_id": "req_loopback"}
        return ServerReply(
            parts=(msgspec.json.encode(body),), status=status, headers=(("content-type", "application/json"),)
        )

    def broken(self) -> bytes:
        return sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

    def ping(self) -> bytes:
        return sse({"type": "ping"})

    def refuses(self, body: Json) -> str:
        if not isinstance(body, dict):
            return "the body is not an object"
        return next(_wrong(body), "")


ANTHROPIC = AnthropicDialect()


def _block(index: int, part: Words | Thoughts | Use, cuts: int) -> Iterator[bytes]:
    match part:
        case Words(text=text):
            yield block_start(index, {"type": "text", "text": ""})
            yield from (text_delta(index, piece) for piece in _cut(text, cuts))
        case Thoughts(text=text, signature=signature):
            yield block_start(index, {"type": "thinking", "thinking": "", "signature": ""})
            for piece in _cut(text, cuts):
                yield block_delta(index, {"type": "thinking_delta", "thinking": piece})
            yield block_delta(index, {"type": "signature_delta", "signature": signature})
        case Use(name=name, arguments=arguments, id=call_id):
            yield block_start(index, {"type": "tool_use", "id": call_id, "name": name, "input": {}})
            yield input_delta(index, "")
            yield from (input_delta(index, piece) for piece in _cut(arguments, cuts))
    yield block_stop(index)


def _cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _wrong(body: dict[str, Json]) -> Iterator[str]:
    for name in ("temperature", "top_p", "top_k"):
        if name in body:
            yield f"{name}: Extra inputs are not permitted"
    if not body.get("messages"):
        yield "messages: at least one message is required"
        return
    if body["messages"][0]["role"] != "user":
        yield "messages: first message must use the user role"
    if str(body).count("'cache_control'") > 4:
        yield "A maximum of 4 blocks with cache_control may be provided"
    yield from _wrong_thinking(body)
    used: set[str] = set()
    asked: list[str] = []
    for role, group in groupby(body["messages"], key=lambda message: message["role"]):
        blocks = [block for message in group for block in message["content"]]
        if not blocks:
            yield "messages: content must not be empty"
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(answered) != sorted(asked):
            yield f"`tool_use` ids {asked} and `tool_result` ids {answered} do not pair"
        yield from _wrong_blocks(role, blocks, used)
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if asked:
        yield "`tool_use` without `tool_result` in the next message"


def _wrong_thinking(body: dict[str, Json]) -> Iterator[str]:
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        if not 1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`"
        if re.search(r"(opus|sonnet|haiku|fable|mythos)-(5|4-[78])", body["model"]):
            yield '"thinking.type.enabled" is not supported for this model'


def _wrong_blocks(role: str, blocks: list[dict[str, Json]], used: set[str]) -> Iterator[str]:
    others = False
    for block in blocks:
        if "text" in block and not block["text"].strip():
            yield "text content blocks must contain non-whitespace text"
        if block["type"] == "tool_use":
            if not _ID.fullmatch(block["id"]) or not isinstance(block["input"], dict):
                yield f"tool_use: bad id or input: {block['id']!r}"
            if block["id"] in used:
                yield "`tool_use` ids must be unique"
            used.add(block["id"])
        if block["type"] == "tool_result":
            if others:
                yield "`tool_result` blocks must come first"
            if block.get("is_error") and not block.get("content"):
                yield "content cannot be empty if `is_error` is true"
        else:
            others = True
        if block["type"] in _THOUGHTS and "cache_control" in block:
            yield "thinking: cache_control is not permitted"
        if block["type"] == "thinking" and not block.get("signature"):
            yield "Invalid `signature` in `thinking` block"
    if role == "assistant" and blocks[-1]["type"] in _THOUGHTS:
        yield "The final block in an assistant message cannot be `thinking`"
