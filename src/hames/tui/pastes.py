"""Long pasted texts, shown as one label each: `[Pasted 500 lines]`.

The label stands for the text until the prompt is sent. What was pasted is data: nothing in it is read as a command
or as the name of a file.
"""

import re

LONG_LINES = 5
LONG_CHARACTERS = 1000
"""A longer text is shown as a label."""
MOST_KEPT = 50

_LABEL = re.compile(r"\[Pasted [^\]\n]*\]")


class Pastes:
    """Texts by their labels.

    >>> pastes = Pastes()
    >>> label = pastes.add("a\\n" * 500)
    >>> label, pastes.expand(f"see {label}") == "see " + "a\\n" * 500
    ('[Pasted 500 lines]', True)
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add(self, text: str, *, in_use: str = "") -> str:
        """The label for a text, or the text itself when it is short. Labels in `in_use` are not forgotten."""
        if not is_long(text):
            return text
        for label, known in self._texts.items():
            if known == text:
                return label
        lines = len(text.splitlines())
        count = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        label, number = f"[Pasted {count}]", 1
        while label in self._texts:
            number += 1
            label = f"[Pasted {count} #{number}]"
        for old in [old for old in self._texts if old not in in_use][: len(self._texts) + 1 - MOST_KEPT]:
            del self._texts[old]
        self._texts[label] = text
        return label

    def expand(self, text: str) -> str:
        """With every label replaced by its text. A label inside a pasted text stays as it is."""
        return _LABEL.sub(lambda found: self._texts.get(found[0], found[0]), text)

    def fold(self, text: str) -> str:
        """The other way: a prompt that comes back shows what was pasted as labels again."""
        for label, known in self._texts.items():
            text = text.replace(known, label)
        return text

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where labels stand in a line."""
        if not self._texts or "[" not in line:
            return []
        return [found.span() for found in _LABEL.finditer(line) if found[0] in self._texts]


def is_long(text: str) -> bool:
    return len(text.splitlines()) > LONG_LINES or len(text) > LONG_CHARACTERS
