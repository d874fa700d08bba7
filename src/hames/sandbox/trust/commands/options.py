"""The words of a call, read the way its program reads them: which options with which values, and which operands."""

import re

from hames.domain.value import Value
from hames.sandbox.trust.commands.doubt import Doubt
from hames.sandbox.trust.commands.known_programs import ReadingProgram


class CallOptions(Value):
    """`used` has every option in the order of the words; without a value it is `(name, None)`."""

    used: tuple[tuple[str, str | None], ...] = ()
    operands: tuple[str, ...] = ()

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.used)

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.used if name in names and value is not None]


def read_options(name: str, program: ReadingProgram, words: list[str]) -> CallOptions:
    """Options may come after operands, until `--`. Raises `Doubt` for one that is not in the program's table."""
    used: list[tuple[str, str | None]] = []
    plain: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return CallOptions(used=tuple(used), operands=(*plain, *rest))
        if word.startswith("--"):
            used.append(_long(name, program, word, rest))
        elif program.bare_number and re.fullmatch(r"-\d{1,9}", word):
            continue
        elif word.startswith("-") and word != "-":
            used += _short(name, program, word, rest)
        else:
            plain.append(word)
    return CallOptions(used=tuple(used), operands=tuple(plain))


def _unknown(name: str, option: str) -> Doubt:
    return Doubt(f"`{name} {option}` may do more than read files")


def _long(name: str, program: ReadingProgram, word: str, rest: list[str]) -> tuple[str, str | None]:
    flag, given, value = word.partition("=")
    takes = program.options.get(flag)
    if takes is None or (given and not takes):
        raise _unknown(name, flag)
    if takes == "=" and not given:
        if not rest:
            raise Doubt(f"`{name} {flag}` has no value")
        return flag[2:], rest.pop(0)
    return flag[2:], value if given else None


def _short(name: str, program: ReadingProgram, word: str, rest: list[str]) -> list[tuple[str, str | None]]:
    used: list[tuple[str, str | None]] = []
    if len(word) > 2 and program.no_clusters:
        raise _unknown(name, word)
    for at, letter in enumerate(word[1:], start=1):
        attached = word[at + 1 :]
        takes = program.options.get(f"-{letter}")
        if takes is None:
            raise _unknown(name, f"-{letter}")
        if takes == "=":
            if not attached and not rest:
                raise Doubt(f"`{name} -{letter}` has no value")
            return [*used, (letter, attached or rest.pop(0))]
        if takes:
            return [*used, (letter, attached or None)]
        used.append((letter, None))
    return used
