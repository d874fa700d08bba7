"""Thoughts between tags: a server without a parser for them streams `<think>…</think>` as a reply's first words."""

from collections.abc import Iterator
from typing import Literal

OPEN, CLOSE = "<think>", "</think>"

Kind = Literal["text", "thought"]
Piece = tuple[Kind, str]


class ThinkTags:
    """Feed it words, take out pieces. Only what a reply begins with can be a thought.

    >>> tags = ThinkTags()
    >>> [*tags.feed(" <thi"), *tags.feed("nk>Hm</th"), *tags.feed("ink>Yes")]
    [('thought', 'Hm'), ('text', 'Yes')]
    """

    def __init__(self) -> None:
        self.plain = False
        """Nothing that comes can be a thought any more."""
        self._kind: Kind = "text"
        self._closed = False
        self._told = False
        """Something of this thought was: the line breaks around it are the tags' own."""
        self._held = ""

    def feed(self, text: str) -> Iterator[Piece]:
        if self.plain:
            yield "text", text
            return
        self._held += text
        if self._kind == "text" and not self._closed:
            begun = self._held.lstrip()
            if OPEN.startswith(begun):
                if begun == OPEN:
                    self._kind, self._held = "thought", ""
                return  # it may still become a tag
            if not begun.startswith(OPEN):
                yield from self.flush()
                return
            self._kind, self._held = "thought", begun.removeprefix(OPEN)
        if self._kind == "thought":
            yield from self._think()
        if self._closed and (words := self._held.lstrip("\n")):
            self.plain, self._held = True, ""
            yield "text", words

    def _think(self) -> Iterator[Piece]:
        if not self._told:
            self._held = self._held.lstrip("\n")
        thought, closed, rest = self._held.partition(CLOSE)
        if closed:
            self._closed, self._kind, self._held = True, "text", rest
        else:
            kept = _half_a_tag(thought)
            thought, self._held = thought[: len(thought) - kept], thought[len(thought) - kept :]
        if thought:
            self._told = True
            yield "thought", thought

    def flush(self) -> Iterator[Piece]:
        """No more words: what was held back is what it looked like."""
        self.plain, held, self._held = True, self._held, ""
        if held and not self._closed:
            yield self._kind, held


def _half_a_tag(text: str) -> int:
    """How much of its end may be the beginning of a closing tag."""
    return next((size for size in range(min(len(CLOSE) - 1, len(text)), 0, -1) if CLOSE.startswith(text[-size:])), 0)
