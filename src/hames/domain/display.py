"""Makes untrusted text safe to show: escape sequences, control characters and invisible characters.

Two needs, two functions. `visible` is for text a person judges (a command before it runs): everything that moves,
hides or reorders is written out, so that what is seen is what is there. `printable` is for text a person only
reads on a terminal (output, file names, titles): sequences that command the terminal are taken out.
"""

import unicodedata

from hames.deferred import pattern

LONGEST_WORD = 30
"""A longer one, such as a path, is cut in the middle."""
_LONGEST_SEQUENCE = 4096
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
_SPACES = pattern(r" {17,}")
# Letters to Unicode, blanks to the eye.
_BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")

# OSC, DCS, SOS, PM and APC run to a terminator; a terminal that misses it swallows the rest of the line.
_STRINGS = pattern(r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c|(?=\n)|$|(?=\x1b))")
_CONTROLS = pattern(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?")
_ESCAPES = pattern(r"\x1b[ -/]*[0-~]?")
_UNFINISHED = pattern(
    r"(?:(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*\x1b?|(?:\x1b\[|\x9b)[0-?]*[ -/]*|\x1b[ -/]*|\r)\Z"
)
_BIDI = pattern("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""The same text with nothing hidden in it. Every hidden character is written as an escape.

    >>> visible("ls\x1b[2K\rrm -rf /")
    'ls\\x1b[2K\\rrm -rf /'
    >>> visible("echo \u202egnp.exe")
    'echo \\u202egnp.exe'
    >>> visible("ls" + " " * 40 + "; rm")
    'ls⟨40 spaces⟩; rm'
    """
    shown = _SPACES.sub(lambda run: f"⟨{len(run[0])} spaces⟩", text)
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(_written(character) if _is_hidden(character) else character for character in shown)


def one_line(text: str, chars: int) -> str:
    r"""`visible`, its lines joined and cut to so many characters.

    >>> one_line("not found:\n  a.txt", 12)
    'not found: …'
    """
    return shortened(visible(" ".join(text.split())), chars)


def shortened(text: str, chars: int) -> str:
    r"""One line of at most so many characters, cut between words where there is one that is not too long.

    >>> shortened("cannot connect to\nthe database", 24)
    'cannot connect to the …'
    >>> shortened("/a/long/path/without/blanks", 12)
    '/a/long/pat…'
    """
    line = " ".join(text.split())
    if len(line) <= chars:
        return line
    kept = line[: chars - 1]
    words, blank, rest = kept.rpartition(" ")
    between = blank and len(rest) < LONGEST_WORD and not line[chars - 1].isspace()
    return f"{words} …" if between and len(words) < chars - 1 else f"{kept}…"


def described(text: str) -> str:
    r"""`visible`, with the length in front when it is more than one short line.

    >>> described("ls")
    'ls'
    >>> described("a" * 300)[:21]
    '[300 characters] aaaa'
    """
    shown = visible(text)
    return shown if len(text) <= 200 and "\n" not in text else f"[{len(text)} characters] {shown}"


def printable(text: str) -> str:
    r"""The text without what would command a terminal. Line breaks and tabs stay; a lone carriage return becomes one.

    >>> printable("a\x1b]52;c;aGk=\x07b\x1b[31mred\x1b[0m\u009b2Jc")
    'abredc'
    >>> printable("50%\r100%\r\ndone")
    '50%\n100%\ndone'
    """
    if text.isascii() and text.isprintable():
        return text
    text = _STRINGS.sub("", text)
    text = _CONTROLS.sub("", text)
    text = _ESCAPES.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _BIDI.sub(lambda found: _written(found[0]), text)
    return "".join(character for character in text if character in "\n\t" or unicodedata.category(character) != "Cc")


class PrintableStream:
    r"""`printable` for text that comes in pieces: a sequence may be cut anywhere.

    >>> pieces = PrintableStream()
    >>> [pieces.feed(piece) for piece in ("Look: \x1b]0;ti", "tle\x07ok\x1b", "[31m red\r", "\n")]
    ['Look: ', 'ok', ' red', '\n']
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        text, self._held = self._held + text, ""
        if (cut := _UNFINISHED.search(text)) is not None:
            # Two characters say which sequence it is, and the rest of a long one is not shown anyway.
            self._held = cut[0] if len(cut[0]) < _LONGEST_SEQUENCE else cut[0][:2]
            text = text[: cut.start()]
        return printable(text)


def _is_hidden(character: str) -> bool:
    if character in _BLANKS:
        return True
    category = unicodedata.category(character)
    return category in _HIDDEN or (category == "Zs" and character != " ") or _is_variation(character)


def _is_variation(character: str) -> bool:
    """Variation selectors are marks that show nothing and can carry a hidden message."""
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def _written(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def age_words(asked_at_ms: int, now_ms: int) -> str:
    """How long ago a question was asked, to be added to it; empty for the first minute.

    >>> age_words(1, 3 * 3_600_000 + 5), age_words(1, 90_000), age_words(1, 59_000), age_words(0, 90_000)
    (' (asked 3 h ago)', ' (asked 1 min ago)', '', '')
    """
    if not asked_at_ms:  # nobody says when
        return ""
    minutes = (now_ms - asked_at_ms) // 60_000
    for size, unit in ((1440, "days"), (60, "h"), (1, "min")):
        if minutes >= size * (2 if unit == "days" else 1):
            return f" (asked {minutes // size} {unit} ago)"
    return ""
