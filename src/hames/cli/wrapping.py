"""Sentences on a terminal, broken between words. Without a terminal text stays as it is: programs read it by line."""

import sys
from typing import TextIO

from hames.deferred import pattern

LEAST_COLUMNS = 20
_TWO_COLUMNS = pattern(r"(\s*\S.*?\s{2,})(?=\S)")


def columns(stream: TextIO) -> int:
    """How wide the terminal is; 0 where there is none."""
    if not stream.isatty():
        return 0
    import shutil  # slow to import, and programs never need it

    return max(LEAST_COLUMNS, shutil.get_terminal_size().columns)


def fold(text: str, width: int, *, indent: int = 0) -> str:
    """`text` in lines of `width` columns. It begins at column `indent`, and so does every further line.

    >>> print("key: " + fold("a sentence that is too long for it", 30, indent=5))
    key: a sentence that is too
         long for it
    """
    if not width:
        return text
    import textwrap  # slow to import, and programs never need it

    room = max(LEAST_COLUMNS, width - indent)
    lines = [
        line
        for paragraph in text.split("\n")
        for line in textwrap.wrap(paragraph, room, break_long_words=False, break_on_hyphens=False) or [""]
    ]
    return ("\n" + " " * indent).join(lines)


def fold_help(text: str, width: int) -> str:
    """A command's description: paragraphs are filled, examples keep their columns.

    >>> print(fold_help("One two three\\nfour five.\\n\\n  hames run     begin something that ends soon", 40))
    One two three four five.
    <BLANKLINE>
      hames run     begin something that
                    ends soon
    """
    if not width:
        return text
    blocks: list[str] = []
    for line in text.strip("\n").split("\n"):
        if line[:1] in ("", " ") or not blocks or blocks[-1][:1] in ("", " "):
            blocks.append(line)
        else:
            blocks[-1] += f" {line}"
    return "\n".join(_folded_line(block, width) for block in blocks)


def _folded_line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    found = _TWO_COLUMNS.match(line)
    if found and len(found[1]) <= width // 2 + 10:
        return found[1] + fold(line[len(found[1]) :], width, indent=len(found[1]))
    start = len(line) - len(line.lstrip())
    return " " * start + fold(line.lstrip(), width, indent=start + (4 if start else 0))


def say(text: str, *, stream: TextIO | None = None) -> None:
    """Prints a sentence."""
    where = stream or sys.stdout
    print(fold(text, columns(where)), file=where, flush=True)
