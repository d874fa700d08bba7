"""How a known program may be called: its words against its table, read the way the program itself reads them."""

import re
from collections.abc import Callable

from hames.domain.value import Value
from hames.sandbox.programs import (
    FIND_TESTS_ALONE,
    FIND_TESTS_WITH_PATH,
    FIND_TESTS_WITH_VALUE,
    JQ,
    JQ_NAMES,
    PROGRAMS,
    Program,
)


class Doubt(Exception):
    """Why a command is asked about, in words for people."""


class Names(Value):
    """The paths a call opens."""

    names: tuple[str, ...] = ()
    files_only: bool = False


def operands(name: str, words: list[str], *, fed: bool) -> Names:
    """The paths that a harmless call opens; `fed`: its input comes from another command.

    Raises `Doubt` for a call that is not in the table.
    """
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words, fed)
    program = PROGRAMS.get(name)
    if program is None:
        raise Doubt(f"{name!r} is not known to be harmless")
    return _read(name, program, words, fed=fed)


def _read(name: str, program: Program, words: list[str], *, fed: bool) -> Names:
    used, plain = _options(name, program, words)
    if not program.least <= len(plain) <= program.most or (program.operands == "none" and plain):
        raise Doubt(f"{name!r} with {len(plain)} operands")
    paths = plain
    if program.operands == "pattern" and not used.intersection(program.pattern_flags):
        if not plain:
            raise Doubt(f"{name!r} without a pattern")
        paths = plain[1:]
    if program.operands in ("words", "none"):
        return Names()
    if program.filters and not paths and not fed and not used.intersection(("r", "recursive")):
        raise Doubt(f"{name!r} would wait for input")
    return Names(names=tuple(paths), files_only=program.operands == "files")


def _options(name: str, program: Program, words: list[str]) -> tuple[set[str], list[str]]:
    """The flags that are used and the operands. Options may come after operands, until `--`."""
    used: set[str] = set()
    plain: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return used, [*plain, *rest]
        if word.startswith("--"):
            used.add(_long(name, program, word, rest))
        elif program.bare_number and re.fullmatch(r"-\d+", word):
            continue
        elif word.startswith("-") and word != "-":
            used.update(_short(name, program, word, rest))
        else:
            plain.append(word)
    return used, plain


def _long(name: str, program: Program, word: str, rest: list[str]) -> str:
    flag, given, _ = word[2:].partition("=")
    if flag in program.long_maybe or (flag in program.long and not given):
        return flag
    if flag in program.long_values:
        if not given and not rest:
            raise Doubt(f"{name!r} misses a value for '--{flag}'")
        if not given:
            rest.pop(0)
        return flag
    raise Doubt(f"'--{flag}' of {name!r} is not known to be harmless")


def _short(name: str, program: Program, word: str, rest: list[str]) -> list[str]:
    used: list[str] = []
    if len(word) > 2 and not program.clusters:
        raise Doubt(f"{word!r} of {name!r} is not known to be harmless")
    for at, letter in enumerate(word[1:], start=1):
        if letter in program.values:
            if at == len(word) - 1:
                if not rest:
                    raise Doubt(f"{name!r} misses a value for '-{letter}'")
                rest.pop(0)
            return [*used, letter]
        if letter in program.maybe:
            return [*used, letter]
        if letter not in program.flags:
            raise Doubt(f"'-{letter}' of {name!r} is not known to be harmless")
        used.append(letter)
    return used


def _any(_words: list[str], _fed: bool) -> Names:
    return Names()


_CONVERSION = re.compile(r"%(?:%|[-+ #0]*\d{0,4}(?:\.\d{0,4})?[sdiouxXcbqeEfFgG])")


_PLAIN_ESCAPE = re.compile(r"\\[nt\\]")


def _printf(words: list[str], _fed: bool) -> Names:
    # -v assigns to a variable whose subscript is evaluated; %n assigns too, to PATH if you like.
    if not words or words[0].startswith("-") or "%" in _CONVERSION.sub("", words[0]):
        raise Doubt("this 'printf' is not known to be harmless")
    if any("\\" in _PLAIN_ESCAPE.sub("", word) for word in words):
        raise Doubt("'printf' could make characters here that command a terminal")
    return Names()


def _find(words: list[str], _fed: bool) -> Names:
    rest = list(words)
    paths: list[str] = []
    while rest and not rest[0].startswith("-") and rest[0] not in ("(", "!", ")", ","):
        paths.append(rest.pop(0))
    while rest:
        word = rest.pop(0)
        if word in FIND_TESTS_WITH_VALUE and rest:
            rest.pop(0)
        elif word in FIND_TESTS_WITH_PATH and rest:
            paths.append(rest.pop(0))
        elif word not in FIND_TESTS_ALONE:
            raise Doubt(f"{word!r} of 'find' is not known to be harmless")
    return Names(names=tuple(paths))


def _sed(words: list[str], fed: bool) -> Names:
    """One form only: `sed -n N[,M]p FILE…`. A later `-f` or `-e` would turn the script into a file."""
    if len(words) < 2 or words[0] != "-n" or not re.fullmatch(r"\d{1,9}(,\d{1,9})?p", words[1]):
        raise Doubt("this 'sed' is not known to be harmless")
    files = words[2:]
    if any(word.startswith("-") for word in files) or not (files or fed):
        raise Doubt("this 'sed' is not known to be harmless")
    return Names(names=tuple(files))


_DATE = Program(
    operands="words",
    flags="Ru",
    values="d",
    maybe="I",
    long=("utc",),
    long_values=("date", "rfc-3339"),
    long_maybe=("iso-8601",),
)


def _date(words: list[str], _fed: bool) -> Names:
    _, plain = _options("date", _DATE, words)
    if len(plain) > 1 or not all(word.startswith("+") for word in plain):
        raise Doubt("this 'date' would set the clock")
    return Names()


_SEQ = Program(operands="words", flags="w", values="fs")


def _seq(words: list[str], _fed: bool) -> Names:
    numbers = [word for word in words if re.fullmatch(r"-?\d{1,7}(\.\d{1,6})?", word)]
    _, plain = _options("seq", _SEQ, [word for word in words if word not in numbers])
    if plain or not 1 <= len(numbers) <= 3:
        raise Doubt("this 'seq' is not known to be harmless")
    return Names()


def _jq(words: list[str], fed: bool) -> Names:
    _, plain = _options("jq", JQ, words)
    if not plain or not _simple_filter(plain[0]):
        raise Doubt("this filter of 'jq' is not known to be harmless")
    return _read("jq", JQ, words, fed=fed)


def _simple_filter(text: str) -> bool:
    bare = re.sub(r'"[^"\\]*"', '""', text)
    if not re.fullmatch(r'[\w\s.\[\]|,:"?@/()+<>=!{}%-]*', bare):
        return False
    called = re.findall(r"(?<![.\w@])[A-Za-z_]\w*(?!\w*\s*:)", bare)
    return all(name in JQ_NAMES for name in called)


def _strings(words: list[str], fed: bool) -> Names:
    if any(word.startswith("@") for word in words):
        raise Doubt("'strings' would take options from a file")
    return _read("strings", PROGRAMS["strings"], words, fed=fed)


def _command(words: list[str], _fed: bool) -> Names:
    if len(words) < 2 or words[0] not in ("-v", "-V") or any(word.startswith("-") for word in words[1:]):
        raise Doubt("'command' runs a program")
    return Names()


_SPECIAL: dict[str, Callable[[list[str], bool], Names]] = {
    "command": _command,
    "date": _date,
    "echo": _any,
    "expr": _any,
    "find": _find,
    "jq": _jq,
    "printf": _printf,
    "sed": _sed,
    "seq": _seq,
    "strings": _strings,
}
