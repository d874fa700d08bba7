"""Sending to clients that may read too slowly: bytes that were built once, sent within bounds, never waited for.

A `Writer` is the sending side of a connection, a WebSocket or a response that lasts. Two outboxes stand on it: one for
a session that has its client to itself, one for a follower of a broadcast.
"""

from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import anyio

from hames.protocols.broadcast import BroadcastRules

PATIENCE_SECONDS = 30.0
TOO_SLOW = 1013
SLOW = "this client reads too slowly"
_NO_RULES = BroadcastRules(when_behind="close", heartbeat_s=float("inf"), only_when_quiet=True)


class Payload:
    """The bytes of a message, and those of its WebSocket frame: a server's frame is the same for every client."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def frame(self) -> bytes:
        return frame_head(len(self.data)) + self.data


def frame_head(length: int) -> bytes:
    """
    >>> frame_head(5).hex(), frame_head(200).hex(), frame_head(70000).hex()
    ('8105', '817e00c8', '817f0000000000011170')
    """
    if length < 126:
        return bytes((0x81, length))
    if length < 65536:
        return b"\x81\x7e" + length.to_bytes(2)
    return b"\x81\x7f" + length.to_bytes(8)


class Writer(Protocol):
    on_room: Callable[[], None] | None
    """Called when it is no longer `paused`."""
    paused: bool
    """The client reads too slowly: what is written now would pile up."""
    framed: bool
    """A line of a session's output is a message of its own."""

    @property
    def gone(self) -> bool: ...

    @property
    def unsent(self) -> int:
        """Bytes that were written and not yet taken by the network."""
        ...

    def write(self, payload: Payload) -> None: ...

    def drop(self, code: int, why: str) -> None:
        """Closes it without waiting for anything: the client hears the code if it still reads."""
        ...


def payloads(writer: Writer, output: bytes) -> list[Payload]:
    return [Payload(line) for line in output.split(b"\n") if line] if writer.framed else [Payload(output)]


class WaitingOutbox:
    """For one session: whoever writes waits for room first."""

    def __init__(self, writer: Writer, patience_s: float = PATIENCE_SECONDS) -> None:
        """`patience_s`: a client that reads nothing at all for so long is disconnected. It can come back."""
        self._writer = writer
        self._patience_s = patience_s
        self._room = anyio.Event()
        writer.on_room = self._has_room

    def write(self, data: bytes) -> None:
        for payload in payloads(self._writer, data):
            self._writer.write(payload)

    async def room(self) -> None:
        left = self._writer.unsent
        while self._writer.paused and not self._writer.gone:
            self._room = anyio.Event()
            with anyio.move_on_after(self._patience_s) as waited:
                await self._room.wait()
            if waited.cancelled_caught and self._writer.unsent >= left:
                self._writer.drop(TOO_SLOW, SLOW)
            left = self._writer.unsent

    def _has_room(self) -> None:
        self._room.set()


class Subscriber:
    """For a follower of broadcasts: messages leave at once while it reads, and wait within bounds otherwise."""

    def __init__(self, writer: Writer, now: float) -> None:
        self.rules = _NO_RULES
        """Those of the format it follows."""
        self.can_answer = False
        """Whether it can decide an approval."""
        self.restart: Callable[[], None] = lambda: None
        """Sends everything from the beginning."""
        self._writer = writer
        self._waiting: deque[Payload] | None = None
        """None until something waits: for most clients nothing ever does, and an empty deque takes 600 bytes."""
        self._bytes = 0
        self._stale = False
        self._last = self._moved = now
        self._unsent = 0
        writer.on_room = self._send_waiting

    def offer(self, payload: Payload, now: float) -> None:
        if self.rules.only_when_quiet:
            self._last = now
        if not self._waiting and not self._stale and not self._writer.paused:
            self._writer.write(payload)
        elif not self._stale:
            self._waiting = self._waiting or deque()
            self._waiting.append(payload)
            self._bytes += len(payload.data)
            if self._bytes > self.rules.outbox_bytes:
                self._fall_behind()

    def write(self, data: bytes) -> None:
        """To this client alone, behind what it was offered before."""
        for payload in payloads(self._writer, data):
            self.offer(payload, self._last)

    async def room(self) -> None:
        """There always is: what is too much is not kept."""

    def start_over(self) -> None:
        """Forget what waits: everything is sent from the beginning, as soon as the client reads."""
        self._forget()
        self._stale = True
        self._send_waiting()

    def send_all(self) -> None:
        """The connection ends: what waits goes now, whether the client reads or not."""
        for payload in self._waiting or ():
            self._writer.write(payload)
        self._forget()

    def tick(self, now: float, heartbeat: Payload) -> None:
        if self._writer.gone:
            return
        if now - self._last >= self.rules.heartbeat_s and not (self._writer.paused and self.rules.only_when_quiet):
            self._last = now
            self.offer(heartbeat, now)
        if not self._writer.paused:
            self._moved = now
        elif self._writer.unsent != self._unsent:
            self._unsent, self._moved = self._writer.unsent, now
        elif now - self._moved >= self.rules.patience_s:
            self._writer.drop(TOO_SLOW, SLOW)

    def _fall_behind(self) -> None:
        if self.rules.when_behind == "restart":
            self.start_over()
        else:
            self._forget()
            self._writer.drop(TOO_SLOW, SLOW)

    def _forget(self) -> None:
        self._waiting = None
        self._bytes = 0

    def _send_waiting(self) -> None:
        while not self._writer.paused and not self._writer.gone:
            if self._stale:
                self._stale = False
                self.restart()
            elif self._waiting:
                payload = self._waiting.popleft()
                self._bytes -= len(payload.data)
                self._writer.write(payload)
            else:
                return
