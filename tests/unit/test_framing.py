"""Bytes to lines, whatever the bytes."""

import doctest

import pytest

from hames.codecs import lines as framing
from hames.codecs.lines import HEAD_BYTES, LineDecoder, TooLong


def lines(*chunks: bytes, limit: int = 1000) -> list[framing.Line]:
    decoder = LineDecoder(limit=limit)
    return [line for chunk in chunks for line in decoder.feed(chunk)] + decoder.end()


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(framing) == doctest.TestResults(failed=0, attempted=5)


@pytest.mark.spec("bootstrap/transport-ndjson")
def test_a_line_ends_at_lf_and_at_nothing_else() -> None:
    odd = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\rh".encode()
    assert lines(odd + b"\n" + b"next\n") == [odd, b"next"]


def test_cr_before_lf_belongs_to_the_ending() -> None:
    assert lines(b"one\r\ntwo\r\n") == [b"one", b"two"]


def test_blank_lines_are_skipped_and_other_whitespace_is_not_blank() -> None:
    assert lines(b"\n  \t\r\n\r\n\x0b\n\x0c\n") == [b"\x0b", b"\x0c"]


def test_a_last_line_needs_no_lf() -> None:
    assert lines(b"one\ntwo") == [b"one", b"two"]


def test_an_end_without_a_line_is_no_line() -> None:
    assert lines(b"one\n") == [b"one"]
    assert lines() == []


def test_a_byte_order_mark_counts_only_at_the_very_start() -> None:
    mark = b"\xef\xbb\xbf"
    assert lines(mark[:1], mark[1:] + b"one\n" + mark + b"two\n") == [b"one", mark + b"two"]
    assert lines(mark + b"\none\n") == [b"one"]


def test_a_line_at_the_limit_is_a_line_and_one_byte_more_is_too_long() -> None:
    assert lines(b"x" * 10 + b"\n", limit=10) == [b"x" * 10]
    assert lines(b"x" * 11 + b"\nnext\n", limit=10) == [TooLong(limit=10, head=b"x" * 10), b"next"]


def test_of_a_line_that_is_too_long_the_first_bytes_are_kept_however_it_comes() -> None:
    text = bytes(range(97, 123)) * 100
    for step in (1, 7, 600, 5_000):
        decoder = LineDecoder(limit=1_000)
        found = [line for at in range(0, len(text), step) for line in decoder.feed(text[at : at + step])]
        assert found == [TooLong(limit=1_000, head=text[:HEAD_BYTES])]


def test_a_line_that_is_too_long_is_reported_once_and_before_it_ends() -> None:
    decoder = LineDecoder(limit=10)
    assert decoder.feed(b"x" * 8) == []
    assert decoder.feed(b"x" * 8) == [TooLong(limit=10, head=b"x" * 10)]
    assert decoder.feed(b"x" * 8) == []
    assert decoder.feed(b"x\nnext\n") == [b"next"]


def test_a_line_that_is_too_long_is_not_kept_in_memory() -> None:
    decoder = LineDecoder(limit=10)
    for _ in range(100):
        decoder.feed(b"x" * 1000)
    assert decoder.end() == []
