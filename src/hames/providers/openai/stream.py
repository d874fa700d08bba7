"""OpenAI's stream of a reply: bytes in, model events out, no I/O.

Items stream under an output index, and `response.output_item.done` carries the whole item.
Deltas are only for showing: a call becomes an event when its item is done, and not when that item says
that it was cut short.
"""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from hames.codecs.jsontext import encode_mended, parse_lenient, text_member
from hames.domain.errors import ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call, Citation
from hames.domain.json import Json
from hames.domain.request import (
    FREEFORM,
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
)
from hames.providers.failures import malformed
from hames.providers.reply_stream import Delta, ReplyStream, is_url_citation, read_usage, url_citation

DELTAS: dict[str, tuple[Delta, str]] = {
    "response.output_text.delta": (TextDelta, "message"),
    "response.refusal.delta": (TextDelta, "message"),
    "response.reasoning_text.delta": (ReasoningDelta, "reasoning"),
    "response.reasoning_summary_text.delta": (SummaryDelta, "reasoning"),
    "response.function_call_arguments.delta": (ToolCallDelta, "function_call"),
    "response.custom_tool_call_input.delta": (ToolCallDelta, "custom_tool_call"),
}
"""What a delta becomes, and the kind of item it belongs to."""
REASONS: dict[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
SILENT = frozenset({"keepalive", "ping", "response.in_progress", "response.queued"})
"""Sent by a service that is alive and has nothing to say."""


class _Event(Struct):
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


_decode = msgspec.json.Decoder(_Event).decode


class _Item(Struct):
    """An item that was announced."""

    number: int
    kind: str
    has_text: bool = False
    """Some of its text has been streamed."""
    done: bool = False


class OpenAIStream(ReplyStream):
    def __init__(self, fail: Callable[[Json], ProviderError]) -> None:
        super().__init__(fail)
        self._items: dict[int, _Item] = {}
        self._response: dict[str, Json] = {}
        self._called = False
        self._refused = False

    def _read(self, name: bytes, data: bytes) -> None:
        try:
            event = _decode(data)
        except (ValueError, RecursionError):
            event = self._read_leniently(name, data)
            if event is None:
                return
        kind = event.type or name.decode(errors="replace")
        if kind in SILENT:
            return
        self.progress += 1
        if kind in DELTAS:
            self._read_delta(kind, event)
            return
        self._merge()
        response = event.response if isinstance(event.response, dict) else {}
        match kind:
            case "response.output_item.added":
                if isinstance(event.item, dict) and event.output_index not in self._items:
                    self._announce(event.output_index, text_member(event.item, "type"), event.item)
            case "response.output_item.done":
                self._finish_item(event.output_index, event.item)
            case "response.reasoning_summary_part.added" if event.summary_index > 0:
                self._separate_summary(event.output_index)
            case "response.completed" | "response.incomplete":
                self._response = response
                self._end()
            case "response.failed" | "response.cancelled":
                self.failure = self._fail(response.get("error") or {"message": "the reply was given up"})
            case "error":
                self.failure = self._fail(event.error or {"code": event.code, "message": event.message})
            case _:
                if event.error is not None and not event.type:  # a proxy's error in the middle of a stream
                    self.failure = self._fail(event.error)

    def _read_leniently(self, name: bytes, data: bytes) -> _Event | None:
        """Half a surrogate pair is mended, an event nobody knows may look as it likes, the rest is no stream."""
        if data.strip() == b"[DONE]":
            return None
        try:
            event = parse_lenient(data)
        except (ValueError, RecursionError) as error:
            self.failure = malformed(str(error))
            return None
        kind = text_member(event, "type") or name.decode(errors="replace")
        try:
            return msgspec.convert(event, _Event)
        except msgspec.ValidationError as error:
            if kind in DELTAS or kind.startswith("response.output_item"):
                self.failure = malformed(str(error))
            return None

    def _read_delta(self, kind: str, event: _Event) -> None:
        delta, of = DELTAS[kind]
        item = self._items.get(event.output_index) or self._announce(event.output_index, of, {})
        if item.done or item.kind != of or not isinstance(event.delta, str):
            return
        if kind == "response.refusal.delta":
            self._refused = True
        self._add_piece(delta, item.number, event.delta)
        item.has_text = item.has_text or bool(event.delta)

    def _separate_summary(self, index: int) -> None:
        item = self._items.get(index)
        if item is not None and item.has_text and not item.done:
            self._out.append(SummaryDelta(block=item.number, text="\n\n"))

    def _announce(self, index: int, kind: str, given: dict[str, Json]) -> _Item:
        item = self._items[index] = _Item(number=len(self._items), kind=kind)
        if kind in ("function_call", "custom_tool_call"):
            self._merge()
            self._out.append(ToolCallStarted(block=item.number, name=text_member(given, "name")))
        elif kind == "web_search_call":
            self._out.append(SearchStarted(block=item.number, query=_query(given)))
        return item

    def _finish_item(self, index: int, given: Json) -> None:
        if not isinstance(given, dict):
            return
        kind = text_member(given, "type")
        item = self._items.get(index) or self._announce(index, kind, given)
        if item.done or item.kind != kind:
            return
        item.done, number = True, item.number
        match kind:
            case "message":
                if not item.has_text and (text := self._message_text(given)):
                    self._out.append(TextDelta(block=number, text=text))
                    item.has_text = True
                if item.has_text:
                    self._out.append(TextEnded(block=number, citations=_citations(given), whole=True))
            case "reasoning":
                if not item.has_text and (text := _summary(given)):
                    self._out.append(SummaryDelta(block=number, text=text))
                self._out.append(ReasoningEnded(block=number, opaque=_returnable_reasoning(given)))
            case "function_call" if given.get("status") != "incomplete":
                self._called = True
                call = Call(
                    id=CallId(text_member(given, "call_id") or text_member(given, "id")),
                    name=text_member(given, "name"),
                    arguments=text_member(given, "arguments") or "{}",
                )
                self._out.append(ToolCallEnded(block=number, call=call))
            case "custom_tool_call" if given.get("status") != "incomplete":
                self._called = True
                call = Call(
                    id=CallId(text_member(given, "call_id") or text_member(given, "id")),
                    name=text_member(given, "name"),
                    arguments=encode_mended({FREEFORM: text_member(given, "input")}).decode(),
                )
                self._out.append(ToolCallEnded(block=number, call=call))
            case "web_search_call":
                failed, opaque = given.get("status") not in ("completed", None), _returnable_search(given)
                self._out.append(SearchEnded(block=number, query=_query(given), opaque=opaque, failed=failed))
            case _:
                pass

    def _end(self) -> None:
        response = self._response
        output = response.get("output")
        for index, given in enumerate(output if isinstance(output, list) else []):
            self._finish_item(index, given)  # a proxy may have left the events of its own out
        for item in self._items.values():
            self._abandon(item)
        if (usage := read_usage(response.get("usage"), "input", "output")) is not None:
            self._out.append(usage)
        cut = response.get("status") == "incomplete"
        why = text_member(response.get("incomplete_details"), "reason") if cut else ""
        reason: StopReason = "tools" if self._called else "refusal" if self._refused else "end"
        if cut:
            reason = REASONS.get(why, "unknown")
        self._out.append(ReplyEnded(reason=reason, word=why or text_member(response, "status") or "completed"))
        self.ended = True

    def _abandon(self, item: _Item) -> None:
        """It was never done. Text is kept as it stands; a call that was cut off is never told."""
        if item.done:
            return
        item.done = True
        if item.kind == "message" and item.has_text:
            self._out.append(TextEnded(block=item.number, whole=True))
        elif item.kind == "reasoning" and item.has_text:
            self._out.append(ReasoningEnded(block=item.number))
        elif item.kind == "web_search_call":
            self._out.append(SearchEnded(block=item.number, query="", failed=True))

    def _message_text(self, given: dict[str, Json]) -> str:
        content = given.get("content")
        parts = content if isinstance(content, list) else []
        self._refused = self._refused or any(text_member(part, "type") == "refusal" for part in parts)
        return "".join(text_member(part, "text") or text_member(part, "refusal") for part in parts)


def _citations(given: dict[str, Json]) -> tuple[Citation, ...]:
    """The sources that a message names. Positions count from the beginning of a part; the message joins its parts."""
    content, before = given.get("content"), 0
    found: list[Citation] = []
    for part in content if isinstance(content, list) else []:
        notes = part.get("annotations") if isinstance(part, dict) else None
        found += (
            [url_citation(note, before) for note in notes if is_url_citation(note)] if isinstance(notes, list) else []
        )
        before += len(text_member(part, "text") or text_member(part, "refusal"))
    return tuple(found)


def _returnable_reasoning(given: dict[str, Json]) -> Json:
    """What the service wants back: only encrypted thoughts can be, where nothing is stored."""
    if not text_member(given, "encrypted_content"):
        return None
    return {
        "type": "reasoning",
        "id": text_member(given, "id"),
        "summary": given.get("summary") or [],
        "encrypted_content": given["encrypted_content"],
    }


def _returnable_search(given: dict[str, Json]) -> Json:
    """What the service takes back of a search: the whole item, once it is whole."""
    if text_member(given, "status") != "completed" or not isinstance(given.get("action"), dict):
        return None
    return {name: given[name] for name in ("type", "id", "status", "action") if name in given}


def _summary(given: dict[str, Json]) -> str:
    summary = given.get("summary")
    return "\n\n".join(text_member(part, "text") for part in summary) if isinstance(summary, list) else ""


def _query(given: dict[str, Json]) -> str:
    action = given.get("action")
    queries = action.get("queries") if isinstance(action, dict) else None
    first = queries[0] if isinstance(queries, list) and queries and isinstance(queries[0], str) else ""
    return text_member(action, "query") or first or text_member(action, "pattern") or text_member(action, "url")
