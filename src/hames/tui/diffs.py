"""A unified diff as people read it: line numbers, colours, no file header."""

import re

from rich.style import Style
from rich.text import Text

from hames.domain.display import visible
from hames.tui.lines import filled, line, wrapped
from hames.tui.palette import Palette

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
HEADERS = ("--- ", "+++ ", "diff ", "index ", "new file mode", "deleted file mode")


def count_changes(diff: str) -> tuple[int, int]:
    """The number of added and removed lines."""
    rows = _body(diff)
    return sum(row.startswith("+") for row in rows), sum(row.startswith("-") for row in rows)


def diff_lines(diff: str, width: int, palette: Palette) -> list[Text]:
    made: list[Text] = []
    old = new = 0
    for row in _body(diff):
        if found := _HUNK.match(row):
            old, new = int(found[1]), int(found[2])
            if made:
                made.append(line(("   ⋮", palette.faint)))
            continue
        mark, text = row[:1], _visible_row(row[1:])
        if mark == "+":
            made += _rows(new, ("+", text), palette.added, width, palette)
            new += 1
        elif mark == "-":
            made += _rows(old, ("-", text), palette.removed, width, palette)
            old += 1
        elif mark == "\\":
            made.append(line((f"     {visible(row)}", palette.faint)))
        else:
            made += _rows(new, (" ", text), palette.quiet, width, palette)
            old, new = old + 1, new + 1
    return made


def _visible_row(row: str) -> str:
    """A person decides on it, so nothing in it is hidden; indentation stays what it looks like."""
    row = row.removesuffix("\r").expandtabs(4)
    code = row.lstrip(" ")
    return " " * (len(row) - len(code)) + visible(code)


def _body(diff: str) -> list[str]:
    """Without the header, which is everything before the first hunk: a removed line may itself begin with `--`."""
    rows = diff.split("\n")
    if rows and rows[-1] == "":
        rows.pop()
    start = next((number for number, row in enumerate(rows) if row.startswith("@@")), None)
    if start is not None:
        return rows[start:]
    return [row for row in rows if not row.startswith(HEADERS)]


def _rows(number: int, row: tuple[str, str], style: Style, width: int, palette: Palette) -> list[Text]:
    mark, text = row
    margin = f"{number:>4} " if number else "     "
    made: list[Text] = []
    for index, part in enumerate(wrapped(Text(text), max(8, width - 7))):
        shown = line((" " * len(margin) if index else margin, palette.faint), (f"{mark if not index else ' '} ", style))
        shown.append_text(Text(part.plain, style))
        made.append(filled(shown, width, Style(bgcolor=style.bgcolor)) if style.bgcolor else shown)
    return made
