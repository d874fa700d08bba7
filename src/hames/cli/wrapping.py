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


class WordWrap:
    """Breaks text that arrives in pieces between words, in lines of `width` columns; 0: leaves it as it is.

    >>> wrap = WordWrap(20)
    >>> print(wrap.feed("the share of the su") + wrap.feed("m is rounded") + wrap.flush())
    the share of the sum
    is rounded
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self._spaces = ""
        """Between the last word and the next one: not written if the line is broken there."""
        self._word = ""

    def feed(self, text: str) -> str:
        if not self._width:
            return text
        written: list[str] = []
        for character in text:
            if character == "\n":
                written.append(self.flush() + "\n")
                self._column = 0
            elif character.isspace():
                written.append(self._end_word())
                self._spaces += character
            else:
                self._word += character
        return "".join(written)

    def flush(self) -> str:
        """What is held back because more of its word could come."""
        rest = self._end_word() + self._spaces
        self._spaces = ""
        return rest

    def _end_word(self) -> str:
        if not self._word:
            return ""
        word, spaces = self._word, self._spaces
        self._word = self._spaces = ""
        if self._column and self._column + len(spaces) + len(word) > self._width:
            self._column = len(word)
            return f"\n{word}"
        self._column += len(spaces) + len(word)
        return spaces + word


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
