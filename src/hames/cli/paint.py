"""ANSI colours for terminals that have them, and plain text for everything else."""

import os
from functools import partialmethod
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

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour and text else text

    bold = partialmethod(_paint, "1")
    dim = partialmethod(_paint, "2")
    bad = partialmethod(_paint, "31")
    good = partialmethod(_paint, "32")
    warn = partialmethod(_paint, "33")
    accent = partialmethod(_paint, "36")

    def diff(self, line: str) -> str:
        if line.startswith("+"):
            return self.good(line)
        if line.startswith("-"):
            return self.bad(line)
        return self.accent(line) if line.startswith("@@") else self.dim(line)


def diff_lines(diff: str) -> list[str]:
    """A diff without its file header: the file is named already."""
    return [line for line in diff.splitlines() if not line.startswith(("--- ", "+++ ", "diff ", "index "))]
