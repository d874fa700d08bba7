"""Output of commands: the colours stay, everything else that commands a terminal goes.

Only SGR sequences (`ESC [ … m`) survive, and of those neither blinking nor hiding. A carriage return starts the line
again, as a progress bar expects.
"""

import re

from rich.ansi import AnsiDecoder
from rich.style import Style
from rich.text import Text

from hames.domain.display import printable

_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;:]*|\][^\x07\x1b\n]{0,4096})?$")
_MARK = "\ue000"
_BARRED = frozenset({"5", "6", "8"})

TAB = 8


class Output:
    """Feed it pieces, take out lines."""

    def __init__(self) -> None:
        self.lines: list[Text] = []
        """The whole lines. The last, unfinished one is in `tail`."""
        self._decoder = AnsiDecoder()
        self._rest = ""

    def feed(self, text: str) -> None:
        whole, newline, self._rest = (self._rest + text).rpartition("\n")
        if newline:
            self.lines += [self._decoded(line) for line in whole.split("\n")]

    @property
    def tail(self) -> Text:
        """What has no line break yet."""
        keep = self._decoder.style
        shown = self._decoded(_UNFINISHED.sub("", self._rest))
        self._decoder.style = keep
        return shown

    def _decoded(self, line: str) -> Text:
        if not self._decoder.style and line.isascii() and line.isprintable():
            return Text(line, end="")  # most lines by far, and a build has a hundred thousand
        text = self._decoder.decode_line(only_colours(line))
        return _without_hiding(text)


def only_colours(line: str) -> str:
    r"""One line with SGR sequences and nothing else beside its text.

    >>> only_colours("\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J 10%\r 90%")
    ' 90%'
    >>> only_colours("\x1b[1;8;31mred\x1b[0m\x1b]0;title\x07")
    '\x1b[1;31mred\x1b[0m'
    """
    line = line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line
    if "\x1b" not in line:
        return printable(line).replace("\n", " ").expandtabs(TAB)
    codes = [_allowed(found[1]) for found in _SGR.finditer(line)]
    # The mark stands for a sequence while everything else is taken out, so it must not be in the text itself.
    plain = printable(_SGR.sub(_MARK, line.replace(_MARK, ""))).replace("\n", " ").expandtabs(TAB)
    pieces = plain.split(_MARK)
    if len(pieces) != len(codes) + 1:
        return plain.replace(_MARK, "")
    return pieces[0] + "".join(f"{code}{piece}" for code, piece in zip(codes, pieces[1:], strict=True))


def _allowed(parameters: str) -> str:
    words = parameters.replace(":", ";").split(";")
    kept: list[str] = []
    while words:
        word = words.pop(0)
        if word.lstrip("0") in ("38", "48"):
            size = {"5": 2, "2": 4}.get(words[0].lstrip("0") if words else "", 0)
            kept += [word, *words[:size]]
            words = words[size:]
        elif word.lstrip("0") not in _BARRED:
            kept.append(word)
    return f"\x1b[{';'.join(kept)}m" if kept else ""


def _without_hiding(text: Text) -> Text:
    """Removes links and concealed text from the styles. `only_colours` lets neither through; this makes sure."""
    for index, span in enumerate(text.spans):
        if isinstance(span.style, Style) and (span.style.link or span.style.conceal):
            text.spans[index] = span._replace(style=Style(color=span.style.color, bgcolor=span.style.bgcolor))
    return text
