"""OpenAI's stream of a reply: bytes in, model events out. Pure; the wire is somebody else's.

Items stream under an output index, and `response.output_item.done` carries the whole item.
What only exists in deltas is shown early and never acted on: a call is told when its item is done,
and not when that item says that it was cut short.
"""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from hames.codecs.jsontext import count_member, parse_lenient, text_member
from hames.domain.errors import ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call
from hames.domain.json import Json
from hames.domain.request import (
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
from hames.providers.failures import malformed
from hames.providers.reply_stream import ReplyStream

Delta = type[TextDelta] | type[ReasoningDelta] | type[SummaryDelta] | type[ToolCallDelta]
DELTAS: dict[str, tuple[Delta, str]] = {
    "response.output_text.delta": (TextDelta, "message"),
    "response.refusal.delta": (TextDelta, "message"),
    "response.reasoning_text.delta": (ReasoningDelta, "reasoning"),
    "response.reasoning_summary_text.delta": (SummaryDelta, "reasoning"),
    "response.function_call_arguments.delta": (ToolCallDelta, "function_call"),
}
"""What a delta becomes, and the kind of item it belongs to."""
REASONS: dict[str, StopReason] = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refusal",
}
SILENT = frozenset({"keepalive", "ping", "response.in_progress", "response.queued"})
"""Said by a service that is alive and has nothing to say."""


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


class _Item(Struct):
    """An item that was announced. `told`: some of its text was."""

    number: int
    kind: str
    told: bool = False
    done: bool = False


class OpenAIStream(ReplyStream):
    def __init__(self, fail: Callable[[Json], ProviderError]) -> None:
        super().__init__(fail)
        self._items: dict[int, _Item] = {}
        self._called = False
        self._refused = False
        self._run: tuple[Delta, int] | None = None

    def _merge(self) -> None:
        """Deltas of one item that arrived together are told together."""
        run, text = self._run, "".join(self._pieces)
        self._run, self._pieces = None, []
        if run is not None and text:
            kind, block = run
            self._out.append(kind(block=block, text=text))

    def _read(self, name: bytes, data: bytes) -> None:
        try:
            told = _decode(data)
        except (ValueError, RecursionError):
            told = self._strange(name, data)
            if told is None:
                return
        kind = told.type or name.decode(errors="replace")
        if kind in SILENT:
            return
        self.progress += 1
        if kind in DELTAS:
            self._stream(kind, told)
            return
        self._merge()
        response = told.response if isinstance(told.response, dict) else {}
        match kind:
            case "response.output_item.added":
                self._added(told.output_index, told.item)
            case "response.output_item.done":
                self._done(told.output_index, told.item)
            case "response.reasoning_summary_part.added" if told.summary_index > 0:
                self._break(told.output_index)
            case "response.completed" | "response.incomplete":
                self._end(response)
            case "response.failed" | "response.cancelled":
                self.failure = self._fail(response.get("error") or {"message": "the reply was given up"})
            case "error":
                self.failure = self._fail(told.error or {"code": told.code, "message": told.message})
            case _:
                if told.error is not None and not told.type:  # a proxy's error in the middle of a stream
                    self.failure = self._fail(told.error)

    def _strange(self, name: bytes, data: bytes) -> _Told | None:
        """Half a surrogate pair is mended, an event nobody knows may look as it likes, the rest is no stream."""
        if data.strip() == b"[DONE]":
            return None
        try:
            told = parse_lenient(data)
        except (ValueError, RecursionError) as error:
            self.failure = malformed(str(error))
            return None
        kind = (text_member(told, "type") or name.decode(errors="replace")).encode()
        try:
            return msgspec.convert(told, _Told)
        except msgspec.ValidationError as error:
            if kind.decode() in DELTAS or kind.startswith(b"response.output_item"):
                self.failure = malformed(str(error))
            return None

    def _stream(self, kind: str, told: _Told) -> None:
        delta, of = DELTAS[kind]
        item = self._items.get(told.output_index)
        if item is None:
            item = self._announce(told.output_index, of, {})
        if item.done or item.kind != of or not isinstance(told.delta, str):
            return
        if kind == "response.refusal.delta":
            self._refused = True
        run = self._run
        if run is None or run[0] is not delta or run[1] != item.number:
            self._merge()
            self._run = (delta, item.number)
        self._pieces.append(told.delta)
        item.told = item.told or bool(told.delta)

    def _break(self, index: int) -> None:
        item = self._items.get(index)
        if item is not None and item.told and not item.done:
            self._out.append(SummaryDelta(block=item.number, text="\n\n"))

    def _added(self, index: int, given: Json) -> None:
        if isinstance(given, dict) and index not in self._items:
            self._announce(index, text_member(given, "type"), given)

    def _announce(self, index: int, kind: str, given: dict[str, Json]) -> _Item:
        item = self._items[index] = _Item(number=len(self._items), kind=kind)
        if kind == "function_call":
            self._merge()
            self._out.append(ToolCallStarted(block=item.number, name=text_member(given, "name")))
        elif kind == "web_search_call":
            self._out.append(SearchStarted(block=item.number, query=_query(given)))
        return item

    def _done(self, index: int, given: Json) -> None:
        if not isinstance(given, dict):
            return
        kind = text_member(given, "type")
        item = self._items.get(index) or self._announce(index, kind, given)
        if item.done or item.kind != kind:
            return
        item.done, number = True, item.number
        match kind:
            case "message":
                if not item.told and (text := self._said(given)):
                    self._out.append(TextDelta(block=number, text=text))
                    item.told = True
                if item.told:
                    self._out.append(TextEnded(block=number))
            case "reasoning":
                if not item.told and (text := _summary(given)):
                    self._out.append(SummaryDelta(block=number, text=text))
                self._out.append(ReasoningEnded(block=number, opaque=_kept(given)))
            case "function_call" if given.get("status") != "incomplete":
                self._called = True
                call = Call(
                    id=CallId(text_member(given, "call_id") or text_member(given, "id")),
                    name=text_member(given, "name"),
                    arguments=text_member(given, "arguments") or "{}",
                )
                self._out.append(ToolCallEnded(block=number, call=call))
            case "web_search_call":
                failed = given.get("status") not in ("completed", None)
                query = _query(given)
                self._out.append(SearchEnded(block=number, query=query, opaque=_search(given), failed=failed))
            case _:
                pass

    def _end(self, response: dict[str, Json]) -> None:
        output = response.get("output")
        for index, given in enumerate(output if isinstance(output, list) else []):
            self._done(index, given)  # a proxy may have left the events of its own out
        for item in self._items.values():
            self._abandon(item)
        if (usage := _usage(response.get("usage"))) is not None:
            self._out.append(UsageSeen(usage=usage))
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
        if item.kind == "message" and item.told:
            self._out.append(TextEnded(block=item.number))
        elif item.kind == "reasoning" and item.told:
            self._out.append(ReasoningEnded(block=item.number))
        elif item.kind == "web_search_call":
            self._out.append(SearchEnded(block=item.number, query="", failed=True))

    def _said(self, given: dict[str, Json]) -> str:
        content = given.get("content")
        parts = content if isinstance(content, list) else []
        self._refused = self._refused or any(text_member(part, "type") == "refusal" for part in parts)
        return "".join(text_member(part, "text") or text_member(part, "refusal") for part in parts)


def _kept(given: dict[str, Json]) -> Json:
    """What the service wants back: only encrypted thoughts can be, where nothing is stored."""
    if not text_member(given, "encrypted_content"):
        return None
    return {
        "type": "reasoning",
        "id": text_member(given, "id"),
        "summary": given.get("summary") or [],
        "encrypted_content": given["encrypted_content"],
    }


def _search(given: dict[str, Json]) -> Json:
    """What the service takes back of a search: the whole item, once it is whole."""
    if text_member(given, "status") != "completed" or not isinstance(given.get("action"), dict):
        return None
    return {name: given[name] for name in ("type", "id", "status", "action") if name in given}


def _usage(counted: Json) -> Usage | None:
    if not isinstance(counted, dict):
        return None
    details = counted.get("input_tokens_details")
    read, written = count_member(details, "cached_tokens"), count_member(details, "cache_write_tokens")
    return Usage(
        input_tokens=max(0, count_member(counted, "input_tokens") - read - written),
        output_tokens=count_member(counted, "output_tokens"),
        thinking_tokens=count_member(counted.get("output_tokens_details"), "reasoning_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _summary(given: dict[str, Json]) -> str:
    summary = given.get("summary")
    return "\n\n".join(text_member(part, "text") for part in summary) if isinstance(summary, list) else ""


def _query(given: dict[str, Json]) -> str:
    action = given.get("action")
    queries = action.get("queries") if isinstance(action, dict) else None
    first = queries[0] if isinstance(queries, list) and queries and isinstance(queries[0], str) else ""
    return text_member(action, "query") or first or text_member(action, "pattern") or text_member(action, "url")
