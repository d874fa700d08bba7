"""Colour for terminals that have it, and plain text for everything else."""

import os
from typing import Self, TextIO


class Paint:
    def __init__(self, *, colour: bool) -> None:
        self._colour = colour

    @classmethod
    def for_stream(cls, stream: TextIO) -> Self:
        """`NO_COLOR` turns it off, `FORCE_COLOR` on; otherwise a terminal decides."""
        if os.environ.get("NO_COLOR"):
            return cls(colour=False)
        forced = bool(os.environ.get("FORCE_COLOR"))
        return cls(colour=forced or (stream.isatty() and os.environ.get("TERM") != "dumb"))

    def bold(self, text: str) -> str:
        return self._paint("1", text)

    def dim(self, text: str) -> str:
        return self._paint("2", text)

    def good(self, text: str) -> str:
        return self._paint("32", text)

    def bad(self, text: str) -> str:
        return self._paint("31", text)

    def warn(self, text: str) -> str:
        return self._paint("33", text)

    def accent(self, text: str) -> str:
        return self._paint("36", text)

    def diff(self, line: str) -> str:
        if line.startswith("+"):
            return self.good(line)
        if line.startswith("-"):
            return self.bad(line)
        return self.accent(line) if line.startswith("@@") else self.dim(line)

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour and text else text


def diff_lines(diff: str) -> list[str]:
    """A diff without its file header: the file is named already."""
    return [line for line in diff.splitlines() if not line.startswith(("--- ", "+++ ", "diff ", "index "))]
