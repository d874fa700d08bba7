"""Lines of styled text: wrapped, indented, cut. Everything a block shows ends as a list of these."""

import io

from rich.console import Console, RenderableType
from rich.style import Style
from rich.text import Text

CONSOLE = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor", legacy_windows=False)
"""Only measures and wraps; nothing is ever written to it."""


def line(*parts: tuple[str, Style] | Text) -> Text:
    made = Text(no_wrap=True, end="")
    for part in parts:
        if isinstance(part, Text):
            made.append_text(part)
        else:
            made.append(part[0], part[1])
    return made


def wrapped(text: Text, width: int) -> list[Text]:
    """At words where possible, at least one line."""
    if len(text.plain) <= width and text.plain.isascii() and "\n" not in text.plain:
        return [text]
    return list(text.wrap(CONSOLE, max(1, width), overflow="fold")) or [Text()]


def paragraphs(text: str, style: Style, width: int) -> list[Text]:
    return [part for row in text.split("\n") for part in wrapped(Text(row.expandtabs(4), style), width)]


def indented(lines: list[Text], first: Text, rest: Text | None = None) -> list[Text]:
    """`first` before the first line, `rest` (blanks of the same width by default) before the others."""
    other = Text(" " * first.cell_len) if rest is None else rest
    return [line(other if number else first, row) for number, row in enumerate(lines)]


def filled(row: Text, width: int, style: Style) -> Text:
    """Coloured to the right edge."""
    missing = width - row.cell_len
    made = Text(end="", no_wrap=True, style=style)
    made.append_text(row)
    if missing > 0:
        made.append(" " * missing)
    return made


def cut(text: str, width: int) -> str:
    """One line of at most this many cells."""
    flat = " ".join(text.split())
    row = Text(flat)
    if row.cell_len <= width:
        return flat
    row.truncate(max(1, width), overflow="ellipsis")
    return row.plain


def rendered(renderable: RenderableType, width: int) -> list[Text]:
    """What rich draws, as lines."""
    rows = CONSOLE.render_lines(renderable, CONSOLE.options.update(width=width), pad=False)
    return [Text.assemble(*((part.text, part.style or "") for part in row), end="") for row in rows]
