"""One run: a turn is started, told as events until it ends, and interrupted if the client goes before."""

from collections.abc import Sequence

from hames.codecs import sse
from hames.domain.commands import CompactThread, InterruptTurn, StartReview, StartTurn
from hames.domain.errors import HarnessError
from hames.domain.events import TurnEnded
from hames.domain.ids import ThreadId, TurnId
from hames.domain.state import Change, ThreadState, Turn
from hames.protocols.runner.messages import RunError
from hames.protocols.runner.outbound import frame, project
from hames.protocols.session import Action, Close, Execute, Follow, Outcome, Session

HEARTBEAT = sse.comment("heartbeat")
HEARTBEAT_SECONDS = 10.0


class RunnerSession(Session):
    def __init__(self, command: StartTurn | StartReview | CompactThread, *, can_answer: bool) -> None:
        """`command` starts the run. `can_answer`: whoever started it decides approvals."""
        self._thread_id = command.thread_id
        self._follow = Follow(thread_id=command.thread_id, can_answer=can_answer)
        self._start = Execute(command=command)
        self._turn_id: TurnId | None = None
        """While it runs."""
        self._output: list[bytes] = []
        self._heartbeat_at: float | None = None

    def open(self, now: float) -> Sequence[Action]:
        self._heartbeat_at = now + HEARTBEAT_SECONDS
        return [self._follow]

    def followed(
        self, _action: Follow, _state: ThreadState, _history: Sequence[Change], _now: float
    ) -> Sequence[Action]:
        return [self._start]

    def done(self, action: Execute, outcome: Outcome) -> Sequence[Action]:
        if action is self._start:
            assert isinstance(outcome, Turn)
            self._turn_id = outcome.id
        return ()

    def failed(self, action: Action, error: HarnessError) -> Sequence[Action]:
        return [Close(reason=str(error), error=error)] if action in (self._follow, self._start) else ()

    def tell(self, changes: Sequence[Change], _now: float) -> Close | None:
        for change in changes:
            self._output += [frame(event) for event in project(change)]
            event = change.record.event
            if isinstance(event, TurnEnded) and event.turn_id == self._turn_id:
                self._turn_id = None
                return Close(reason="the run has ended")
        return None

    def lost(self, _thread_id: ThreadId, why: str) -> Close:
        self._output.append(frame(RunError(message=why)))
        return Close(reason=why)

    def next_deadline(self) -> float | None:
        return self._heartbeat_at

    def expire(self, now: float) -> Sequence[Action]:
        """Whoever waits on the other side knows that we are here."""
        self._output.append(HEARTBEAT)
        self._heartbeat_at = now + HEARTBEAT_SECONDS
        return ()

    def closed(self) -> Sequence[Action]:
        if self._turn_id is None:
            return ()
        return [Execute(command=InterruptTurn(thread_id=self._thread_id, turn_id=self._turn_id))]

    def take_output(self) -> bytes:
        data, self._output = b"".join(self._output), []
        return data
