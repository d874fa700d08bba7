"""Framing does not care how bytes are cut."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.codecs.content_length import BadFraming, ContentLengthDecoder, encode_message
from hames.codecs.lines import HEAD_BYTES, Line, LineDecoder, TooLong

LIMIT = 12


def decoded(chunks: list[bytes]) -> list[Line]:
    decoder = LineDecoder(limit=LIMIT)
    return [line for chunk in chunks for line in decoder.feed(chunk)] + decoder.end()


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    stream = draw(st.lists(st.sampled_from([b"\n", b"\r\n", b"{}", b"x" * 9, b"\xef\xbb\xbf", b" ", b"\xe2\x80\xa8"])))
    whole = b"".join(stream)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)))))
    return whole, [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@given(cut_streams())
def test_framing_does_not_care_how_bytes_are_cut(stream: tuple[bytes, list[bytes]]) -> None:
    whole, chunks = stream
    assert decoded(chunks) == decoded([whole])


@given(st.lists(st.binary(min_size=1, max_size=LIMIT).filter(lambda line: b"\n" not in line and line.strip(b" \t\r"))))
def test_what_was_joined_with_lf_comes_apart_again(lines: list[bytes]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    expected = [line.removesuffix(b"\r") for line in lines]
    if expected:
        expected[0] = expected[0].removeprefix(b"\xef\xbb\xbf")
    assert decoded([stream]) == [line for line in expected if line.strip(b" \t\r")]


@given(st.lists(st.integers(0, 3 * LIMIT)))
def test_every_line_over_the_limit_is_reported_exactly_once(sizes: list[int]) -> None:
    stream = b"".join(b"x" * size + b"\n" for size in sizes)
    expected = [
        TooLong(limit=LIMIT, head=b"x" * min(LIMIT, HEAD_BYTES)) if size > LIMIT else b"x" * size
        for size in sizes
        if size
    ]
    assert decoded([stream]) == expected


@given(st.lists(st.binary(max_size=30)), st.data())
def test_messages_with_a_content_length_come_apart_however_they_are_cut(
    bodies: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(encode_message(body) for body in bodies)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    decoder = ContentLengthDecoder()
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert [body for chunk in chunks for body in decoder.feed(chunk)] == bodies


@given(st.binary())
def test_bytes_that_are_no_messages_are_refused_or_waited_for(noise: bytes) -> None:
    decoder = ContentLengthDecoder(max_body_bytes=100)
    with suppress(BadFraming):
        decoder.feed(noise)


def test_a_message_or_a_header_that_is_too_long_is_refused_before_it_is_there() -> None:
    for noise in (b"Content-Length: 101\r\n\r\n", b"x" * 5_000, b"Content-Length: -1\r\n\r\n", b"Other: 1\r\n\r\n"):
        with pytest.raises(BadFraming):
            ContentLengthDecoder(max_body_bytes=100).feed(noise)
