"""A client of the event stream: follows one thread, from now or from where it was, and says nothing itself."""

from collections.abc import Sequence

from hames.codecs import sse
from hames.domain.errors import HarnessError
from hames.domain.ids import ThreadId
from hames.protocols.session import Action, Close, Follow, Session
from hames.protocols.sse.encoder import SseEncoder, parse_position


class SseSession(Session):
    def __init__(self, thread_id: ThreadId, last_event_id: str, *, can_answer: bool) -> None:
        self._follow = Follow(
            thread_id=thread_id,
            can_answer=can_answer,
            encoder=SseEncoder,
            position=parse_position(last_event_id),
        )
        self._output = b""

    def open(self, _now: float) -> Sequence[Action]:
        return [self._follow]

    def failed(self, _action: Action, error: HarnessError) -> Sequence[Action]:
        return [Close(reason=str(error), error=error)]

    def lost(self, _thread_id: ThreadId, why: str) -> Close:
        self._output += sse.comment(why)  # no client has an event for it
        return Close(reason=why)

    def take_output(self) -> bytes:
        data, self._output = self._output, b""
        return data
