"""Indentation of new lines: from the indentation a model used to the one the file has.

Lines that both texts share say how the two relate. A level that no shared line has is derived from the nearest one,
in whole steps. Where that leaves a doubt there is no answer, and the edit is refused.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise

SAMPLED_LINES = 5_000


def indentation(line: str) -> str:
    """The whitespace before the first character of a line.

    >>> indentation("    x = 1")
    '    '
    """
    return line[: len(line) - len(line.lstrip())]


def file_step(lines: Sequence[str]) -> str:
    """One level of indentation in a file: a tab, or the most usual number of spaces that a line is deeper.

    >>> file_step(["def f():", "  return 1"])
    '  '
    """
    used = [found for line in lines[:SAMPLED_LINES] if line.strip() and _is_plain(found := indentation(line))]
    if sum(one.startswith("\t") for one in used) > sum(one.startswith(" ") for one in used):
        return "\t"
    deeper = Counter(
        len(below) - len(above)
        for above, below in pairwise(used)
        if "\t" not in above + below and 1 < len(below) - len(above) <= 8
    )
    return " " * (deeper.most_common(1)[0][0] if deeper else 4)


class IndentationMap:
    """Says what an indentation in the model's text is in the file."""

    def __init__(self, pairs: Iterable[tuple[str, str]], texts: Iterable[str], step: str) -> None:
        """`pairs` are of lines that both have: the model's indentation and the file's. `texts` are the model's lines,
        `step` is one level in the file."""
        self._known: dict[str, str] = {}
        clear = True
        for given, there in pairs:
            clear = self._known.setdefault(given, there) == there and clear
        self._same = clear and all(given == there for given, there in self._known.items())
        used = {indentation(line) for line in texts if line.strip()}
        widths = sorted(map(len, used))
        plain = len(set("".join(used))) <= 1 and len(set("".join(self._known.values()) + step)) <= 1
        self._char = step[0]
        self._ratio = self._learned(step, min((b - a for a, b in pairwise(widths)), default=0)) if plain else None
        if not clear:  # one of the model's levels is several of the file's: no line without a partner can be placed
            self._known = {}

    def __getitem__(self, given: str) -> str | None:
        """None: nobody can tell."""
        if self._same:
            return given
        if given in self._known:
            return self._known[given]
        if self._ratio is None or not self._known or not _is_plain(given):
            return None
        if len(self._known) == 1 and len(given) < len(next(iter(self._known))):
            return None  # a line left of everything that is known: shifted, or meant to be there?
        nearest = min(self._known, key=lambda known: abs(len(known) - len(given)))
        width = len(self._known[nearest]) + (len(given) - len(nearest)) * self._ratio
        return self._char * int(width) if width >= 0 and width.denominator == 1 else None

    def _learned(self, step: str, given_step: int) -> Fraction | None:
        """How much deeper the file goes where the model's text goes one character deeper."""
        known = sorted((len(given), len(there)) for given, there in self._known.items())
        found = {Fraction(b[1] - a[1], b[0] - a[0]) for a, b in pairwise(known) if b[0] > a[0]}
        if found:
            ratio = found.pop()
            return ratio if not found and ratio > 0 else None
        if not known or not given_step:
            return None
        given, there = known[0]
        if given * len(step) == there * given_step:  # as many steps in both
            return Fraction(len(step), given_step)
        same_kind = step[0] == " " and all("\t" not in one for one in self._known)
        return Fraction(1) if same_kind and given_step % len(step) == 0 else None


def _is_plain(text: str) -> bool:
    return not text.strip(" \t")
