"""A reply of OpenAI's Responses API, from bytes to events. Pure.

Items stream under an output index; `response.output_item.done` carries the whole item and
counts. What only exists in deltas is shown early and never acted on.
"""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from hames.domain.errors import ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call
from hames.domain.json import Json
from hames.domain.request import (
    ModelEvent,
    ReasoningDelta,
    ReasoningEnded,
    ReplyEnded,
    SearchEnded,
    SearchStarted,
    StopReason,
    SummaryDelta,
    TextDelta,
    TextEnded,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageSeen,
)
from hames.domain.usage import Usage
from hames.providers.sse import EventTooLong, SseDecoder

DELTAS = {
    "response.output_text.delta": TextDelta,
    "response.refusal.delta": TextDelta,
    "response.reasoning_text.delta": ReasoningDelta,
    "response.reasoning_summary_text.delta": SummaryDelta,
    "response.function_call_arguments.delta": ToolCallDelta,
}
PINGS = frozenset({"ping", "keepalive", "response.in_progress", "response.queued"})


class _Told(Struct):
    """What an event may carry. Types of tomorrow have other members, and mean nothing to us."""

    type: str = ""
    output_index: int = -1
    delta: Json = None
    item: Json = None
    response: Json = None
    summary_index: int = 0
    code: Json = None
    message: Json = None
    error: Json = None


_decode = msgspec.json.Decoder(_Told).decode


class OpenAIStream:
    """One reply. `feed` until `ended` or `failure`, and `finish` when the bytes stop before that."""

    def __init__(self, fail: Callable[[Json], ProviderError]) -> None:
        self.failure: ProviderError | None = None
        self.ended = False
        self.progress = 0
        self._fail = fail
        self._sse = SseDecoder()
        self._kinds: dict[int, str] = {}
        self._told: set[int] = set()
        self._summaries: dict[int, int] = {}
        self._called = False
        self._refused = False
        self._run: tuple[type, int] | None = None
        self._pieces: list[str] = []
        self._out: list[ModelEvent] = []

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        try:
            told = self._sse.feed(chunk)
        except EventTooLong as error:
            self.failure = malformed(str(error))
            return []
        for name, data in told:
            if self.ended or self.failure:
                break
            self._read(name, data)
        return self._taken()

    def finish(self) -> list[ModelEvent]:
        """The bytes are over before the reply was."""
        for name, data in self._sse.finish():
            if not self.ended and not self.failure and data.strip().endswith(b"}"):
                self._read(name, data)
        if not self.ended and not self.failure:
            what = "the reply broke off in the middle" if self.progress else "the service sent an empty reply"
            self.failure = ProviderError(what, retryable=True, info="ResponseStreamDisconnected")
        return self._taken()

    def _taken(self) -> list[ModelEvent]:
        self._merge()
        out, self._out = self._out, []
        return out

    def _merge(self) -> None:
        """Deltas of one block that arrived together are told together."""
        run, text = self._run, "".join(self._pieces)
        self._run, self._pieces = None, []
        if run is not None and text:
            kind, block = run
            self._out.append(kind(block=block, text=text))

    def _read(self, name: bytes, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            return
        try:
            told = _decode(data)
        except (ValueError, RecursionError) as error:
            if not name.startswith(b"response.") or name.decode(errors="replace") in DELTAS:
                self.failure = malformed(str(error))
            return
        kind = told.type or name.decode(errors="replace")
        if kind in PINGS:
            return
        self.progress += 1
        if (delta := DELTAS.get(kind)) is not None:
            self._stream(delta, told)
            return
        self._merge()
        match kind:
            case "response.output_item.added":
                self._added(told.output_index, told.item)
            case "response.output_item.done":
                self._done(told.output_index, told.item)
            case "response.reasoning_summary_part.added" if told.summary_index > 0:
                self._out.append(SummaryDelta(block=told.output_index, text="\n\n"))
            case "response.completed" | "response.incomplete":
                self._end(told.response if isinstance(told.response, dict) else {})
            case "response.failed":
                self.failure = self._fail((told.response or {}).get("error") if isinstance(told.response, dict) else {})
            case "error":
                self.failure = self._fail(told.error or {"code": told.code, "message": told.message})
            case _:
                pass

    def _stream(self, kind: type, told: _Told) -> None:
        if not isinstance(told.delta, str) or told.output_index < 0:
            return
        if told.type == "response.refusal.delta":
            self._refused = True
        if self._run != (kind, told.output_index):
            self._merge()
            self._run = (kind, told.output_index)
        self._pieces.append(told.delta)
        self._told.add(told.output_index)

    def _added(self, block: int, item: Json) -> None:
        kind = item.get("type", "") if isinstance(item, dict) else ""
        self._kinds[block] = kind
        if kind == "function_call":
            self._out.append(ToolCallStarted(block=block, name=_text(item, "name")))
        elif kind == "web_search_call":
            self._out.append(SearchStarted(block=block, query=_query(item)))

    def _done(self, block: int, item: Json) -> None:
        if not isinstance(item, dict):
            return
        match item.get("type"):
            case "message":
                if block not in self._told and (text := _said(item)):
                    self._out.append(TextDelta(block=block, text=text))
                self._out.append(TextEnded(block=block))
            case "reasoning":
                if block not in self._told and (text := _summary(item)):
                    self._out.append(SummaryDelta(block=block, text=text))
                self._out.append(ReasoningEnded(block=block, opaque=_kept(item)))
            case "function_call" if item.get("status", "completed") == "completed":
                self._called = True
                call = Call(
                    id=CallId(_text(item, "call_id") or _text(item, "id")),
                    name=_text(item, "name"),
                    arguments=_text(item, "arguments") or "{}",
                )
                self._out.append(ToolCallEnded(block=block, call=call))
            case "web_search_call":
                failed = item.get("status") == "failed"
                self._out.append(SearchEnded(block=block, query=_query(item), opaque=item, failed=failed))
            case _:
                pass

    def _end(self, response: dict[str, Json]) -> None:
        if (usage := _usage(response.get("usage"))) is not None:
            self._out.append(UsageSeen(usage=usage))
        why = response.get("incomplete_details")
        word = _text(why, "reason") if response.get("status") == "incomplete" else ""
        reason: StopReason = "tools" if self._called else "end"
        if word == "max_output_tokens":
            reason = "max_tokens"
        elif word == "content_filter" or (self._refused and not self._called):
            reason = "refusal"
        elif word:
            reason = "unknown"
        self._out.append(ReplyEnded(reason=reason, word=word or reason))
        self.ended = True


def malformed(why: str) -> ProviderError:
    return ProviderError(
        f"the service sent something unreadable: {why}", retryable=True, info="ResponseStreamDisconnected"
    )


def _kept(item: dict[str, Json]) -> Json:
    """What the service wants back: only encrypted thoughts can be, where nothing is stored."""
    if not item.get("encrypted_content"):
        return None
    return {name: item[name] for name in ("type", "id", "summary", "encrypted_content") if name in item}


def _usage(counted: Json) -> Usage | None:
    if not isinstance(counted, dict):
        return None
    read = _number(counted.get("input_tokens_details"), "cached_tokens")
    written = _number(counted.get("input_tokens_details"), "cache_write_tokens")
    return Usage(
        input_tokens=max(0, _number(counted, "input_tokens") - read - written),
        output_tokens=_number(counted, "output_tokens"),
        thinking_tokens=_number(counted.get("output_tokens_details"), "reasoning_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _number(counted: Json, name: str) -> int:
    value = counted.get(name) if isinstance(counted, dict) else None
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _text(item: Json, name: str) -> str:
    value = item.get(name) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


def _said(item: dict[str, Json]) -> str:
    content = item.get("content")
    return (
        "".join(_text(part, "text") or _text(part, "refusal") for part in content) if isinstance(content, list) else ""
    )


def _summary(item: dict[str, Json]) -> str:
    summary = item.get("summary")
    return "\n\n".join(_text(part, "text") for part in summary) if isinstance(summary, list) else ""


def _query(item: Json) -> str:
    action = item.get("action") if isinstance(item, dict) else None
    return _text(action, "query") or _text(action, "url") or _text(action, "pattern")
