"""One client of a hub: frames leave at once, a slow one is started over, a dead one is let go."""

from collections.abc import Callable

import anyio
import pytest

from hames.protocols.sse.stream import HEARTBEAT
from hames.server.clients import (
    HEARTBEAT_SECONDS,
    OUTBOX_BYTES,
    PATIENCE_SECONDS,
    QUIET_SECONDS,
    SseClient,
    SyncClient,
)
from hames.server.websocket.protocol import TextFrame

BEAT = TextFrame(b"beat")


class StubbornWire:
    """A connection whose other side reads only when it is told to."""

    def __init__(self) -> None:
        self.on_room: Callable[[], None] | None = None
        self.sent: list[bytes] = []
        self.paused = False
        self.gone = False
        self.unsent = 0
        self.dropped = 0

    def write(self, frame: TextFrame) -> None:
        assert not self.paused, "written although there is no room"
        self.sent.append(frame.text)

    def drop(self, code: int, why: str) -> None:
        self.dropped, self.gone = code, True

    def read(self) -> None:
        self.paused = False
        assert self.on_room is not None
        self.on_room()


def client(wire: StubbornWire, states: list[bytes] | None = None) -> SyncClient:
    waiting = states if states is not None else [b"state"]
    return SyncClient(wire, lambda: TextFrame(waiting[-1]), 0.0)


def test_the_snapshot_is_the_first_frame_and_the_rest_follows() -> None:
    wire = StubbornWire()
    one = client(wire)
    one.offer(TextFrame(b"a"), 1.0)
    one.offer(TextFrame(b"b"), 1.0)
    assert wire.sent == [b"state", b"a", b"b"]


def test_a_client_that_stops_for_a_while_hears_everything_in_order() -> None:
    wire = StubbornWire()
    one = client(wire)
    wire.paused = True
    for text in (b"a", b"b", b"c"):
        one.offer(TextFrame(text), 1.0)
    assert wire.sent == [b"state"]
    wire.read()
    one.offer(TextFrame(b"d"), 1.0)
    assert wire.sent == [b"state", b"a", b"b", b"c", b"d"]


def test_a_client_that_stops_for_long_is_started_over_with_a_whole_state() -> None:
    wire, states = StubbornWire(), [b"old state"]
    one = client(wire, states)
    wire.paused = True
    for _ in range(3):
        one.offer(TextFrame(b"x" * (OUTBOX_BYTES // 2)), 1.0)
    states.append(b"new state")
    one.offer(TextFrame(b"lost, and in the state"), 1.0)
    wire.read()
    one.offer(TextFrame(b"next"), 2.0)
    assert wire.sent == [b"old state", b"new state", b"next"]


def test_a_quiet_client_hears_a_beat() -> None:
    wire = StubbornWire()
    one = client(wire)
    one.tick(QUIET_SECONDS - 1, BEAT)
    assert wire.sent == [b"state"]
    one.tick(QUIET_SECONDS, BEAT)
    assert wire.sent == [b"state", b"beat"]
    one.offer(TextFrame(b"a"), QUIET_SECONDS + 5)
    one.tick(2 * QUIET_SECONDS + 4, BEAT)
    assert wire.sent == [b"state", b"beat", b"a"]


def test_a_client_that_takes_nothing_is_let_go_and_one_that_takes_little_is_not() -> None:
    wire = StubbornWire()
    one = client(wire)
    wire.paused, wire.unsent = True, 1000
    for second in range(1, 100):
        wire.unsent = 1000 - second
        one.tick(float(second), BEAT)
    assert not wire.dropped
    for second in range(100, 100 + int(PATIENCE_SECONDS) + 1):
        one.tick(float(second), BEAT)
    assert wire.dropped == 1013


async def test_events_that_wait_are_taken_together() -> None:
    one = SseClient(5, 0.0)
    one.offer(b"a")
    one.offer(b"b")
    assert await one.take() == (b"ab", False)
    one.offer(b"c")
    one.end("that was all")
    assert await one.take() == (b"c: that was all\n\n", True)


async def test_a_beat_comes_whatever_else_happens() -> None:
    one = SseClient(5, 0.0)
    one.offer(b"a")
    one.tick(HEARTBEAT_SECONDS - 1)
    assert await one.take() == (b"a", False)
    one.tick(HEARTBEAT_SECONDS)
    assert await one.take() == (HEARTBEAT, False)


@pytest.mark.parametrize("much", [True, False], ids=["too much waits", "too long"])
async def test_a_reader_that_takes_nothing_is_let_go(much: bool) -> None:
    one, stalled = SseClient(5, 0.0), anyio.Event()
    one.stalled = stalled.set
    one.offer(b"a")
    await one.take()  # and never again
    if much:
        one.offer(b"x" * OUTBOX_BYTES)
        assert not stalled.is_set()
        one.offer(b"x")
    else:
        one.tick(PATIENCE_SECONDS - 1)
        assert not stalled.is_set()
        one.tick(PATIENCE_SECONDS)
    assert stalled.is_set()


async def test_a_reader_that_waits_is_never_let_go() -> None:
    one, stalled = SseClient(5, 0.0), anyio.Event()
    one.stalled = stalled.set
    one.tick(10 * PATIENCE_SECONDS)
    await one.take()
    assert not stalled.is_set()
