"""What a language server says of a file: its errors, and which of them are new."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hames.domain.json import Json

MAX_ERRORS = 500
"""Of one file. A server may report any number."""
MESSAGE_CHARS = 300
_ERROR = 1


class FileError(NamedTuple):
    line: int
    """From 1."""
    text: str
    """That line, so that the error is known again when lines above it come and go."""
    message: str


def read_errors(diagnostics: Json, text: str) -> list[FileError]:
    """The errors among a server's diagnostics of a file with this text. What is no diagnostic is left out."""
    lines = text.split("\n")
    found: list[FileError] = []
    for item in diagnostics if isinstance(diagnostics, list) else ():
        if not isinstance(item, dict) or item.get("severity", _ERROR) != _ERROR:
            continue
        try:
            line = item["range"]["start"]["line"]
        except (KeyError, TypeError, IndexError):
            continue
        message = item.get("message")
        if not isinstance(line, int) or isinstance(line, bool) or line < 0 or not isinstance(message, str):
            continue
        shown = lines[line].strip() if line < len(lines) else ""
        found.append(FileError(line + 1, shown, _plain(message)))
        if len(found) == MAX_ERRORS:
            break
    return sorted(found)


def _plain(message: str) -> str:
    """One printable line."""
    words = " ".join(message[: 4 * MESSAGE_CHARS].split())
    shown = "".join(letter if letter.isprintable() else "�" for letter in words)
    return shown if len(shown) <= MESSAGE_CHARS else f"{shown[:MESSAGE_CHARS]}…"


def new_errors(before: Iterable[FileError], after: Sequence[FileError]) -> list[FileError]:
    """Those of `after` that were not there before, wherever they are by now.

    >>> old = FileError(1, "x = y", "'y' is not defined")
    >>> moved, added = old._replace(line=7), old._replace(text="z = y")
    >>> new_errors([old], [moved]), new_errors([old], [moved, added]) == [added]
    ([], True)
    """
    known = list(before)
    on_lines = Counter((error.text, error.message) for error in known)
    unmatched: list[FileError] = []
    for error in after:
        if on_lines[error.text, error.message] > 0:
            on_lines[error.text, error.message] -= 1
        else:
            unmatched.append(error)
    # A line that had an error and was edited still has it: nothing new.
    left = Counter[str]()
    for (_, message), times in on_lines.items():
        left[message] += times
    fresh: list[FileError] = []
    for error in unmatched:
        if left[error.message] > 0:
            left[error.message] -= 1
        else:
            fresh.append(error)
    return fresh
