"""Hunks: what a patch says about one place of a file, and finding that place.

The lines of a hunk must be in the file exactly as they are; there is no fuzz. Only the
position may differ from what is stated: then the lines must be in one place only, after the hunk before.
"""

from typing import Literal

from hames.domain.value import Value
from hames.ports import ToolFailed

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


def apply_hunks(body: str, hunks: tuple[Hunk, ...], name: str) -> str:
    """`body` after all of them. Raises `ToolFailed` that says which hunk fits nowhere, or in several places."""
    lines = body.split("\n")
    newline = body == "" or lines[-1] == ""
    if newline:
        lines.pop()
    out: list[str] = []
    done = 0
    for number, hunk in enumerate(hunks, 1):
        where = _place(lines, hunk, done, f"hunk {number} of {name!r}")
        out += lines[done:where] + hunk.new
        done = where + len(hunk.old)
        if hunk.newline is not None:
            newline = hunk.newline
    out += lines[done:]
    return "\n".join(out) + ("\n" if newline and out else "")


def _place(lines: list[str], hunk: Hunk, floor: int, what: str) -> int:
    old = hunk.old
    for anchor in hunk.anchors:
        found = next((i for i in range(floor, len(lines)) if lines[i].strip() == anchor.strip()), -1)
        if found < 0:
            raise ToolFailed(f"{what}: the line {anchor.strip()!r} is not there")
        # The anchor may be the first line of the hunk as well.
        floor = found if old and old[0].strip() == anchor.strip() else found + 1
    if not old:
        return _insertion(lines, hunk, floor, what)
    fits = [i for i in range(floor, len(lines) - len(old) + 1) if lines[i] == old[0] and lines[i : i + len(old)] == old]
    if hunk.at_end:
        fits = [i for i in fits if i + len(old) == len(lines)]
    if not fits:
        raise ToolFailed(f"{what} does not fit: {_difference(lines, old, floor, hunk.at)}")
    if hunk.at is not None and hunk.at - 1 in fits:
        return hunk.at - 1
    if len(fits) > 1 and not hunk.anchors:
        places = ", ".join(str(i + 1) for i in fits[:SHOWN_PLACES]) + (", …" if len(fits) > SHOWN_PLACES else "")
        raise ToolFailed(f"{what} fits at lines {places}; give more lines around the change")
    return fits[0]


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
