"""Finds every command in a piece of shell, however deep: pipelines, groups, loops, functions, substitutions.

`shell_words` reads little and refuses the rest, because what it reads runs unasked. This reader is for rules that
refuse: it reads nearly everything, takes too much for a command rather than too little, and says where it is not sure.
"""

import re
from collections.abc import Callable

from hames.sandbox.trust.rules.found_commands import FoundCommands, ScriptCommand, ScriptWord

MAX_BYTES = 256 * 1024
MAX_DEPTH = 12
MAX_COMMANDS = 2_000

_BLANK = " \t\r"
_OPERATOR = ";|&()\n"
_RESERVED = frozenset("if then else elif fi while until do done { } ! esac".split())
"""`time` and `coproc` are words like others: they take options or a name, and run what comes behind."""
_JOINED = "\\\n"
"""A line that goes on: the shell takes it away, but not in comments, single quotes and quoted heredocs."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")


def read_script(text: str, depth: int = 0) -> FoundCommands:
    """It raises nothing: what it cannot read is a doubt."""
    script = FoundCommands()
    if len(text.encode(errors="replace")) > MAX_BYTES:
        script.doubts.append("it is too long to be checked")
    elif depth > MAX_DEPTH:
        script.doubts.append("it is nested too deeply to be checked")
    else:
        _Reader(text, script, depth).read()
    if len(script.commands) > MAX_COMMANDS:
        script.doubts.append("it consists of too many commands to be checked")
    return script


class _Reader:
    """`nested`: it reads what is in parentheses, up to the one that closes them."""

    def __init__(self, text: str, script: FoundCommands, depth: int, *, at: int = 0, nested: bool = False) -> None:
        self._text = text
        self._at = at
        self._nested = nested
        self._parentheses = 0
        self._cases = 0
        """Open `case` commands, whose patterns end with a parenthesis that closes nothing."""
        self._script = script
        self._depth = depth
        self._words: list[ScriptWord] = []
        self._assignments: list[tuple[str, ScriptWord]] = []
        self._inputs: list[str | None] = []
        self._redirects: list[tuple[str, ScriptWord]] = []
        self._piped = False
        self._heredocs: list[tuple[str, bool, bool, ScriptCommand | None, int]] = []
        self._waiting: list[tuple[str, bool, bool, int]] = []
        self._header = ""
        """The words after `for` up to the end of the line, and after `case` up to `in`, run nothing."""

    def read(self) -> None:
        text = self._text
        while self._at < len(text) and len(self._script.commands) <= MAX_COMMANDS:
            character = text[self._at]
            if character in _BLANK:
                self._at += 1
            elif text.startswith(_JOINED, self._at):
                self._at += len(_JOINED)
            elif character == "#":
                self._at = _end(text, "\n", self._at)
            elif character == ")" and self._nested and not self._parentheses and not self._cases:
                break
            elif character in _OPERATOR:
                self._operator(character)
            elif self._redirection():
                continue
            else:
                self._take(self._word())
        self._finish()
        if self._nested and self._heredocs and self._at < len(text):
            self._doubt("a heredoc in it begins inside parentheses and ends outside")
        self._bodies()

    def _operator(self, character: str) -> None:
        text = self._text
        if character == "(" and text.startswith("((", self._at):
            end = text.find("))", self._at)
            inner = text[self._at + 2 : end] if end >= 0 else text[self._at + 2 :]
            self._substitutions(inner)
            if end >= 0 and "(" not in inner:
                self._inner(inner)  # bash calculates, other shells run it
                self._at = end + 2
                self._header = ""
                return
        if character == "&" and text.startswith(("&>", "&>>"), self._at):
            self._at += 1
            self._redirection()
            return
        pipe = character == "|" and not text.startswith("||", self._at)
        if character == "(" and self._words and text[self._at + 1 :].lstrip(_BLANK).startswith(")"):
            self._words.clear()  # `name() {`
        self._parentheses += {"(": 1, ")": -1 if self._parentheses else 0}.get(character, 0)
        self._finish()
        self._piped = pipe
        self._header = ""
        self._at += 1 + (text.startswith(("||", "&&", ";;", "|&"), self._at))
        if character == "\n":
            self._bodies()

    def _take(self, word: ScriptWord) -> None:
        text = word.text
        if self._header:
            if self._header == "case" and text == "in":
                self._header = ""
            return
        if not self._words:
            if text in ("for", "select", "case"):
                self._header = text
                self._cases += text == "case"
                return
            self._cases -= text == "esac" and self._cases > 0
            if text == "function":
                self._take_name()
                return
            if text in _RESERVED or text == "[[":
                return
            plain = word.parts[0] if word.parts and word.parts[0] is not None else ""
            if found := _ASSIGNMENT.match(plain):
                value = ScriptWord(parts=(plain[found.end() :], *word.parts[1:]))
                self._assignments.append((re.split(r"[\[+=]", plain)[0], value))
                return
        self._words.append(word)

    def _take_name(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _BLANK:
            self._at += 1
        self._word()

    def _finish(self) -> None:
        if self._words or self._assignments:
            command = ScriptCommand(
                words=tuple(self._words),
                assignments=tuple(self._assignments),
                inputs=self._inputs,
                piped=self._piped,
                redirects=self._redirects,
            )
            self._script.commands.append(command)
        else:
            command = None
            # `done < file`, `} | sh`: what a group reads or writes still names files.
            if self._redirects:
                self._script.commands.append(ScriptCommand(words=(), redirects=self._redirects))
        self._heredocs += [(*waiting[:3], command, waiting[3]) for waiting in self._waiting]
        self._words, self._assignments, self._inputs, self._redirects, self._waiting = [], [], [], [], []
        self._piped = False

    # -- redirections and heredocs

    def _redirection(self) -> bool:
        found = re.compile(r"\d*(?:\{\w+\})?(<<<|<<-|<<|<>|<&|>&|>>|>\||<|>)(?!\()").match(self._text, self._at)
        if found is None:
            if self._text.startswith(("<(", ">("), self._at):
                self._words.append(ScriptWord(parts=(self._process_substitution(),)))
                return True
            return False
        self._at = found.end()
        while self._at < len(self._text) and (
            self._text[self._at] in _BLANK or self._text.startswith(_JOINED, self._at)
        ):
            self._at += 2 if self._text[self._at] == "\\" else 1
        operator = found[1]
        if operator in ("<<", "<<-"):
            self._heredoc(strip=operator == "<<-")
            return True
        if self._at < len(self._text) and (
            self._text[self._at] not in _OPERATOR + "<>" or self._text.startswith(("<(", ">("), self._at)
        ):
            word = self._word()
            if operator == "<<<":
                self._inputs.append(word.text)
            else:
                self._redirects.append((operator, word))
        return True

    def _heredoc(self, *, strip: bool) -> None:
        start = self._at
        word = self._word()
        raw = self._text[start : self._at].replace(_JOINED, "")
        quoted = re.search(r"[\"'\\]", raw) is not None
        if quoted and word.text is None:
            self._doubt("where a heredoc in it ends cannot be known in advance")
        end = word.text if quoted and word.text is not None else raw
        self._waiting.append((end, strip, quoted, len(self._inputs)))
        self._inputs.append(None)

    def _bodies(self) -> None:
        """After a line break: the texts of the heredocs that the line began."""
        for end, strip, quoted, command, index in self._heredocs:
            lines: list[str] = []
            closed = False
            while self._at < len(self._text):
                stop = _end(self._text, "\n", self._at)
                while not quoted and re.search(r"(?<!\\)(?:\\\\)*\\$", self._text[self._at : stop]):
                    if stop >= len(self._text):
                        break
                    stop = _end(self._text, "\n", stop + 1)
                line = self._text[self._at : stop]
                self._at = min(stop + 1, len(self._text))
                if (line.lstrip("\t") if strip else line) == end:
                    closed = True
                    break
                lines.append(line.lstrip("\t") if strip else line)
            body = "\n".join(lines)
            if not closed:
                self._doubt("a heredoc in it is not closed")
            if not quoted:
                self._substitutions(body)
            if command is not None:
                unknown = not quoted and re.search(r"[$`\\]", body)
                command.inputs[index] = None if unknown or not closed else body
                if unknown:
                    command.inputs.append(body)
        self._heredocs = []

    # -- words

    def _word(self) -> ScriptWord:
        parts: list[str | None] = []
        many = False
        text, start = self._text, self._at
        plain: list[str] = []

        def literal(piece: str) -> None:
            if parts and parts[-1] is not None:
                parts[-1] += piece
            else:
                parts.append(piece)

        def unknown() -> None:
            if not parts or parts[-1] is not None:
                parts.append(None)

        while self._at < len(text):
            character = text[self._at]
            if character in _BLANK or character in _OPERATOR or character in "<>":
                if character == "(" and parts and text[self._at - 1] in "@?*+!=":
                    unknown()  # an array, or a pattern of bash's
                    many = True
                    self._at = self._balanced(self._at + 1)
                    continue
                break
            if text.startswith(_JOINED, self._at):
                self._at += len(_JOINED)
                continue
            if character == "'":
                literal(self._single())
            elif character == '"':
                self._double(literal, unknown)
            elif character == "\\":
                literal(text[self._at + 1 : self._at + 2])
                self._at += 2
            elif character == "$":
                many |= self._dollar(literal, unknown)
            elif character == "`":
                self._backticks()
                unknown()
                many = True
            elif character in "*?[":
                unknown()
                many = True
                self._at += 1
            else:
                literal(character)
                plain.append(character)
                self._at += 1
        if self._at == start:  # it would never end
            self._at += 1
        if _BRACES.search("".join(plain)) and "{" in text[start : self._at]:
            return ScriptWord(parts=(None,), many=True)
        return ScriptWord(parts=tuple(parts), many=many)

    def _single(self) -> str:
        start = self._at + 1
        if (stop := self._text.find("'", start)) < 0:
            self._doubt("a quote in it is not closed")
            stop = len(self._text)
        self._at = stop + 1
        return self._text[start:stop]

    def _double(self, literal: Callable[[str], None], unknown: Callable[[], None]) -> None:
        text = self._text
        self._at += 1
        literal("")
        while self._at < len(text):
            character = text[self._at]
            if character == '"':
                self._at += 1
                return
            if text.startswith(_JOINED, self._at):
                self._at += len(_JOINED)
            elif character == "\\" and text[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\"):
                literal(text[self._at + 1])
                self._at += 2
            elif character == "$":
                self._dollar(literal, unknown, quoted=True)
            elif character == "`":
                self._backticks()
                unknown()
            else:
                literal(character)
                self._at += 1
        self._doubt("a quote in it is not closed")

    def _dollar(self, literal: Callable[[str], None], unknown: Callable[[], None], *, quoted: bool = False) -> bool:
        """Whether what it becomes may be several words."""
        text, at = self._text, self._at
        if text.startswith("$((", at):
            end = text.find("))", at)
            self._substitutions(text[at + 3 : end if end >= 0 else len(text)])
            if end >= 0 and text.count("(", at, end) == 2:
                self._at = end + 2
                unknown()
                return False
        if text.startswith("$(", at):
            self._at = self._balanced(at + 2)
        elif text.startswith("${", at):
            self._braced(at + 2, quoted=quoted)
        elif text.startswith("$[", at):
            self._at = text.find("]", at) + 1 or len(text)
            self._substitutions(text[at + 2 : self._at])
        elif text.startswith("$'", at) and not quoted:
            end = at + 2
            while end < len(text) and text[end] != "'":
                end += 2 if text[end] == "\\" else 1
            inner = text[at + 2 : end]
            self._at = end + 1
            if "\\" not in inner:
                literal(inner)
                return False
        elif text.startswith('$"', at) and not quoted:
            self._at = at + 1
            self._double(literal, unknown)
            return False
        elif found := re.compile(r"\$(?:\w+|[@*#?$!-])").match(text, at):
            self._at = found.end()
        else:
            literal("$")
            self._at = at + 1
            return False
        unknown()
        return not quoted or text.startswith(("$@", "${@", "${*"), at)

    def _braced(self, start: int, *, quoted: bool) -> None:
        """Goes behind `${…}`. What is substituted inside it runs."""
        text = self._text
        self._at = start
        while self._at < len(text) and text[self._at] != "}":
            character = text[self._at]
            if character == "\\":
                self._at += 2
            elif character == "'":
                if quoted:
                    self._doubt("a quote inside braces means different things to different shells")
                self._at = self._at + 1 if quoted else _end(text, "'", self._at + 1) + 1
            elif character == '"':
                self._double(_ignore, _nothing)
            elif character == "$":
                self._dollar(_ignore, _nothing, quoted=quoted)
            elif character == "`":
                self._backticks()
            else:
                self._at += 1
        if self._at >= len(text):
            self._doubt("a brace in it is not closed")
        self._at = min(self._at + 1, len(text))

    def _balanced(self, start: int) -> int:
        """Behind the parenthesis that closes what begins at `start`. What is inside is read as a script."""
        if self._depth >= MAX_DEPTH:
            self._doubt("it is nested too deeply to be checked")
            return len(self._text)
        inner = _Reader(self._text, self._script, self._depth + 1, at=start, nested=True)
        inner.read()
        if inner._at >= len(self._text):
            self._doubt("a parenthesis in it is not closed")
        return min(inner._at + 1, len(self._text))

    def _process_substitution(self) -> None:
        self._at = self._balanced(self._at + 2)

    def _backticks(self) -> None:
        text, at = self._text, self._at + 1
        while at < len(text) and text[at] != "`":
            at += 2 if text[at] == "\\" else 1
        if at >= len(text):
            self._doubt("a backtick in it is not closed")
        self._inner(re.sub(r"\\([`$\\\"])", r"\1", text[self._at + 1 : at]))
        self._at = min(at + 1, len(text))

    def _substitutions(self, text: str) -> None:
        """Commands in a text that is no script itself: `$(…)` and backticks."""
        at = 0
        while at < len(text):
            if text[at] == "\\":
                at += 2
                continue
            if text.startswith("$(", at) or text[at] == "`":
                inner = _Reader(text, self._script, self._depth + 1)
                inner._at = at
                if self._depth > MAX_DEPTH:
                    self._doubt("it is nested too deeply to be checked")
                    return
                inner._word()
                at = max(inner._at, at + 1)
                continue
            at += 1

    def _inner(self, text: str) -> None:
        found = read_script(text, self._depth + 1)
        self._script.commands += found.commands
        self._script.doubts += found.doubts

    def _doubt(self, words: str) -> None:
        self._script.doubts.append(words)


def _end(text: str, what: str, start: int) -> int:
    found = text.find(what, start)
    return len(text) if found < 0 else found


def _ignore(piece: str) -> None:
    """What a word consists of does not matter here."""
    del piece


def _nothing() -> None: ...
