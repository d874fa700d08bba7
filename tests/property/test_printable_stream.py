"""Text from elsewhere, shown piece by piece, is what it would be in one piece."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hames.domain.display import PrintableStream, printable

SEQUENCES = (
    "\x1b]0;title\x07",
    "\x1b]52;c;ZXZpbA==\x1b\\",
    "\x1b[2J",
    "\x1b[38;5;1m",
    "\x1b(B",
    "\x9b31m",
    "\x9d0;title\x9c",
    "\x1bPq#0\x1b\\",
    "\r\n",
)
TEXT = st.lists(st.sampled_from(SEQUENCES) | st.sampled_from(["ok", "ä", "\n", " "])).map("".join)


@given(TEXT, st.lists(st.integers(0, 60)))
def test_where_the_text_is_cut_changes_nothing(text: str, cuts: list[int]) -> None:
    pieces = PrintableStream()
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    shown = "".join(pieces.feed(text[start:end]) for start, end in pairwise(at))
    assert shown == printable(text)


@given(st.lists(st.text(alphabet="\x1b[]0;\x07\x9b\x9c\\mJ\rx\n")))
def test_nothing_that_commands_a_terminal_is_left(texts: list[str]) -> None:
    pieces = PrintableStream()
    shown = "".join(pieces.feed(text) for text in texts)
    assert not set(shown) & set("\x1b\x07\x9b\x9c\r")


def test_a_sequence_without_end_is_not_kept() -> None:
    pieces = PrintableStream()
    pieces.feed("\x1b]0;")
    for _ in range(100):
        assert pieces.feed("x" * 3000) == ""
        assert len(pieces._held) < 8000  # pyright: ignore[reportPrivateUsage]
    assert pieces.feed("\x07ok") == "ok"
