"""The outbox of a follower: messages leave at once, a slow client is started over or dropped, as its rules say."""

from collections.abc import Callable, MutableMapping
from typing import Any

import anyio
import pytest

from hames.protocols.sse.encoder import SseEncoder
from hames.protocols.sync.encoder import SyncEncoder
from hames.server.api.streams import ResponseWriter
from hames.server.slow_clients import TOO_SLOW, Payload, Subscriber

BEAT = Payload(b"beat")
RULES = SyncEncoder.rules
STREAM_RULES = SseEncoder.rules


class StubbornWriter:
    """A connection whose other side reads only when it is told to."""

    framed = True

    def __init__(self) -> None:
        self.on_room: Callable[[], None] | None = None
        self.sent: list[bytes] = []
        self.paused = False
        self.gone = False
        self.unsent = 0
        self.dropped = 0

    def write(self, payload: Payload) -> None:
        assert not self.paused, "written although there is no room"
        self.sent.append(payload.data)

    def drop(self, code: int, why: str) -> None:
        self.dropped, self.gone = code, True

    def read(self) -> None:
        self.paused = False
        assert self.on_room is not None
        self.on_room()


def client(writer: StubbornWriter, states: list[bytes] | None = None) -> Subscriber:
    waiting = states if states is not None else [b"state"]
    one = Subscriber(writer, 0.0)
    one.rules = RULES
    one.restart = lambda: one.offer(Payload(waiting[-1]), 0.0)
    one.restart()
    return one


def test_the_snapshot_is_the_first_frame_and_the_rest_follows() -> None:
    writer = StubbornWriter()
    one = client(writer)
    one.offer(Payload(b"a"), 1.0)
    one.offer(Payload(b"b"), 1.0)
    assert writer.sent == [b"state", b"a", b"b"]


def test_a_client_that_stops_for_a_while_hears_everything_in_order() -> None:
    writer = StubbornWriter()
    one = client(writer)
    writer.paused = True
    for text in (b"a", b"b", b"c"):
        one.offer(Payload(text), 1.0)
    assert writer.sent == [b"state"]
    writer.read()
    one.offer(Payload(b"d"), 1.0)
    assert writer.sent == [b"state", b"a", b"b", b"c", b"d"]


def test_a_client_that_stops_for_long_is_started_over_with_a_whole_state() -> None:
    writer, states = StubbornWriter(), [b"old state"]
    one = client(writer, states)
    writer.paused = True
    for _ in range(3):
        one.offer(Payload(b"x" * (RULES.outbox_bytes // 2)), 1.0)
    states.append(b"new state")
    one.offer(Payload(b"lost, and in the state"), 1.0)
    writer.read()
    one.offer(Payload(b"next"), 2.0)
    assert writer.sent == [b"old state", b"new state", b"next"]


def test_a_quiet_client_hears_a_beat() -> None:
    writer = StubbornWriter()
    one = client(writer)
    one.tick(RULES.heartbeat_s - 1, BEAT)
    assert writer.sent == [b"state"]
    one.tick(RULES.heartbeat_s, BEAT)
    assert writer.sent == [b"state", b"beat"]
    one.offer(Payload(b"a"), RULES.heartbeat_s + 5)
    one.tick(2 * RULES.heartbeat_s + 4, BEAT)
    assert writer.sent == [b"state", b"beat", b"a"]


def test_a_client_that_takes_nothing_is_let_go_and_one_that_takes_little_is_not() -> None:
    writer = StubbornWriter()
    one = client(writer)
    writer.paused, writer.unsent = True, 1000
    for second in range(1, 100):
        writer.unsent = 1000 - second
        one.tick(float(second), BEAT)
    assert not writer.dropped
    for second in range(100, 100 + int(RULES.patience_s) + 1):
        one.tick(float(second), BEAT)
    assert writer.dropped == TOO_SLOW


def stream_client(writer: StubbornWriter) -> Subscriber:
    one = Subscriber(writer, 0.0)
    one.rules = STREAM_RULES
    return one


def test_a_heartbeat_comes_whatever_else_is_sent() -> None:
    writer = StubbornWriter()
    one = stream_client(writer)
    one.offer(Payload(b"a"), STREAM_RULES.heartbeat_s - 2)
    one.tick(STREAM_RULES.heartbeat_s - 1, BEAT)
    assert writer.sent == [b"a"]
    one.tick(STREAM_RULES.heartbeat_s, BEAT)
    assert writer.sent == [b"a", b"beat"]


@pytest.mark.parametrize("much", [True, False], ids=["too much waits", "too long"])
def test_a_stream_that_takes_nothing_is_dropped(much: bool) -> None:
    writer = StubbornWriter()
    one = stream_client(writer)
    writer.paused = True
    if much:
        one.offer(Payload(b"x" * STREAM_RULES.outbox_bytes), 1.0)
        assert not writer.dropped
        one.offer(Payload(b"x"), 1.0)
    else:
        one.tick(STREAM_RULES.patience_s - 1, BEAT)
        assert not writer.dropped
        one.tick(STREAM_RULES.patience_s, BEAT)
    assert writer.dropped == TOO_SLOW


def test_a_stream_that_waits_for_events_is_never_dropped() -> None:
    writer = StubbornWriter()
    one = stream_client(writer)
    one.tick(10 * STREAM_RULES.patience_s, BEAT)
    assert not writer.dropped


def test_the_end_of_a_connection_sends_what_waits() -> None:
    writer = StubbornWriter()
    one = stream_client(writer)
    writer.paused = True
    one.write(b"a\nb")
    writer.paused = False
    one.send_all()
    assert writer.sent == [b"a", b"b"]


class OpenTransport:
    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


class OpenConnection:
    transport = OpenTransport()


async def test_what_was_written_meanwhile_is_sent_as_one_and_the_end_comes_last() -> None:
    writer = ResponseWriter(OpenConnection())  # type: ignore[arg-type]
    bodies: list[tuple[bytes, bool]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        assert writer.paused
        bodies.append((message["body"], message["more_body"]))
        if len(bodies) == 1:
            writer.write(Payload(b"c"))
            writer.end()

    writer.write(Payload(b"a"))
    writer.write(Payload(b"b"))
    with anyio.fail_after(60):
        await writer.run(send)
    assert bodies == [(b"ab", True), (b"c", False)]
