"""Reading the stream of one reply: what all dialects share. A dialect reads events in `_read`."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from hames.codecs.jsontext import is_json
from hames.codecs.sse import EventTooLong, SseDecoder
from hames.domain.errors import ProviderError
from hames.domain.json import Json
from hames.domain.request import ModelEvent
from hames.providers.failures import cut_off, malformed


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
        self._pieces: list[str] = []
        self._out: list[ModelEvent] = []

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
        if not self.ended and not self.failure and not self._end_without_last_event():
            self.failure = cut_off(begun=self._has_begun())
        return self._take_events()

    def _take_events(self) -> list[ModelEvent]:
        self._merge()
        out, self._out = self._out, []
        return out

    def _has_begun(self) -> bool:
        return self.progress > 0

    def _end_without_last_event(self) -> bool:
        return False

    @abstractmethod
    def _read(self, name: bytes, data: bytes) -> None: ...

    @abstractmethod
    def _merge(self) -> None:
        """Deltas of one block that arrived together become one event."""
