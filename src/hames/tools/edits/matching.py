"""Finding the text a model meant, where it differs from the file in whitespace, indentation or quotes alone.

The place must be unique. What the model left alone stays as the file has it, byte for byte; what it changed is put
in with the file's indentation, spacing and quotes. Where there is a doubt there is no match: an edit that is refused
costs one more call, and one that lands wrongly costs the file.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

from hames.deferred import pattern
from hames.tools.edits.indentation import IndentationMap, file_step, indentation

MAX_BODY_CHARS = 400_000
MAX_PLACES = 100
MAX_COMPARED = 5_000_000
MAX_PAIRS = 1_000_000
"""Lines of the old text times lines of the new one: comparing takes that long."""

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    }
)
_QUOTES = str.maketrans({"'": '"', "`": '"'})
_TOKEN = pattern(r"\w+|[^\w\s]")
_PIECE = pattern(r"(\s*)(\w+|[^\w\s])")
_END = "\x1f"
_NUMBERED = pattern(r"\s*(\d{1,7})(?:\t|→|\s?\|\s?|: )")


class Edit(NamedTuple):
    """Replace `body[start:end]` by `text`."""

    start: int
    end: int
    text: str


def without_line_numbers(text: str) -> str | None:
    """The text without the line numbers that `read` shows; None when it has none.

    >>> without_line_numbers("    12\\tdef f():\\n    13\\t    pass")
    'def f():\\n    pass'
    """
    lines, numbers = text.split("\n"), list[int]()
    for place, line in enumerate(lines):
        found = _NUMBERED.match(line)
        if found:
            numbers.append(int(found[1]))
            lines[place] = line[found.end() :]
        elif line.strip():
            return None
    ascending = all(after == before + 1 for before, after in pairwise(numbers))
    return "\n".join(lines) if numbers and ascending else None


def find_edits(body: str, old: str, new: str) -> list[Edit]:
    """One for each place that `old` can mean, from beginning to end; none where it is not clear what to put there."""
    if len(body) > MAX_BODY_CHARS:
        return []
    trimmed = _Trimmed.of(old, new)
    if trimmed is None or len(trimmed.old) * max(1, len(trimmed.new)) > MAX_PAIRS:
        return []
    file = _File(body)
    for key in (_same_spacing, _same_tokens, _same_but_quotes):
        if places := file.places(trimmed, key, partly=key in (_same_tokens, _same_but_quotes)):
            if len(places) > MAX_PLACES:
                return []
            made = [file.edit(place, trimmed, key) for place in places]
            return [] if any(one is None for one in made) else [one for one in made if one is not None]
    return []


def _same_spacing(line: str) -> str:
    return line.strip().translate(_PLAIN)


def _same_tokens(line: str) -> str:
    return "".join(_END + token for token in _TOKEN.findall(line.translate(_PLAIN))) + _END


def _same_but_quotes(line: str) -> str:
    return _same_tokens(line).translate(_QUOTES)


_Key = Callable[[str], str]


class _Trimmed(NamedTuple):
    """Both texts from their first line that is not blank to their last."""

    old: list[str]
    new: list[str]
    lines_before: tuple[int, int]
    """Line ends in front, of the old text and of the new one."""
    lines_after: tuple[int, int]

    @classmethod
    def of(cls, old: str, new: str) -> "_Trimmed | None":
        olds, news = old.split("\n"), new.split("\n")
        if not old.strip():
            return None
        before, after = _blank_ends(olds)
        if not new.strip():
            if olds[-1].strip() == "" and olds[-1] != "":
                return None
            count = len(news) - 1
            return cls(olds[before : len(olds) - after], [], (before, 0), (after, count))
        new_before, new_after = _blank_ends(news)
        if after and new_after and olds[-1] != news[-1]:
            return None  # the indentation of the line behind is to change
        if (after and not new_after and olds[-1]) or (new_after and not after and news[-1]):
            return None
        return cls(
            olds[before : len(olds) - after],
            news[new_before : len(news) - new_after],
            (before, new_before),
            (after, new_after),
        )


def _blank_ends(lines: list[str]) -> tuple[int, int]:
    there = [number for number, line in enumerate(lines) if line.strip()]
    return there[0], len(lines) - 1 - there[-1]


class _Place(NamedTuple):
    """The file's lines for the lines of the old text that are not blank; where the first and the last one begin and
    end, when the text is only a part of them."""

    lines: tuple[int, ...]
    start: int | None = None
    end: int | None = None


class _File:
    def __init__(self, body: str) -> None:
        self._lines = body.split("\n")
        self._filled = [number for number, line in enumerate(self._lines) if line.strip()]
        self._step = file_step(self._lines)
        self._offsets = [0]
        for line in self._lines:
            self._offsets.append(self._offsets[-1] + len(line) + 1)

    def places(self, text: _Trimmed, key: _Key, *, partly: bool) -> list[_Place]:
        wanted = [key(line) for line in text.old if line.strip()]
        if partly and not any(char.isalnum() for line in wanted for char in line):
            return []
        keys = [key(self._lines[number]) for number in self._filled]
        if keys.count(wanted[0]) * len(wanted) > MAX_COMPARED:
            return []
        at_start, at_end = partly and not text.lines_before[0], partly and not text.lines_after[0]
        found: list[_Place] = []
        for first in range(len(keys) - len(wanted) + 1):
            if len(found) > MAX_PLACES:
                break
            last = first + len(wanted) - 1
            numbers = tuple(self._filled[first : last + 1])
            if first == last:
                if keys[first] == wanted[0]:
                    found.append(_Place(numbers))
                elif at_start and at_end:
                    found += self._parts(numbers[0], keys[first], wanted[0])
                elif at_start and keys[first].endswith(wanted[0]):
                    found.append(_Place(numbers, start=self._token(numbers[0], -wanted[0].count(_END) + 1)[0]))
                elif at_end and keys[first].startswith(wanted[0]):
                    found.append(_Place(numbers, end=self._token(numbers[0], wanted[0].count(_END) - 2)[1]))
                continue
            start = end = None
            if keys[first] != wanted[0]:
                if not (at_start and keys[first].endswith(wanted[0])):
                    continue
                start = self._token(numbers[0], -wanted[0].count(_END) + 1)[0]
            if keys[first + 1 : last] != wanted[1:-1]:
                continue
            if keys[last] != wanted[-1]:
                if not (at_end and keys[last].startswith(wanted[-1])):
                    continue
                end = self._token(numbers[-1], wanted[-1].count(_END) - 2)[1]
            found.append(_Place(numbers, start=start, end=end))
        return found

    def _parts(self, number: int, key: str, wanted: str) -> Iterator[_Place]:
        """The text as a part of one line."""
        count, at = wanted.count(_END) - 1, key.find(wanted)
        while at >= 0:
            first = key.count(_END, 0, at)
            yield _Place((number,), start=self._token(number, first)[0], end=self._token(number, first + count - 1)[1])
            at = key.find(wanted, at + 1)

    def _token(self, number: int, index: int) -> tuple[int, int]:
        found = [match.span() for match in _TOKEN.finditer(self._lines[number])]
        return found[index]

    def edit(self, place: _Place, text: _Trimmed, key: _Key) -> Edit | None:
        """None: what to put there is not clear."""
        first, last = place.lines[0], place.lines[-1]
        start = self._offsets[first] + (place.start or 0)
        end = self._offsets[last] + (len(self._lines[last]) if place.end is None else place.end)
        written = _Writer(self._lines, place, text, key, self._step).lines()
        if written is None:
            return None
        before = after = 0
        if text.lines_before[0] != text.lines_before[1]:
            gone, before = text.lines_before
            if not gone or first < gone or any(line.strip() for line in self._lines[first - gone + 1 : first]):
                return None
            start = self._offsets[first - gone + 1] - 1
        if text.lines_after[0] != text.lines_after[1]:
            gone, after = text.lines_after
            if last + gone >= len(self._lines) or any(line.strip() for line in self._lines[last + 1 : last + gone]):
                return None
            end = self._offsets[last + gone] if gone else end
        return Edit(start, end, "\n" * before + "\n".join(written) + "\n" * after)


class _Writer:
    """The lines of the new text as the file would have them."""

    def __init__(self, lines: Sequence[str], place: _Place, text: _Trimmed, key: _Key, step: str) -> None:
        self._text = text
        self._place = place
        self._quotes_differ = key is _same_but_quotes
        self._old = list(text.old)
        self._new = list(text.new)
        self._there = [lines[number] for number in place.lines]
        self._filled = [number for number, line in enumerate(text.old) if line.strip()]
        self._gaps = {
            index: lines[self._place.lines[index] + 1 : self._place.lines[index + 1]]
            for index in range(len(self._filled) - 1)
        }
        if place.end is not None:
            self._there[-1] = self._there[-1][: place.end]
        if place.start is not None:
            self._there[0] = self._there[0][place.start :]
        self._step = step

    def lines(self) -> list[str] | None:
        if not self._new:
            return []
        if not self._same_ends():
            return None
        blocks = SequenceMatcher(
            None, [line.rstrip() for line in self._old], [line.rstrip() for line in self._new], autojunk=False
        ).get_opcodes()
        shown = self._file_lines(blocks)
        if shown is None:
            return None
        partner = {number: index for index, number in enumerate(self._filled)}
        skip = 1 if self._place.start is not None else 0
        known = [
            (indentation(self._old[number]), indentation(self._there[index]))
            for index, number in enumerate(self._filled)
            if index >= skip
        ]
        levels = IndentationMap(known, [*self._old[skip:], *self._new[skip:]], self._step)
        letters = self._letters()
        out: list[str] = []
        for kind, old_from, old_to, new_from, new_to in blocks:
            if kind == "equal":
                out += [line for number in range(old_from, old_to) for line in shown[number]]
                continue
            paired = old_to - old_from == new_to - new_from
            for offset in range(new_to - new_from):
                index = partner.get(old_from + offset) if paired else None
                line = self._written(self._new[new_from + offset], index, levels, letters, first=not out)
                if line is None:
                    return None
                out.append(line)
        return out

    def _same_ends(self) -> bool:
        """A text that begins or ends inside a line leaves the whitespace there alone."""
        if self._place.start is not None:
            if indentation(self._old[0]) != indentation(self._new[0]):
                return False
            self._old[0], self._new[0] = self._old[0].lstrip(), self._new[0].lstrip()
        if self._place.end is not None:
            ends = [line[len(line.rstrip()) :] for line in (self._old[-1], self._new[-1])]
            if ends[0] != ends[1]:
                return False
            self._old[-1], self._new[-1] = self._old[-1].rstrip(), self._new[-1].rstrip()
        return True

    def _file_lines(self, blocks: Sequence[tuple[str, int, int, int, int]]) -> dict[int, list[str]] | None:
        """For each line of the old text what the file has in its place.

        Where the file has more or fewer blank lines, the lines around them must both stay."""
        shown = {number: [self._there[index]] for index, number in enumerate(self._filled)}
        for index, gap in self._gaps.items():
            above, below = self._filled[index], self._filled[index + 1]
            if len(gap) == below - above - 1:
                shown |= {above + 1 + number: [line] for number, line in enumerate(gap)}
                continue
            if not any(kind == "equal" and a <= above and below < b for kind, a, b, _, _ in blocks):
                return None
            shown[above] = [*shown[above], *gap]
            shown |= {number: [] for number in range(above + 1, below)}
        return shown

    def _letters(self) -> dict[str, str]:
        """Typographic characters that the model wrote for plain ones, where that is clear. Never the other way round:
        plain quotes in new text may be code."""
        found: dict[str, set[str]] = {}
        for index, number in enumerate(self._filled):
            ours, theirs = _TOKEN.findall(self._old[number]), _TOKEN.findall(self._there[index])
            for given, there in zip(ours, theirs, strict=False):
                if given.translate(_PLAIN) == there.translate(_PLAIN):
                    found.setdefault(given, set()).add(there)
        clear = {given: next(iter(there)) for given, there in found.items() if len(there) == 1}
        return {given: there for given, there in clear.items() if given != there and there.isascii()}

    def _written(
        self, line: str, index: int | None, levels: IndentationMap, letters: dict[str, str], *, first: bool
    ) -> str | None:
        if not line.strip():
            return ""
        given = indentation(line)
        if first and self._place.start is not None:
            indent: str | None = ""
        elif index is not None and indentation(self._old[self._filled[index]]) == given:
            indent = indentation(self._there[index])
        else:
            indent = levels[given]
        if indent is None:
            return None
        content = line[len(given) :]
        if index is not None:
            content = self._merged(self._old[self._filled[index]], self._there[index], content, letters)
        elif letters:
            content = _TOKEN.sub(lambda token: letters.get(token[0], token[0]), content)
        return None if content is None else indent + content

    def _merged(self, old: str, there: str, new: str, letters: dict[str, str]) -> str | None:
        """The changed line with the file's own spacing and quotes where the model did not change them."""
        old_text, there_text = old.strip(), there.strip()
        if old_text == there_text:
            return new
        ours, theirs, wanted = (_pieces(text) for text in (old_text, there_text, new))
        if len(ours) != len(theirs):
            return None
        out: list[str] = []
        matcher = SequenceMatcher(None, [piece[1] for piece in ours], [piece[1] for piece in wanted], autojunk=False)
        blocks = matcher.get_opcodes()
        if self._quotes_differ and not _keeps_quotes(blocks, ours, wanted):
            return new  # a mix of both kinds could end a string too early
        for kind, old_from, _, new_from, new_to in blocks:
            for offset in range(new_to - new_from):
                space, token = wanted[new_from + offset]
                if kind == "equal":
                    before, token = theirs[old_from + offset]
                    kept = offset > 0 or old_from == 0 or new_from == 0 or _same_left(ours, wanted, old_from, new_from)
                    space = before if kept and ours[old_from + offset][0] == space else space
                else:
                    token = letters.get(token, token)
                out += [space, token]
        return "".join(out).lstrip() + new[len(new.rstrip()) :]


def _pieces(text: str) -> list[tuple[str, str]]:
    """Each word or sign with the whitespace in front of it."""
    return [(found[1], found[2]) for found in _PIECE.finditer(text)]


def _same_left(
    ours: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str]], old_from: int, new_from: int
) -> bool:
    """Whether what stands before a kept token has the same kind of edge, so that the file's spacing fits there."""
    left, now = ours[old_from - 1][1], wanted[new_from - 1][1]
    return left[-1].isalnum() == now[-1].isalnum()


def _keeps_quotes(
    blocks: Sequence[tuple[str, int, int, int, int]], ours: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str]]
) -> bool:
    """Whether no quote is new, and those that go are pairs."""
    for kind, old_from, old_to, new_from, new_to in blocks:
        if kind != "equal" and (_quotes(ours[old_from:old_to]) % 2 or _quotes(wanted[new_from:new_to])):
            return False
    return True


def _quotes(pieces: Sequence[tuple[str, str]]) -> int:
    return sum(token in "'\"`" for _, token in pieces)
