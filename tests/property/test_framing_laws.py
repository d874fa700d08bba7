"""Framing does not care how bytes are cut."""

from hypothesis import given
from hypothesis import strategies as st

from hames.codecs.lines import Line, LineDecoder, TooLong

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
    expected = [TooLong(limit=LIMIT) if size > LIMIT else b"x" * size for size in sizes if size]
    assert decoded([stream]) == expected
