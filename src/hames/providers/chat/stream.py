"""A stream of chat completions: bytes in, model events out, no I/O.

Many servers speak this, and no two the same. Calls come in fragments or whole, several in one chunk, with no
index, with the same index, without an id, with arguments as an object. What holds for all of them: a call is
whole when the server says why it stopped. Until then its deltas are shown, and it is not called.
"""

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hames.codecs.jsontext import is_json, parse_lenient
from hames.domain.errors import ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call, Citation
from hames.domain.json import Json
from hames.domain.request import (
    ReasoningDelta,
    ReasoningEnded,
    ReplyEnded,
    StopReason,
    TextDelta,
    TextEnded,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageSeen,
)
from hames.providers.chat.think_tags import Piece, ThinkTags
from hames.providers.failures import cut_off, malformed
from hames.providers.reply_stream import ReplyStream, is_url_citation, read_usage, url_citation

_STOP_WORDS: dict[StopReason, str] = {
    "end": "stop end_turn eos eos_token stop_sequence completed",
    "tools": "tool_calls tool_call tool_use function_call",
    "max_tokens": "length max_tokens model_length",
    "refusal": "content_filter refusal safety",
}
REASONS: dict[str, StopReason] = {word: reason for reason, words in _STOP_WORDS.items() for word in words.split()}
CUT_SHORT: frozenset[StopReason] = frozenset({"max_tokens", "refusal"})
"""The last call of such a reply may be half a call."""
STREAMED = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Details of a thought that come in pieces, and where their text is."""
TAGGED = "think"
"""A thought between tags, which nobody wants back."""


class _Function(Struct):
    name: str | None = None
    arguments: Json = None


class _CallPart(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Struct):
    content: Json = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Json] | None = None
    refusal: str | None = None
    tool_calls: list[_CallPart] | None = None
    function_call: _Function | None = None
    annotations: list[Json] | None = None


class _Choice(Struct):
    index: int | None = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: Json = None
    error: Json = None
    object: Json = None
    message: Json = None
    code: Json = None


_decode = msgspec.json.Decoder(_Chunk).decode


class _Open(Struct):
    """A call that was begun."""

    block: int
    index: int | None
    id: str = ""
    name: str = ""
    parts: list[str] = []
    announced: bool = False

    @property
    def arguments(self) -> str:
        return "".join(self.parts)


class ChatStream(ReplyStream):
    def __init__(self, fail: Callable[[Json], ProviderError]) -> None:
        super().__init__(fail)
        self._blocks = 0
        self._refused = False
        self._usage: UsageSeen | None = None
        self._current: tuple[str, int] | None = None
        """What is being streamed: `text` or the field a thought comes from, and its block."""
        self._tags = ThinkTags()
        self._details: list[dict[str, Json]] = []
        self._thought: ReasoningEnded | None = None
        """One that waits for the details a server may still send for it."""
        self._calls: list[_Open] = []
        self._citations: list[Citation] = []
        """Of the text that is being streamed."""

    def _read(self, name: bytes, data: bytes) -> None:  # noqa: ARG002
        try:
            chunk = _decode(data)
        except (ValueError, RecursionError):
            chunk = self._read_leniently(data)
            if chunk is None:
                return
        self.progress += 1
        if chunk.error:
            self.failure = self._fail(chunk.error)
            return
        if chunk.object == "error":
            self.failure = self._fail({"message": chunk.message, "code": chunk.code})
            return
        for choice in chunk.choices or ():
            if choice.index:  # more than one answer was never asked for
                continue
            delta = choice.delta or choice.message
            if delta is not None:
                self._read_delta(delta)
            if choice.finish_reason:
                self._stop_word = choice.finish_reason
        if chunk.usage is not None:
            self._usage = read_usage(chunk.usage, "prompt", "completion") or self._usage

    def _read_leniently(self, data: bytes) -> _Chunk | None:
        if data.strip() == b"[DONE]":
            if self._stop_word is None and not self.progress:
                self.failure = cut_off(begun=False)
            else:
                self._end()
            return None
        try:
            return msgspec.convert(parse_lenient(data), _Chunk)
        except (ValueError, RecursionError, msgspec.ValidationError) as error:
            self.failure = malformed(str(error))
            return None

    def _read_delta(self, delta: _Delta) -> None:
        if thought := delta.reasoning_content or delta.reasoning:
            self._tags.plain = True  # a server that says so itself writes no tags
            self._add_text("reasoning_content" if delta.reasoning_content else "reasoning", thought)
        for detail in delta.reasoning_details or ():
            _add_detail(self._details, detail)
        if text := _text(delta.content):
            self._add_reply(text)
        self._citations += [url_citation(note) for note in delta.annotations or () if is_url_citation(note)]
        if delta.refusal:
            self._refused = True
            self._add_reply(delta.refusal)
        for place, part in enumerate(delta.tool_calls or ()):
            self._add_call(part, place)
        if delta.function_call is not None:
            self._add_call(_CallPart(index=0, function=delta.function_call), 0)

    def _add_reply(self, text: str) -> None:
        if self._tags.plain:  # nearly always
            self._add_text("text", text)
        else:
            self._add_tagged(self._tags.feed(text))

    def _add_tagged(self, pieces: Iterable[Piece]) -> None:
        for kind, piece in pieces:
            self._add_text("text" if kind == "text" else TAGGED, piece)

    def _add_text(self, kind: str, text: str) -> None:
        if self._current is None or self._current[0] != kind:
            self._end_text()
            self._current = (kind, self._next_block())
        self._add_piece(TextDelta if kind == "text" else ReasoningDelta, self._current[1], text)

    def _end_text(self) -> None:
        """What was being streamed is over."""
        self._merge()
        if self._current is None:
            return
        (kind, block), self._current = self._current, None
        if kind == "text":
            self._out.append(TextEnded(block=block, citations=tuple(self._citations)))
            self._citations.clear()
            return
        ended = ReasoningEnded(block=block, opaque=None if kind == TAGGED else {"field": kind})
        if not self._details:
            self._out.append(ended)
            return
        if self._thought is not None:
            self._out.append(self._thought)
        self._thought = ended

    def _next_block(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def _add_call(self, part: _CallPart, place: int) -> None:
        self._add_tagged(self._tags.flush())
        self._end_text()
        function = part.function or _Function()
        call = self._find_call(part, function, place)
        if call is None:
            block, name = self._next_block(), function.name or ""
            call = _Open(block=block, index=part.index, id=part.id or "", name=name, parts=[])
            self._calls.append(call)
        elif function.name and function.name != call.name and not call.parts:
            call.name += function.name  # a name in pieces
        call.id = call.id or part.id or ""
        if call.name and not call.announced:
            call.announced = True
            self._out.append(ToolCallStarted(block=call.block, name=call.name))
        if text := _arguments(function.arguments):
            call.parts.append(text)
            if call.announced:
                self._out.append(ToolCallDelta(block=call.block, text=text))

    def _find_call(self, part: _CallPart, function: _Function, place: int) -> _Open | None:
        """The call this is a piece of; none, if it begins one."""
        if part.index is not None:
            same = [call for call in self._calls if call.index == part.index]
            # Some servers number every whole call 0: another id, or another name after arguments, is another call.
            if same and part.id and same[-1].id and part.id != same[-1].id and function.name:
                return None
            if same and function.name and not part.id and is_json(same[-1].arguments) and same[-1].parts:
                return None
            return same[-1] if same else None
        if part.id:
            return next((call for call in self._calls if call.id == part.id), None)
        if function.name or not self._calls:
            return None
        return self._calls[-1] if place == 0 else None

    def _end(self) -> None:
        self._add_tagged(self._tags.flush())
        self._end_text()
        if self._details:  # signed or encrypted: the server wants them back as they came
            thought = self._thought or ReasoningEnded(block=self._next_block(), opaque={})
            self._out.append(replace(thought, opaque={**(thought.opaque or {}), "details": self._details}))
        word = self._stop_word or ""
        reason: StopReason = REASONS.get(word.lower(), "unknown") if word else "end"
        calls = [call for call in self._calls if call.announced]
        if calls and reason in CUT_SHORT and not is_json(calls[-1].arguments):
            calls.pop()
        if calls and not word and not is_json(calls[-1].arguments or "{}"):
            calls.pop()  # nobody said that it was whole
        taken = {call.id for call in calls if call.id}
        for place, call in enumerate(calls):
            name = call.id or _unused(f"call_{place}", taken)
            taken.add(name)
            made = Call(id=CallId(name), name=call.name, arguments=call.arguments or "{}")
            self._out.append(ToolCallEnded(block=call.block, call=made))
        if self._usage is not None:
            self._out.append(self._usage)
        if reason in ("end", "tools", "unknown"):
            reason = "tools" if calls else "refusal" if self._refused else "end" if reason == "tools" else reason
        self._out.append(ReplyEnded(reason=reason, word=word))
        self.ended = True


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _add_detail(details: list[dict[str, Json]], piece: Json) -> None:
    """Pieces of one detail have its index and kind; their texts are joined, the rest is taken as it comes."""
    if not isinstance(piece, dict):
        return
    last = details[-1] if details else {}
    same = "index" in piece and (last.get("index"), last.get("type")) == (piece["index"], piece.get("type"))
    if not same or piece.get("type") not in STREAMED:
        details.append(dict(piece))
        return
    field = STREAMED[piece["type"]]
    text = f"{last.get(field) or ''}{piece.get(field) or ''}"
    details[-1] = {**last, **{name: value for name, value in piece.items() if value is not None}, field: text}


def _text(content: Json) -> str:
    """A text, or parts of one."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _arguments(given: Json) -> str:
    if given is None or isinstance(given, str):
        return given or ""
    return msgspec.json.encode(given).decode()
