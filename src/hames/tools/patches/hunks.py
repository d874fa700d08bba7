"""Hunks: what a patch says about one place of a file, and finding that place.

The position may differ from what is stated: then the lines must be in one place only, after the hunk before. Where
they are not there exactly, other whitespace, indentation or quotes are forgiven in the same way as for edits.
"""

from typing import Literal, NamedTuple

from hames.domain.value import Value
from hames.ports import ToolFailed
from hames.tools.edits.matching import find_edits

SHOWN_PLACES = 5

Sign = Literal[" ", "-", "+"]


class Hunk(Value):
    """`at`: the stated first line, from 1, or for pure insertions the line to insert after. `anchors`: lines to
    look for first, in order. `at_end`: it ends where the file ends. `newline`: whether the new text ends with
    one, where the patch says so."""

    lines: tuple[tuple[Sign, str], ...]
    at: int | None = None
    anchors: tuple[str, ...] = ()
    at_end: bool = False
    newline: bool | None = None

    @property
    def old(self) -> list[str]:
        return [line for sign, line in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [line for sign, line in self.lines if sign != "-"]


class FilePatch(Value):
    """What a patch does to one file. `mode` is git's: 0o755 or 0o644."""

    path: str
    kind: Literal["add", "modify", "delete"]
    hunks: tuple[Hunk, ...] = ()
    move_to: str = ""
    mode: int | None = None


class Patched(NamedTuple):
    body: str
    forgiven: bool
    """Some lines were there only with other whitespace, indentation or quotes."""


def apply_hunks(body: str, hunks: tuple[Hunk, ...], name: str) -> Patched:
    """`body` after all of them. Raises `ToolFailed` that says which hunk fits nowhere, or in several places."""
    lines = body.split("\n")
    newline = body == "" or lines[-1] == ""
    if newline:
        lines.pop()
    out: list[str] = []
    done, forgiven = 0, False
    for number, hunk in enumerate(hunks, 1):
        what = f"hunk {number} of {name!r}"
        floor = _after_anchors(lines, hunk, done, what)
        where = _place(lines, hunk, floor, what)
        if where is not None:
            start, end, new = where, where + len(hunk.old), hunk.new
        else:
            start, end, new = _near(lines, hunk, floor, what)
            forgiven = True
        out += lines[done:start] + new
        done = end
        if hunk.newline is not None:
            newline = hunk.newline
    out += lines[done:]
    return Patched("\n".join(out) + ("\n" if newline and out else ""), forgiven)


def _after_anchors(lines: list[str], hunk: Hunk, floor: int, what: str) -> int:
    """The first line that the hunk can begin at."""
    for anchor in hunk.anchors:
        wanted = anchor.strip()
        found = next((i for i in range(floor, len(lines)) if lines[i].strip() == wanted), -1)
        if found < 0:
            begins = [i for i in range(floor, len(lines)) if lines[i].strip().startswith(wanted)]
            found = begins[0] if len(begins) == 1 else -1
        if found < 0:
            raise ToolFailed(f"{what}: the line {wanted!r} is not there")
        # The anchor may be the first line of the hunk as well.
        floor = found if hunk.old and hunk.old[0].strip() == wanted else found + 1
    return floor


def _place(lines: list[str], hunk: Hunk, floor: int, what: str) -> int | None:
    """None: the lines are not there as they are."""
    old = hunk.old
    if not old:
        return _insertion(lines, hunk, floor, what)
    fits = [i for i in range(floor, len(lines) - len(old) + 1) if lines[i] == old[0] and lines[i : i + len(old)] == old]
    if hunk.at_end:
        fits = [i for i in fits if i + len(old) == len(lines)]
    if not fits:
        return None
    if hunk.at is not None and hunk.at - 1 in fits:
        return hunk.at - 1
    if len(fits) > 1 and not hunk.anchors:
        raise ToolFailed(f"{what} fits at lines {_listed(fits)}; give more lines around the change")
    return fits[0]


def _near(lines: list[str], hunk: Hunk, floor: int, what: str) -> tuple[int, int, list[str]]:
    """The lines that the hunk means, and what to put in their place. Raises `ToolFailed`."""
    body = "\n".join(lines[floor:])
    places = [
        (floor + body.count("\n", 0, edit.start), floor + body.count("\n", 0, edit.end) + 1, edit.text.split("\n"))
        for edit in find_edits(body, "\n".join(hunk.old), "\n".join(hunk.new))
        if body[edit.start - 1 : edit.start] in ("", "\n") and body[edit.end : edit.end + 1] in ("", "\n")
    ]
    if not places or not hunk.new:
        raise ToolFailed(f"{what} does not fit: {_difference(lines, hunk.old, floor, hunk.at)}")
    if len(places) > 1:
        starts = _listed([start for start, _, _ in places])
        raise ToolFailed(f"{what} fits at lines {starts}; give more lines around the change")
    return places[0]


def _listed(places: list[int]) -> str:
    return ", ".join(str(i + 1) for i in places[:SHOWN_PLACES]) + (", …" if len(places) > SHOWN_PLACES else "")


def _insertion(lines: list[str], hunk: Hunk, floor: int, what: str) -> int:
    where = hunk.at if hunk.at is not None else floor if hunk.anchors else len(lines)
    if not floor <= where <= len(lines):
        raise ToolFailed(f"{what} inserts after line {where}, which is not there")
    return where


def _difference(lines: list[str], old: list[str], floor: int, at: int | None) -> str:
    """The longest beginning of the hunk that is there, and what comes instead of the next line."""
    best, where = 0, (at or 1) - 1
    for start in range(floor, len(lines)):
        count = 0
        while count < len(old) and start + count < len(lines) and lines[start + count] == old[count]:
            count += 1
        if count > best:
            best, where = count, start
    if where + best >= len(lines):
        return f"the file ends at line {len(lines)}, before {old[best]!r}"
    return f"line {where + best + 1} is {lines[where + best]!r}, not {old[best]!r}"
