"""Anthropic's stream of a reply: bytes in, model events out, no I/O.

What a newcomer gets wrong: a block that stopped is not always a whole block. When the
reply runs out of tokens inside a tool call, the service closes the block and only then
says `max_tokens`. So a call whose JSON is not whole waits for the stop reason.
"""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from hames.codecs.jsontext import count_member, is_json, parse_lenient, text_member
from hames.domain.errors import ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call, Citation
from hames.domain.json import Json
from hames.domain.request import (
    ProviderNotice,
    ReasoningDelta,
    ReasoningEnded,
    ReplyEnded,
    SearchEnded,
    SearchStarted,
    StopReason,
    TextDelta,
    TextEnded,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageSeen,
)
from hames.domain.usage import Usage
from hames.providers.failures import malformed
from hames.providers.reply_stream import Delta, ReplyStream

REASONS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "pause_turn": "pause",
    "model_context_window_exceeded": "context_exceeded",
}
CUT_SHORT: frozenset[StopReason] = frozenset({"max_tokens", "context_exceeded", "refusal"})
"""The last block of such a reply may have been closed in the middle."""
DELTAS: dict[str, Delta] = {"text": TextDelta, "thinking": ReasoningDelta, "tool_use": ToolCallDelta}
"""What the text of a kind of block becomes."""


class _Text(Struct, tag_field="type", tag="text_delta"):
    text: str


class _Thinking(Struct, tag_field="type", tag="thinking_delta"):
    thinking: str


class _Signature(Struct, tag_field="type", tag="signature_delta"):
    signature: str


class _Input(Struct, tag_field="type", tag="input_json_delta"):
    partial_json: str


class _Citations(Struct, tag_field="type", tag="citations_delta"):
    citation: Json = None


class _BlockDelta(Struct, tag_field="type", tag="content_block_delta"):
    index: int
    delta: _Text | _Thinking | _Signature | _Input | _Citations


class _BlockStart(Struct, tag_field="type", tag="content_block_start"):
    index: int
    content_block: dict[str, Json]


class _BlockStop(Struct, tag_field="type", tag="content_block_stop"):
    index: int


class _Start(Struct, tag_field="type", tag="message_start"):
    message: dict[str, Json]


class _Delta(Struct, tag_field="type", tag="message_delta"):
    delta: dict[str, Json] = {}
    usage: dict[str, Json] | None = None


class _Stop(Struct, tag_field="type", tag="message_stop"):
    pass


class _Ping(Struct, tag_field="type", tag="ping"):
    pass


class _Error(Struct, tag_field="type", tag="error"):
    error: Json = None


_Event = _BlockDelta | _BlockStart | _BlockStop | _Start | _Delta | _Stop | _Ping | _Error
_decode = msgspec.json.Decoder(_Event).decode
_decode_any = msgspec.json.Decoder().decode
_TYPES = frozenset(str(kind.__struct_config__.tag) for kind in _Event.__args__)
_DELTAS = frozenset(str(kind.__struct_config__.tag) for kind in (_Text, _Thinking, _Signature, _Input, _Citations))


class _Block(Struct):
    """A block that has started and not stopped."""

    number: int
    kind: str
    given: dict[str, Json]
    parts: list[str] = []
    signature: str = ""
    length: int = 0
    """Of its text."""
    citations: list[Json] = []

    @property
    def input(self) -> str:
        """The tool input as JSON text. Without any delta it is what the start gave."""
        return "".join(self.parts) or msgspec.json.encode(self.given.get("input") or {}).decode()

    @property
    def doubtful(self) -> bool:
        """It may be half a call: nothing was said, or what was said is not JSON."""
        return not self.given.get("input") and not is_json("".join(self.parts).encode())


class AnthropicStream(ReplyStream):
    def __init__(self, fail: Callable[[Json], ProviderError]) -> None:
        super().__init__(fail)
        self._begun = False
        self._open: dict[int, _Block] = {}
        self._blocks = 0
        self._usage: dict[str, Json] = {}
        self._held_calls: list[ToolCallEnded] = []
        self._is_last_doubtful = False
        """The block that stopped last may be half a call."""
        self._searches: dict[str, tuple[int, str, Json]] = {}

    def _read(self, name: bytes, data: bytes) -> None:
        try:
            event = _decode(data)
        except (ValueError, RecursionError):
            event = self._read_leniently(data)
        if type(event) is _BlockDelta:
            self.progress += 1
            self._read_delta(event)
            return
        if event is None or type(event) is _Ping or name == b"ping":
            return
        self.progress += 1
        self._merge()
        match event:
            case _Start(message=message):
                if not self._begun:
                    self._begun = True
                    self._count(message.get("usage"))
            case _BlockStart(index=index, content_block=given):
                self._start_block(index, given)
            case _BlockStop(index=index):
                if (block := self._open.pop(index, None)) is not None:
                    self._stop_block(block)
            case _Delta(delta=delta, usage=usage):
                self._stop_word = text_member(delta, "stop_reason") or self._stop_word or ""
                self._explain(delta.get("stop_details"))
                self._count(usage)
            case _Stop():
                self._end()
            case _Error(error=error):
                self.failure = self._fail(error)
            case _:
                pass

    def _read_leniently(self, data: bytes) -> _Event | None:
        """Not a shape we know. New kinds of events and deltas are nothing to us; a broken old one is a fault."""
        if data.strip() == b"[DONE]":  # some gateways close with it
            return None
        try:
            event = parse_lenient(data)
            if not isinstance(event, dict):
                raise ValueError("an event that is not an object")  # noqa: TRY004
            kind, delta = event.get("type"), event.get("delta")
            if kind not in _TYPES:
                return None
            if kind == "content_block_delta" and isinstance(delta, dict) and delta.get("type") not in _DELTAS:
                return None
            return msgspec.convert(event, _Event)
        except (ValueError, RecursionError) as error:
            self.failure = malformed(f"{error}")
            return None

    def _read_delta(self, event: _BlockDelta) -> None:
        block = self._open.get(event.index)
        if block is None:
            return
        match event.delta:
            case _Text(text=text) if block.kind == "text":
                block.length += len(text)
            case _Thinking(thinking=text) if block.kind == "thinking":
                pass
            case _Input(partial_json=text) if block.kind in ("tool_use", "server_tool_use"):
                block.parts.append(text)
            case _Citations(citation=citation):
                block.citations.append(citation)
                return
            case _Signature(signature=signature):
                block.signature = signature
                return
            case _:
                return
        if (delta := DELTAS.get(block.kind)) is not None:
            self._add_piece(delta, block.number, text)

    def _start_block(self, index: int, given: dict[str, Json]) -> None:
        if (unfinished := self._open.pop(index, None)) is not None:
            self._abandon(unfinished)
        block = _Block(number=self._blocks, kind=str(given.get("type")), given=given)
        self._open[index] = block
        self._blocks += 1
        if block.kind in ("text", "thinking"):
            self._add_piece(DELTAS[block.kind], block.number, text_member(given, block.kind))
            block.signature = text_member(given, "signature")
            block.length = len(text_member(given, "text"))
            if isinstance(cited := given.get("citations"), list):
                block.citations += cited
        elif block.kind == "tool_use":
            self._out.append(ToolCallStarted(block=block.number, name=text_member(given, "name")))

    def _stop_block(self, block: _Block) -> None:
        number, given = block.number, block.given
        self._is_last_doubtful = block.kind == "tool_use" and block.doubtful
        match block.kind:
            case "text":
                self._out.append(TextEnded(block=number, citations=_citations(block)))
            case "thinking":
                opaque = {"signature": block.signature} if block.signature else None
                self._out.append(ReasoningEnded(block=number, opaque=opaque))
            case "redacted_thinking":
                self._out.append(ReasoningEnded(block=number, opaque={"redacted": text_member(given, "data")}))
            case "tool_use":
                call = Call(id=CallId(text_member(given, "id")), name=text_member(given, "name"), arguments=block.input)
                # A call after one that waits must wait, too: they run in the order they were made.
                waits = self._held_calls or self._is_last_doubtful
                (self._held_calls if waits else self._out).append(ToolCallEnded(block=number, call=call))
            case "server_tool_use" if given.get("name") == "web_search":
                self._start_search(block)
            case "web_search_tool_result":
                self._end_search(block)
            case _:
                pass

    def _start_search(self, block: _Block) -> None:
        asked = _decode_any(block.input) if is_json(block.input.encode()) else {}
        query = str(asked.get("query", "")) if isinstance(asked, dict) else ""
        use = {**block.given, "input": asked}
        self._searches[text_member(block.given, "id")] = (block.number, query, use)
        self._out.append(SearchStarted(block=block.number, query=query))

    def _end_search(self, block: _Block) -> None:
        found = self._searches.pop(text_member(block.given, "tool_use_id"), None)
        if found is not None:
            number, query, use = found
            failed = not isinstance(block.given.get("content"), list)
            self._out.append(SearchEnded(block=number, query=query, opaque=[use, block.given], failed=failed))

    def _abandon(self, block: _Block) -> None:
        """It never stopped. Text is kept as it stands; a call that was cut off is never told."""
        if block.kind == "text":
            self._out.append(TextEnded(block=block.number, citations=_citations(block)))
        elif block.kind == "thinking":
            self._out.append(ReasoningEnded(block=block.number))

    def _end(self) -> None:
        word = self._stop_word or ""
        reason: StopReason = REASONS.get(word, "unknown")
        for block in self._open.values():
            self._abandon(block)
        self._open.clear()
        # Only the last block can have been cut; one before it was simply written badly.
        if self._held_calls and self._is_last_doubtful and reason in CUT_SHORT:
            del self._held_calls[-1]
        self._out += self._held_calls
        for number, query, use in self._searches.values():
            paused = reason == "pause"  # the service goes on where it was, if it is shown the question again
            opaque = [use] if paused else None
            self._out.append(SearchEnded(block=number, query=query, opaque=opaque, failed=not paused))
        self._out.append(ReplyEnded(reason=reason, word=word))
        self.ended = True

    def _count(self, usage: Json) -> None:
        if not isinstance(usage, dict):
            return
        self._usage |= {name: value for name, value in usage.items() if value is not None}
        self._out.append(
            UsageSeen(
                usage=Usage(
                    input_tokens=count_member(self._usage, "input_tokens"),
                    output_tokens=count_member(self._usage, "output_tokens"),
                    thinking_tokens=count_member(self._usage.get("output_tokens_details"), "thinking_tokens"),
                    cache_read_tokens=count_member(self._usage, "cache_read_input_tokens"),
                    cache_write_tokens=count_member(self._usage, "cache_creation_input_tokens"),
                )
            )
        )

    def _explain(self, details: Json) -> None:
        if explanation := text_member(details, "explanation"):
            data = {"category": details.get("category")}
            self._out.append(ProviderNotice(name="refusal", message=explanation, data=data))


def _citations(block: _Block) -> tuple[Citation, ...]:
    """The sources of a text block. A page of the web has a `url`, a search result a `source`, a document a title."""
    return tuple(
        Citation(
            url=text_member(cited, "url") or text_member(cited, "source"),
            title=text_member(cited, "title") or text_member(cited, "document_title"),
            quote=text_member(cited, "cited_text"),
            end=block.length,
        )
        for cited in block.citations
        if isinstance(cited, dict)
    )
