"""One client of a fan-out: what was sent to it and not read yet, within bounds."""

from collections import deque
from collections.abc import Callable

import anyio

from hames.protocols.sse.stream import HEARTBEAT, ending
from hames.server.websocket.protocol import TextFrame, Wire
from hames.server.websocket.socket import TOO_SLOW

OUTBOX_BYTES = 1 << 20
QUIET_SECONDS = 20.0
HEARTBEAT_SECONDS = 30.0
PATIENCE_SECONDS = 30.0


class SyncClient:
    """Frames leave at once while the client reads. One that does not is started over when it does again."""

    def __init__(self, wire: Wire, snapshot: Callable[[], TextFrame], now: float) -> None:
        self.answers = False
        """Whether it can decide an approval."""
        self.again: TextFrame | None = None
        """What follows a state that takes the place of what was forgotten."""
        self._wire = wire
        self._snapshot = snapshot
        self._waiting: deque[TextFrame] = deque()
        self._bytes = 0
        self._stale = False
        self._last = now
        self._unsent = 0
        self._moved = now
        wire.on_room = self._room
        wire.write(snapshot())

    def offer(self, frame: TextFrame, now: float) -> None:
        self._last = now
        if not self._waiting and not self._stale and not self._wire.paused:
            self._wire.write(frame)
        elif not self._stale:
            self._waiting.append(frame)
            self._bytes += frame.size
            if self._bytes > OUTBOX_BYTES:
                self.start_over()

    def start_over(self) -> None:
        """Forget what waits: a whole state takes its place."""
        self._waiting.clear()
        self._bytes = 0
        self._stale = True
        self._room()

    def say(self, text: bytes) -> None:
        """To this client alone, behind what it was offered before."""
        self.offer(TextFrame(text), self._last)

    def drop(self, code: int, why: str) -> None:
        self._wire.drop(code, why)

    def tick(self, now: float, beat: TextFrame) -> None:
        """`beat` is what a client hears when nothing happens."""
        if self._wire.gone:
            return
        if not self._wire.paused:
            self._moved = now
            if now - self._last >= QUIET_SECONDS:
                self.offer(beat, now)
            return
        if self._wire.unsent != self._unsent:
            self._unsent, self._moved = self._wire.unsent, now
        elif now - self._moved >= PATIENCE_SECONDS:
            self.drop(TOO_SLOW, "this client reads too slowly")

    def _room(self) -> None:
        while not self._wire.paused and not self._wire.gone:
            if self._stale:
                self._stale = False
                self._wire.write(self._snapshot())
                if self.again is not None:
                    self._wire.write(self.again)
            elif self._waiting:
                frame = self._waiting.popleft()
                self._bytes -= frame.size
                self._wire.write(frame)
            else:
                return


class SseClient:
    """Events wait here until the response takes them, all that there are at once."""

    def __init__(self, seq: int, now: float) -> None:
        self.answers = False
        """Whether somebody there can decide an approval."""
        self.seq = seq
        """Where the thread stood when the client came: what is offered lies behind it."""
        self.stalled: Callable[[], None] = lambda: None
        """Called when the client has read nothing for too long."""
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._wake = anyio.Event()
        self._ended = ""
        self._beat = self._moved = now
        self._busy = False

    def offer(self, data: bytes) -> None:
        if self._ended:
            return
        self._waiting.append(data)
        self._bytes += len(data)
        if self._bytes > OUTBOX_BYTES and self._busy:
            self.end("this client reads too slowly; reconnect")
            self.stalled()
        self._wake.set()

    def end(self, why: str) -> None:
        self._ended = self._ended or why
        self._wake.set()

    def tick(self, now: float) -> None:
        if not self._busy:
            self._moved = now
        elif now - self._moved >= PATIENCE_SECONDS:
            self.end("this client reads too slowly; reconnect")
            self.stalled()
        if now - self._beat >= HEARTBEAT_SECONDS:
            self._beat = now
            self.offer(HEARTBEAT)

    async def take(self) -> tuple[bytes, bool]:
        """What is to be sent now, and whether that is the end."""
        self._busy = False
        while not self._waiting and not self._ended:
            self._wake = anyio.Event()
            await self._wake.wait()
        data, self._waiting = b"".join(self._waiting), []
        self._bytes = 0
        self._busy = True
        if self._ended:
            return data + ending(self._ended), True
        return data, False
