"""Reading the stream of one reply: what all dialects share. A dialect reads events in `_read`."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from hames.codecs.jsontext import count_member, is_json, text_member
from hames.codecs.sse import EventTooLong, SseDecoder
from hames.domain.errors import ProviderError
from hames.domain.items import Citation
from hames.domain.json import Json
from hames.domain.request import ModelEvent, ReasoningDelta, SummaryDelta, TextDelta, ToolCallDelta, UsageSeen
from hames.domain.usage import Usage
from hames.providers.failures import cut_off, malformed

Delta = type[TextDelta] | type[ReasoningDelta] | type[SummaryDelta] | type[ToolCallDelta]


class ReplyStream(ABC):
    """One reply. `feed` until `ended` or `failure`, and `finish` when the bytes stop before that.

    A failure is kept, not raised, so that what came before it in the same chunk is not lost.
    """

    def __init__(self, fail: Callable[[Json], ProviderError]) -> None:
        self.failure: ProviderError | None = None
        self.ended = False
        self.progress = 0
        """Events that were not pings: what counts as a sign of life."""
        self._fail = fail
        self._sse = SseDecoder()
        self._out: list[ModelEvent] = []
        self._stop_word: str | None = None
        """Why the model stopped, in the service's own word."""
        self._run: tuple[Delta, int] | None = None
        """What the pieces are deltas of: their type and their block."""
        self._pieces: list[str] = []

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        try:
            events = self._sse.feed(chunk)
        except EventTooLong as error:
            self.failure = malformed(str(error))
            return []
        for name, data in events:
            if self.ended or self.failure:
                break
            self._read(name, data)
        return self._take_events()

    def finish(self) -> list[ModelEvent]:
        """The bytes are over. A reply that has said why it stopped is whole even without its last event."""
        for name, data in self._sse.finish():
            if not self.ended and not self.failure and (is_json(data) or data.strip() == b"[DONE]"):
                self._read(name, data)
        if not self.ended and not self.failure:
            if self._stop_word is None:
                self.failure = cut_off(begun=self.progress > 0)
            else:
                self._end()
        return self._take_events()

    def _take_events(self) -> list[ModelEvent]:
        self._merge()
        out, self._out = self._out, []
        return out

    def _add_piece(self, delta: Delta, block: int, text: str) -> None:
        run = self._run
        if run is None or run[0] is not delta or run[1] != block:
            self._merge()
            self._run = (delta, block)
        self._pieces.append(text)

    def _merge(self) -> None:
        """Deltas of one block that arrived together become one event."""
        run, text = self._run, "".join(self._pieces)
        self._run, self._pieces = None, []
        if run is not None and text:
            self._out.append(run[0](block=run[1], text=text))

    @abstractmethod
    def _read(self, name: bytes, data: bytes) -> None: ...

    @abstractmethod
    def _end(self) -> None: ...


def is_url_citation(note: Json) -> bool:
    return isinstance(note, dict) and note.get("type") == "url_citation"


def url_citation(note: Json, before: int = 0) -> Citation:
    """An annotation of OpenAI's dialects. `before`: how much text comes before what its positions count from."""
    cited = note.get("url_citation", note)
    return Citation(
        url=text_member(cited, "url"),
        title=text_member(cited, "title"),
        quote=text_member(cited, "content"),
        start=before + count_member(cited, "start_index"),
        end=before + count_member(cited, "end_index"),
    )


def read_usage(counted: Json, asked: str, answered: str) -> UsageSeen | None:
    """A count of tokens as OpenAI's dialects have it. They call the two sides of a request `asked` and `answered`."""
    if not isinstance(counted, dict):
        return None
    details = counted.get(f"{asked}_tokens_details")
    read = count_member(details, "cached_tokens") or count_member(counted, "prompt_cache_hit_tokens")
    written = count_member(details, "cache_write_tokens")
    return UsageSeen(
        usage=Usage(
            input_tokens=max(0, count_member(counted, f"{asked}_tokens") - read - written),
            output_tokens=count_member(counted, f"{answered}_tokens"),
            thinking_tokens=count_member(counted.get(f"{answered}_tokens_details"), "reasoning_tokens"),
            cache_read_tokens=read,
            cache_write_tokens=written,
        )
    )
