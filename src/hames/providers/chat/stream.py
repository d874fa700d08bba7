"""A stream of chat completions: bytes in, model events out. Pure; the wire is somebody else's.

Many servers speak this, and no two the same. Calls come in fragments or whole, several in one chunk, with no
index, with the same index, without an id, with arguments as an object. What holds for all of them: a call is
whole when the server says why it stopped. Until then calls are shown and never told.
"""

from collections.abc import Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hames.codecs.jsontext import count_member, is_json, parse_lenient
from hames.domain.errors import ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call
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
from hames.domain.usage import Usage
from hames.providers.chat.think_tags import ThinkTags
from hames.providers.failures import cut_off, malformed
from hames.providers.reply_stream import ReplyStream

REASONS: dict[str, StopReason] = {
    "stop": "end",
    "end_turn": "end",
    "eos": "end",
    "eos_token": "end",
    "stop_sequence": "end",
    "completed": "end",
    "tool_calls": "tools",
    "tool_call": "tools",
    "tool_use": "tools",
    "function_call": "tools",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
}
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
        self._word: str | None = None
        self._refused = False
        self._usage: UsageSeen | None = None
        self._speaking: tuple[str, int] | None = None
        """What is being told: `text` or the field a thought comes from, and its block."""
        self._tags = ThinkTags()
        self._details: list[dict[str, Json]] = []
        self._thought: ReasoningEnded | None = None
        """One that waits for the details a server may still send for it."""
        self._calls: list[_Open] = []

    def _end_without_last_event(self) -> bool:
        if self._word is None:
            return False
        self._end()
        return True

    def _merge(self) -> None:
        """Deltas that arrived together are told together."""
        if self._speaking is None or not self._pieces:
            return
        kind, block = self._speaking
        text = "".join(self._pieces)
        self._pieces = []
        self._out.append(
            TextDelta(block=block, text=text) if kind == "text" else ReasoningDelta(block=block, text=text)
        )

    def _hush(self) -> None:
        """What was being told is over."""
        self._merge()
        if self._speaking is not None:
            kind, block = self._speaking
            self._speaking = None
            if kind == "text":
                self._out.append(TextEnded(block=block))
                return
            ended = ReasoningEnded(block=block, opaque=None if kind == TAGGED else {"field": kind})
            if not self._details:
                self._out.append(ended)
                return
            if self._thought is not None:
                self._out.append(self._thought)
            self._thought = ended

    def _read(self, name: bytes, data: bytes) -> None:  # noqa: ARG002
        try:
            chunk = _decode(data)
        except (ValueError, RecursionError):
            chunk = self._strange(data)
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
            said = choice.delta or choice.message
            if said is not None:
                self._say(said)
            if choice.finish_reason:
                self._word = choice.finish_reason
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage) or self._usage

    def _strange(self, data: bytes) -> _Chunk | None:
        if data.strip() == b"[DONE]":
            if self._word is None and not self.progress:
                self.failure = cut_off(begun=False)
            else:
                self._end()
            return None
        try:
            return msgspec.convert(parse_lenient(data), _Chunk)
        except (ValueError, RecursionError, msgspec.ValidationError) as error:
            self.failure = malformed(str(error))
            return None

    def _say(self, said: _Delta) -> None:
        if thought := said.reasoning_content or said.reasoning:
            self._tags.plain = True  # a server that says so itself writes no tags
            self._speak("reasoning_content" if said.reasoning_content else "reasoning", thought)
        for detail in said.reasoning_details or ():
            _add(self._details, detail)
        if text := _text(said.content):
            self._words(text)
        if said.refusal:
            self._refused = True
            self._words(said.refusal)
        for place, part in enumerate(said.tool_calls or ()):
            self._call(part, place)
        if said.function_call is not None:
            self._call(_CallPart(index=0, function=said.function_call), 0)

    def _words(self, text: str) -> None:
        if self._tags.plain:  # nearly always
            self._speak("text", text)
            return
        for kind, piece in self._tags.feed(text):
            self._speak("text" if kind == "text" else TAGGED, piece)

    def _finish_words(self) -> None:
        for kind, piece in self._tags.flush():
            self._speak("text" if kind == "text" else TAGGED, piece)

    def _speak(self, kind: str, text: str) -> None:
        if self._speaking is None or self._speaking[0] != kind:
            self._hush()
            self._speaking = (kind, self._block())
        self._pieces.append(text)

    def _block(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def _call(self, part: _CallPart, place: int) -> None:
        self._finish_words()
        self._hush()
        function = part.function or _Function()
        call = self._which(part, function, place)
        if call is None:
            call = _Open(block=self._block(), index=part.index, id=part.id or "", name=function.name or "", parts=[])
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

    def _which(self, part: _CallPart, function: _Function, place: int) -> _Open | None:
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
        self._finish_words()
        self._hush()
        if self._details:  # signed or encrypted: the server wants them back as they came
            thought = self._thought or ReasoningEnded(block=self._block(), opaque={})
            self._out.append(replace(thought, opaque={**(thought.opaque or {}), "details": self._details}))
        word = self._word or ""
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


def _add(details: list[dict[str, Json]], piece: Json) -> None:
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


def _usage(counted: Json) -> UsageSeen | None:
    if not isinstance(counted, dict):
        return None
    details = counted.get("prompt_tokens_details")
    read = count_member(details, "cached_tokens") or count_member(counted, "prompt_cache_hit_tokens")
    written = count_member(details, "cache_write_tokens")
    usage = Usage(
        input_tokens=max(0, count_member(counted, "prompt_tokens") - read - written),
        output_tokens=count_member(counted, "completion_tokens"),
        thinking_tokens=count_member(counted.get("completion_tokens_details"), "reasoning_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    return UsageSeen(usage=usage)
