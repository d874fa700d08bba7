"""Output without end within bounds."""

import re

from hypothesis import given
from hypothesis import strategies as st

from hames.tools.headtail import HeadTail

MARK = re.compile(r"\n\[… ([\d,]+) bytes omitted …\]\n")


def kept(chunks: list[bytes], limit: int) -> tuple[str, HeadTail]:
    bounded = HeadTail(limit=limit)
    return "".join([bounded.feed(chunk) for chunk in chunks]) + bounded.finish(), bounded


@given(st.binary(max_size=200), st.data())
def test_what_fits_is_told_as_it_is_however_it_is_cut(content: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=10)))
    chunks = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    text, bounded = kept(chunks, 200)
    assert text == content.decode("utf-8", "replace")
    assert bounded.omitted_bytes == 0


@given(st.text(min_size=1, max_size=300), st.integers(8, 64), st.integers(1, 50))
def test_what_does_not_fit_keeps_both_ends_and_counts_the_rest(body: str, limit: int, size: int) -> None:
    content = body.encode("utf-8", "replace")
    text, bounded = kept([content[i : i + size] for i in range(0, len(content), size)], limit)
    if len(content) <= limit:
        assert text == content.decode()
        return
    head, omitted, tail = MARK.split(text)
    assert content.startswith(head.encode())
    assert content.endswith(tail.encode())
    assert len(head.encode()) + len(tail.encode()) + int(omitted.replace(",", "")) == len(content)
    assert len(head.encode()) + len(tail.encode()) <= limit
    assert limit - len(head.encode()) - len(tail.encode()) <= 6  # two characters cut in halves at most
    assert bounded.omitted_bytes == int(omitted.replace(",", ""))


def test_the_beginning_is_told_at_once_and_the_end_at_the_end() -> None:
    bounded = HeadTail(limit=10)
    assert bounded.feed(b"abc") == "abc"
    assert bounded.feed(b"defgh") == "de"
    assert bounded.feed(b"ijklmnop") == ""
    assert bounded.finish() == "\n[… 6 bytes omitted …]\nlmnop"


def test_a_character_cut_by_a_chunk_is_told_whole() -> None:
    bounded = HeadTail(limit=100)
    assert bounded.feed("é".encode()[:1]) == ""
    assert bounded.feed("é".encode()[1:]) == "é"


def test_memory_is_bounded_by_the_limit_and_not_by_the_output() -> None:
    bounded = HeadTail(limit=1000)
    for _ in range(10_000):
        bounded.feed(b"0123456789")
    held = sum(map(len, bounded._tail))
    assert held < 600
    assert len(bounded.finish()) < 600
