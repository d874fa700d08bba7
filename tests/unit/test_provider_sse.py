"""Server-sent events, cut and written every way a service might."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.codecs.sse import Event, EventTooLong, SseDecoder


def decoded(*chunks: bytes) -> list[Event]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.finish()


lines = st.binary(max_size=30).filter(lambda line: not {10, 13} & set(line))
names = st.binary(max_size=10).filter(lambda name: not {10, 13} & set(name) and name == name.strip(b" "))


@given(
    st.lists(st.tuples(names, st.lists(lines, min_size=1, max_size=3))),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.booleans(),
    st.data(),
)
def test_events_do_not_care_how_bytes_are_cut_or_lines_are_ended(
    events: list[tuple[bytes, list[bytes]]], end: bytes, bom: bool, data: st.DataObject
) -> None:
    stream = b"\xef\xbb\xbf" if bom else b""
    for name, parts in events:
        stream += b": a comment" + end + (b"event: " + name + end if name else b"")
        stream += b"".join(b"data: " + part + end for part in parts) + end
    chunks = list[bytes]()
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        chunks.append(stream[:cut])
        stream = stream[cut:]
    assert decoded(*chunks) == [(name, b"\n".join(parts)) for name, parts in events]


def test_a_space_after_the_colon_is_optional() -> None:
    assert decoded(b"event:ping\ndata:{}\n\n") == [(b"ping", b"{}")]


def test_only_one_space_after_the_colon_is_taken_away() -> None:
    assert decoded(b"data:  x\n\n") == [(b"", b" x")]


def test_an_event_without_data_is_none() -> None:
    assert decoded(b"event: ping\n\nid: 3\nretry: 10\n\n: only a comment\n\n\n\n\n") == []


def test_fields_nobody_knows_are_left_out() -> None:
    assert decoded(b"event: a\nid: 7\ndata: 1\nfoo: bar\n\n") == [(b"a", b"1")]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_an_event_is_told_as_soon_as_its_blank_line_is_there(end: bytes) -> None:
    for cut in range(1, len(b"data: 1" + end)):
        decoder, stream = SseDecoder(), b"data: 1" + end
        assert decoder.feed(stream[:cut]) + decoder.feed(stream[cut:]) == [(b"", b"1")]


def test_a_last_event_without_its_blank_line_counts() -> None:
    assert decoded(b"data: 1\n\ndata: 2") == [(b"", b"1"), (b"", b"2")]
    assert decoded(b"data: 1\r\n\r\ndata: 2\r\n") == [(b"", b"1"), (b"", b"2")]


def test_a_character_cut_in_two_arrives_whole() -> None:
    horse = "data: 🐎\n\n".encode()
    assert decoded(horse[:8], horse[8:]) == [(b"", "🐎".encode())]


def test_a_bom_counts_only_at_the_very_start() -> None:
    assert decoded(b"\xef", b"\xbb\xbfdata: 1\n\n") == [(b"", b"1")]
    assert decoded(b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n") == [(b"", b"1")]


def test_an_endless_line_is_given_up() -> None:
    decoder = SseDecoder(event_bytes=1000)
    assert decoder.feed(b"data: " + b"x" * 900) == []
    with pytest.raises(EventTooLong):
        decoder.feed(b"x" * 200)


def test_many_events_in_one_chunk_may_be_longer_than_one_event_may() -> None:
    decoder = SseDecoder(event_bytes=100)
    assert len(decoder.feed(b"data: 0123456789\n\n" * 50)) == 50
