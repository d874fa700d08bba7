"""Reads a command line as bash would, as long as it is plain: words, quotes, `&&`, `||`, `;` and `|`.

It reads a small part of the shell's language and raises `Doubt` for the rest, so it needs no full grammar. Each
character is looked at once: no input makes it slow. That it reads the same words as bash is tested with bash.
"""

import re
import unicodedata
from typing import Literal, NoReturn

from hames.domain.value import Value
from hames.sandbox.trust.commands.doubt import Doubt

MAX_BYTES = 16 * 1024
MAX_COMMANDS = 20

Joint = Literal["", "&&", "||", ";", "|"]

_BARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./,:+@%=")
"""What stands for itself outside quotes. Letters beyond ASCII do, too."""
_SPECIAL = frozenset("^~!{}#")
"""Stands for itself inside a word, and means something else at its beginning or in the wrong company."""
_ESCAPABLE = frozenset("()!*?.[]\\ -+^/@%,:=")
"""What may follow a backslash outside quotes and is then itself."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_VARIABLE = re.compile(r"\$(?:\w+|\{[^}]*\}?|[@*#$!-])?")
_TO_NULL = re.compile(r" *(/dev/null)(?=[ ;|&]|$)")
_TO_STREAM = re.compile(r"([12])(?=[ ;|&]|$)")
_LITERAL_AFTER_DOLLAR = frozenset('" |)/\\,.;:')
"""Inside double quotes `$` before one of these is itself, as at the end of a regular expression."""
_IN_BRACES = re.compile(r"(?:[\w/+-]|\.(?!\.))*")
_MISREAD = re.compile(r"[;|&<>$`()]")


class ShellWord(Value):
    """`text` is what the program gets, unless `stars` says where the shell would put file names."""

    text: str
    stars: tuple[int, ...] = ()
    """Where an unquoted `*` stands in `text`."""
    special: bool = False
    """Has an unquoted `^ ~ ! { } #` inside, as git's names for commits do."""
    status: bool = False
    """Has `$?` in it, which becomes a number."""
    bare: bool = True
    """Has no quotes and no backslashes."""


class SimpleCommand(Value):
    """A program with its words, and the operator before it."""

    joint: Joint
    words: tuple[ShellWord, ...]
    fed: bool = False
    """Its input comes from the command before it, or from /dev/null."""
    piped: bool = False
    """One of several in a pipeline, so it runs in a shell of its own."""


def read_commands(line: str) -> list[SimpleCommand]:
    """The simple commands in the order the shell reads them. Raises `Doubt` for everything that is not plain."""
    if len(line.encode(errors="replace")) > MAX_BYTES:
        raise Doubt(f"it is longer than {MAX_BYTES // 1024} KiB")
    if not (line.isascii() and line.isprintable()) and not all(map(_is_ordinary, line)):
        raise Doubt("it contains a line break or an invisible character")
    return _Reader(line).read()


def _is_ordinary(character: str) -> bool:
    return " " <= character <= "~" or (character > "\x7f" and unicodedata.category(character)[0] in "LNPS")


class _Reader:
    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._joint: Joint = ""
        self._fed = False
        self._words: list[ShellWord] = []
        self._commands: list[SimpleCommand] = []

    def read(self) -> list[SimpleCommand]:
        while self._at < len(self._line):
            self._step()
        if self._words:
            self._finish()
        elif self._joint not in ("", ";") or self._fed:
            raise Doubt("it ends in the middle of a command")
        if not self._commands:
            raise Doubt("there is no command in it")
        return self._commands

    def _step(self) -> None:
        rest = self._line[self._at : self._at + 2]
        match rest[0]:
            case " ":
                self._at += 1
            case ";":
                if rest == ";;":
                    raise Doubt("it uses `;;`")
                self._operator(";")
            case "|" if rest == "||":
                self._operator("||")
            case "|" if rest == "|&":
                raise Doubt("it uses `|&`")
            case "|":
                self._operator("|")
            case "&" if rest == "&&":
                self._operator("&&")
            case "&" if rest == "&>":
                self._at += 1
                self._redirect()
            case "&":
                raise Doubt("it starts a command in the background with `&`")
            case ">" | "<":
                self._redirect()
            case _:
                self._word()

    def _operator(self, joint: Joint) -> None:
        if not self._words:
            raise Doubt(f"there is no command before `{joint}`")
        self._finish(piped=joint == "|")
        self._joint = joint
        self._fed = joint == "|"
        self._at += len(joint)

    def _finish(self, *, piped: bool = False) -> None:
        words = tuple(self._words)
        name = words[0]
        if name.bare and _ASSIGNMENT.match(name.text):
            raise Doubt(f"it sets a variable (`{name.text}`)")
        if not name.bare or name.stars or name.special or name.status:
            raise Doubt(f"it does not start with a plain program name, but with `{name.text}`")
        self._commands.append(
            SimpleCommand(joint=self._joint, words=words, fed=self._fed, piped=piped or self._joint == "|")
        )
        if len(self._commands) > MAX_COMMANDS:
            raise Doubt(f"it consists of more than {MAX_COMMANDS} commands")
        self._words.clear()
        self._joint = ""
        self._fed = False

    def _redirect(self) -> None:
        """To /dev/null and between output streams only."""
        line = self._line
        operator = line[self._at : self._at + 2]
        both = self._at > 0 and line[self._at - 1] == "&"
        if operator == ">&" and not both:
            found = _TO_STREAM.match(line, self._at + 2)
        elif operator[0] == "<":
            found = _TO_NULL.match(line, self._at + 1)
        else:
            found = _TO_NULL.match(line, self._at + (2 if operator == ">>" else 1))
        if found is None and line[self._at + 1 : self._at + 2] == "(":
            raise Doubt(f"it runs a command inside a command (`{operator}…)`)")
        if found is None:
            verb = "reads its input from a file" if operator[0] == "<" else "writes its output to a file"
            raise Doubt(f"it {verb} (`{line[self._at : self._at + 24].strip()}`)")
        if operator[0] == "<":
            self._fed = True
        self._at = found.end()

    def _word(self) -> None:
        word = _WordReader(self._line, self._at)
        word.read(first=not self._words)
        self._at = word.at
        following = self._line[word.at : word.at + 1]
        if following in (">", "<") and word.is_stream_number:
            if word.text not in ("1", "2") or following == "<":
                raise Doubt(f"it redirects the stream {word.text}")
            return  # `2>`: the number belongs to the redirect
        self._words.append(word.word())


class _WordReader:
    """One word: plain characters, quoted text and escapes, up to the next blank or operator."""

    def __init__(self, line: str, at: int) -> None:
        self.at = at
        self._line = line
        self._start = at
        self._parts: list[str] = []
        self._length = 0
        self._stars: list[int] = []
        self._braces = 0
        self._special = self._status = self._quoted = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def is_stream_number(self) -> bool:
        return not self._quoted and self.text.isdecimal() and self.text.isascii()

    def word(self) -> ShellWord:
        return ShellWord(
            text=self.text,
            stars=tuple(self._stars),
            special=self._special,
            status=self._status,
            bare=not self._quoted,
        )

    def read(self, *, first: bool) -> None:
        line = self._line
        while self.at < len(line):
            character = line[self.at]
            if character in " ;|&<>":
                return
            if character in _BARE or character > "\x7f":
                self._add(character)
            elif character == "'":
                self._read_single_quotes()
            elif character == '"':
                self._read_double_quotes()
            elif character == "\\":
                self._read_escape()
            elif character == "*":
                self._stars.append(self._length)
                self._add(character)
            elif character == "$":
                self._read_dollar()
            elif character in _SPECIAL:
                self._special_character(character, first=first)
            elif character in "[]" and self._is_alone():
                self._add(character)
            else:
                self._refuse(character)

    def _add(self, text: str, *, width: int = 1) -> None:
        self._parts.append(text)
        self._length += len(text)
        self.at += width

    def _is_alone(self) -> bool:
        """`[` and `]` as words of their own, as in `[ -f a ]`."""
        return self._start == self.at and self._line[self.at + 1 : self.at + 2] in ("", " ", ";", "|", "&")

    def _read_single_quotes(self) -> None:
        end = self._line.find("'", self.at + 1)
        if end < 0:
            raise Doubt("a quote is not closed")
        self._quoted = True
        self._add(self._line[self.at + 1 : end], width=end + 1 - self.at)

    def _read_double_quotes(self) -> None:
        self._quoted = True
        self.at += 1
        inner = self._length
        had_quotes = False
        line = self._line
        while self.at < len(line):
            character = line[self.at]
            following = line[self.at + 1 : self.at + 2]
            if character == '"':
                self.at += 1
                if had_quotes and _MISREAD.search(self.text[inner:]):
                    raise Doubt("it has quotes inside quotes that are easily misread")
                return
            if character == "$" and following in _LITERAL_AFTER_DOLLAR and following:
                self._add(character)
            elif character == "$":
                self._read_dollar()
            elif character == "`":
                self._refuse(character)
            elif character == "\\" and following in ('"', "\\"):
                had_quotes |= following == '"'
                self._add(following, width=2)
            elif character == "\\" and following in ("$", "`", ""):
                raise Doubt(f"it has an escaped `{following}` inside quotes")
            else:
                self._add(character)
        raise Doubt("a quote is not closed")

    def _read_escape(self) -> None:
        following = self._line[self.at + 1 : self.at + 2]
        if following not in _ESCAPABLE or not following:
            raise Doubt(f"it has an escaped character (`\\{following}`) outside quotes")
        self._quoted = True
        self._add(following, width=2)

    def _read_dollar(self) -> None:
        if self._line.startswith("$?", self.at):
            self._status = True
            self._add("$?", width=2)
        else:
            self._refuse("$")

    def _special_character(self, character: str, *, first: bool) -> None:
        line, start = self._line, self._start == self.at
        if character == "!" and start and line[self.at + 1 : self.at + 2] in ("", " "):
            if first:
                raise Doubt("it inverts the result of a command with `!`")
            self._add(character)  # `find . ! -name x`
            return
        if character == "#" and start:
            raise Doubt("it contains a comment")
        if character == "~" and (start or line[self.at - 1] in ":="):
            raise Doubt("the shell would replace `~` with a home directory")
        if character in "{}":
            self._brace(character)
        self._special = True
        self._add(character)

    def _brace(self, character: str) -> None:
        """`@{1}` and `^{commit}`: braces of git's, with nothing inside that the shell would expand."""
        line = self._line
        end = line.find("}", self.at)
        inner = line[self.at + 1 : end]
        opens = character == "{" and end > 0 and line[self.at - 1] in "@^" and _IN_BRACES.fullmatch(inner)
        if not opens and not (character == "}" and self._braces == 1):
            raise Doubt("the shell would expand the braces (`{…}`)")
        self._braces = 1 if opens else 0

    def _refuse(self, character: str) -> NoReturn:
        line = self._line
        match character:
            case "$" if line.startswith(("$(", '$"', "$'"), self.at):
                if line[self.at + 1] == "(":
                    raise Doubt("it runs a command inside a command (`$(…)`)")
                raise Doubt("it uses a special kind of quotes (`$'…'`)")
            case "$":
                found = _VARIABLE.match(line, self.at)
                name = found[0] if found else "$"
                raise Doubt(f"it uses a shell variable (`{name}`), so what it reads cannot be known in advance")
            case "`":
                raise Doubt("it runs a command inside a command (`` `…` ``)")
            case "?" | "[" | "]":
                raise Doubt(f"it has a file name pattern (`{character}`) outside quotes")
            case "(" | ")":
                raise Doubt("it groups commands in parentheses")
            case _:
                raise Doubt(f"it contains `{character}` outside quotes")
