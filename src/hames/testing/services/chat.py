"""Chat completions: what servers of that kind send, and what the strictest of them refuses.

Held to the official SDK: every stream made here is one that `openai` reads.
"""

import re
from collections.abc import Iterator

import msgspec

from hames.domain.errors import ErrorInfo
from hames.domain.json import Json
from hames.domain.request import StopReason
from hames.domain.usage import Usage
from hames.testing.services.openai import cut
from hames.testing.services.server import ServerReply, ServerTalk, Thoughts, Use, Words

WORDS: dict[StopReason, str] = {
    "end": "stop",
    "tools": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
    "unknown": "something_new",
}
DONE = b"data: [DONE]\n\n"
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def chunk(delta: Json = None, *, finish: str | None = None, usage: Json = None, **members: Json) -> bytes:
    """One chunk. Without a delta and a word it has no choices, as the one that carries the count."""
    choices = [] if delta is None and finish is None else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    told = {
        "id": "chatcmpl-01",
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": "test",
        "choices": choices,
        **members,
    }
    if usage is not None:
        told["usage"] = usage
    return b"data: " + msgspec.json.encode(told) + b"\n\n"


def call_part(index: int | None = None, **members: Json) -> Json:
    """A piece of a call: `id`, `name` and `arguments`, where they are given."""
    function = {name: members.pop(name) for name in ("name", "arguments") if name in members}
    part: dict[str, Json] = {**members, "function": function} if function else {**members}
    return {**({} if index is None else {"index": index}), "type": "function", **part}


def counted(usage: Usage) -> Json:
    inside = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "prompt_tokens": inside,
        "completion_tokens": usage.output_tokens,
        "total_tokens": inside + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
    }


class ChatDialect:
    path = "/v1/chat/completions"
    opening = 1

    def events(self, talk: ServerTalk) -> list[bytes]:
        told = [chunk({"role": "assistant", "content": ""})]
        calls = 0
        for part in talk.parts:
            match part:
                case Words(text=text):
                    told += [chunk({"content": piece}) for piece in cut(text, talk.cuts)]
                case Thoughts(text=text):
                    told += [chunk({"reasoning_content": piece}) for piece in cut(text, talk.cuts)]
                case Use(name=name, arguments=arguments, id=call_id):
                    told.append(chunk({"tool_calls": [call_part(calls, id=call_id, name=name, arguments="")]}))
                    for piece in cut(arguments, talk.cuts):
                        told.append(chunk({"tool_calls": [call_part(calls, arguments=piece)]}))
                    calls += 1
        return [*told, chunk({}, finish=WORDS[talk.stop]), chunk(usage=counted(talk.usage)), DONE]

    def refusal(self, status: int, *, info: ErrorInfo = "Other", message: str = "") -> ServerReply:
        kind, code = ("invalid_request_error" if status < 500 else "server_error"), None
        if info == "UsageLimitExceeded":
            kind = code = "insufficient_quota"
        if info == "ModelNotFound":
            kind, message = "not_found_error", message or 'model "gone" not found, try pulling it first'
        if info == "ContextWindowExceeded":
            message = message or "the request exceeds the available context size, try increasing it"
        error = {"message": message or f"scripted status {status}", "type": kind, "param": None, "code": code}
        return ServerReply(
            parts=(msgspec.json.encode({"error": error}),),
            status=status,
            headers=(("content-type", "application/json"),),
        )

    def broken(self) -> bytes:
        return b'data: {"error": {"message": "Overloaded", "code": 503, "type": "overloaded_error"}}\n\n'

    def ping(self) -> bytes:
        return b": keep-alive\n\n"

    def refuses(self, body: Json) -> str:
        if not isinstance(body, dict):
            return "the body is not an object"
        return next(_wrong(body), "")


CHAT = ChatDialect()


def _wrong(body: dict[str, Json]) -> Iterator[str]:
    messages = body.get("messages")
    if not messages:
        yield "messages: at least one message is required"
        return
    for tool in body.get("tools", []):
        if not _ID.fullmatch(tool["function"]["name"]):
            yield f"bad tool name {tool['function']['name']!r}"
    waiting: list[str] = []
    used: set[str] = set()
    before = ""
    for message in messages:
        role = message["role"]
        if role != "tool" and waiting:
            yield f"An assistant message with 'tool_calls' must be followed by tool messages: {waiting}"
        if role == before and role != "tool":
            yield f"roles must alternate, and {role!r} came twice"
        yield from _wrong_message(message)
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            waiting = [name for name in waiting if name != message["tool_call_id"]]
        for call in message.get("tool_calls", []):
            if call["id"] in used:
                yield f"duplicate call id {call['id']!r}"
            used.add(call["id"])
            waiting.append(call["id"])
        before = role
    if waiting:
        yield f"calls without a result: {waiting}"


def _wrong_message(message: dict[str, Json]) -> Iterator[str]:
    content = message.get("content")
    if not content and not message.get("tool_calls"):
        yield f"{message['role']}: content must not be empty"
    if isinstance(content, list) and (message["role"] != "user" or not all(map(_shown, content))):
        yield f"{message['role']}: unsupported content parts"
    for call in message.get("tool_calls", []):
        if not _ID.fullmatch(call["id"]) or not _ID.fullmatch(call["function"]["name"]):
            yield f"bad id or name in {call}"
        try:
            if not isinstance(msgspec.json.decode(call["function"]["arguments"]), dict):
                yield "arguments must be an object"
        except ValueError:
            yield "Failed to parse tool call arguments as JSON"


def _shown(part: Json) -> bool:
    if part["type"] == "text":
        return bool(part["text"].strip())
    return part["image_url"]["url"].startswith(("data:image/", "https://", "http://"))
