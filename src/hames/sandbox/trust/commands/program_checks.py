"""How a known program may be called without a question, and which paths such a call opens."""

import re
from collections.abc import Callable

from hames.domain.value import Value
from hames.sandbox.trust.commands import scripts
from hames.sandbox.trust.commands.doubt import Doubt
from hames.sandbox.trust.commands.known_programs import (
    FIND_TESTS_ALONE,
    FIND_TESTS_WITH_PATH,
    FIND_TESTS_WITH_VALUE,
    JQ_NAMES,
    PROGRAMS,
    WITH_CHECKS_OF_THEIR_OWN,
    ReadingProgram,
)
from hames.sandbox.trust.commands.options import CallOptions, read_options
from hames.sandbox.trust.commands.versions import asks_for_version, choosers


class ReadingCall(Value):
    """The paths a call opens, and what it makes of them."""

    paths: tuple[str, ...] = ()
    files_only: bool = False
    """The paths must not be directories: what lies in them would be opened."""
    reads: bool = True
    """Shows what is in the files, not only their names."""
    sandbox_only: bool = False
    """Runs a program that looks at more than its words, so it is only trusted behind walls."""
    unless: tuple[str, ...] = ()
    """Files of the repository, in the working directory or above it, that would make it another call."""


NOTHING = ReadingCall()


def check_call(name: str, words: list[str], *, fed: bool) -> ReadingCall:
    """What a harmless call opens; `fed`: its input comes from another command. Raises `Doubt` for any other call."""
    if asks_for_version(name, words):
        return ReadingCall(sandbox_only=True, unless=choosers(name))
    check = _CHECKS.get(name) or (_in_table if name in PROGRAMS else None)
    if check is None:
        raise Doubt(f"`{name}` {_effect(name)}")
    return check(name, words, fed)


_EFFECTS = {
    "runs code, which may change files": "bash bun bundle cargo ctest deno dotnet go gradle java just make mvn ninja "
    "node nox npm npx perl php pipenv pnpm poetry pytest python rake ruby rspec sh tox uv uvx yarn zsh",
    "deletes files": "rm rmdir shred unlink",
    "moves or renames files": "mv rename",
    "writes files": "cp dd install ln rsync tee truncate",
    "creates a directory": "mkdir mktemp",
    "creates a file": "touch",
    "changes permissions": "chgrp chmod chown",
    "stops processes": "kill killall pkill",
    "uses the network": "curl ftp nc ping scp sftp ssh telnet wget",
    "installs programs": "apk apt apt-get brew dnf pacman pip pipx yum",
}
_EFFECT_OF = {name: effect for effect, names in _EFFECTS.items() for name in names.split()}


def _effect(name: str) -> str:
    """What people should know of a program that is asked about."""
    base = name.rpartition("/")[2] if name.startswith(("/usr/", "/bin/")) or "/" not in name else name
    return _EFFECT_OF.get(re.sub(r"[\d.]+$", "", base), "may change files")


def _program(name: str) -> ReadingProgram:
    return PROGRAMS.get(name) or WITH_CHECKS_OF_THEIR_OWN[name]


def _in_table(name: str, words: list[str], fed: bool) -> ReadingCall:
    program = _program(name)
    options = read_options(name, program, words)
    paths = options.operands
    if not program.least <= len(paths) <= program.most or (program.operands == "none" and paths):
        raise Doubt(f"`{name}` called like this may do more than read files")
    if program.operands == "pattern" and not options.has(*program.pattern_options):
        if not paths:
            raise Doubt(f"`{name}` has no pattern to look for")
        paths = paths[1:]
    if program.operands in ("words", "none"):
        return NOTHING
    if program.filters and not paths and not fed and not options.has("r", "recursive"):
        raise Doubt(f"`{name}` would wait for input")
    return ReadingCall(paths=paths, files_only=program.operands == "files", reads=not program.names_only)


_LISTS_ONLY = (
    *("c", "l", "L", "q", "quiet", "silent", "count", "count-matches"),
    *("files-with-matches", "files-without-match", "files", "type-list"),
)


_LONG_PATTERN = 1000


def _grep(name: str, words: list[str], fed: bool) -> ReadingCall:
    options = read_options(name, PROGRAMS[name], words)
    call = _in_table(name, words, fed)
    is_search = options.has("r", "recursive", "d") if name != "rg" else not fed or bool(call.paths)
    if is_search:
        check_search(options)
    return call


def check_search(options: CallOptions) -> None:
    """A search through a tree that shows every line shows every secret in it, too."""
    if options.has(*_LISTS_ONLY):
        return
    patterns = options.values("e", "regexp") or options.operands[:1]
    if options.has("v", "invert-match", "passthru") or any(map(_matches_everything, patterns)):
        raise Doubt("it would show every line of every file, secrets included")


def _matches_everything(pattern: str) -> bool:
    """Whether an alternative of it has nothing that a line must contain.

    >>> [text for text in ("", ".*", "^", "foo|", "[a-z]", "foo", r"a\\.b", "a|b") if _matches_everything(text)]
    ['', '.*', '^', 'foo|', '[a-z]']
    """
    if len(pattern) > _LONG_PATTERN:
        return True
    without = re.sub(r"\[\^?\]?[^\]]*\]|\\[wWsSdDbB<>]|\{[\d,]*\}|[^\\]?[?*]", "", pattern)
    return any(not re.search(r"[^\s.^$+()\\]", part) for part in re.split(r"\\?\|", without))


def _echo(_name: str, words: list[str], _fed: bool) -> ReadingCall:
    if words and re.fullmatch(r"-[neE]*e[neE]*", words[0]):
        _check_escapes("echo", words)
    return NOTHING


_CONVERSION = re.compile(r"%(?:%|[-+ #0]*\d{0,4}(?:\.\d{0,4})?[sdiouxXcbqeEfFgG])")
_PLAIN_ESCAPE = re.compile(r"\\[nt\\]")


def _printf(_name: str, words: list[str], _fed: bool) -> ReadingCall:
    # -v assigns to a variable whose subscript is evaluated; %n assigns too, to PATH if you like.
    if not words or words[0].startswith("-") or "%" in _CONVERSION.sub("", words[0]) or "$(" in "".join(words):
        raise Doubt("`printf` called like this may do more than print")
    _check_escapes("printf", words)
    return NOTHING


def _check_escapes(name: str, words: list[str]) -> None:
    if any("\\" in _PLAIN_ESCAPE.sub("", word) for word in words):
        raise Doubt(f"`{name}` could print characters that control the terminal")


def _find(_name: str, words: list[str], _fed: bool) -> ReadingCall:
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
            raise Doubt(f"`find {word}` may do more than search")
    return ReadingCall(paths=tuple(paths), reads=False)


def _sed(_name: str, words: list[str], fed: bool) -> ReadingCall:
    """`sed [-n] [-E] SCRIPT FILE…`, in this order. A later `-f` or `-e` would turn the script into a file."""
    if changed := _sed_in_place(words):
        raise Doubt(f"changes {changed} in place")
    flags: list[str] = []
    rest = list(words)
    while rest and rest[0] in ("-n", "-E", "-r", "-nE", "-En", "-nr"):
        flags.append(rest.pop(0))
    if not rest or not scripts.is_plain_sed(rest[0]):
        raise Doubt("this `sed` script may do more than print lines")
    files = rest[1:]
    if any(word.startswith("-") for word in files) or not (files or fed):
        raise Doubt("`sed` called like this may do more than print lines")
    return ReadingCall(paths=tuple(files))


def _sed_in_place(words: list[str]) -> str:
    """The files that `sed -i` changes, in words; empty for any other call."""
    plain: list[str] = []
    in_place = has_script = False
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flags = re.match(r"-[nErszu]*([ief]?)", word)
        if word.startswith("--"):
            in_place |= word.startswith("--in-place")
            has_script |= word.startswith(("--expression", "--file"))
            del rest[: word in ("--expression", "--file")]
        elif flags and word != "-":
            in_place |= flags[1] == "i"
            has_script |= flags[1] in ("e", "f")
            del rest[: flags[1] in ("e", "f") and flags.end() == len(word)]
        else:
            plain.append(word)
    files = plain if has_script else plain[1:]
    if not in_place:
        return ""
    return " and ".join(files) if 1 <= len(files) <= 3 else f"{len(files)} files" if files else "files"


def _awk(_name: str, words: list[str], fed: bool) -> ReadingCall:
    """`awk [-F SEPARATOR] SCRIPT FILE…`, in this order."""
    rest = list(words)
    if rest and rest[0] == "-F" and len(rest) > 1:
        del rest[:2]
    elif rest and re.fullmatch(r"-F.{1,8}", rest[0]):
        del rest[0]
    if not rest or not scripts.is_plain_awk(rest[0]):
        raise Doubt("this `awk` script may do more than print fields")
    files = rest[1:]
    if any(word.startswith("-") or "=" in word for word in files) or not (files or fed):
        raise Doubt("`awk` called like this may do more than print fields")
    return ReadingCall(paths=tuple(files))


def _date(_name: str, words: list[str], _fed: bool) -> ReadingCall:
    plain = read_options("date", WITH_CHECKS_OF_THEIR_OWN["date"], words).operands
    if len(plain) > 1 or not all(word.startswith("+") for word in plain):
        raise Doubt("`date` called like this would set the clock")
    return NOTHING


def _seq(_name: str, words: list[str], _fed: bool) -> ReadingCall:
    numbers = [word for word in words if re.fullmatch(r"-?\d{1,7}(\.\d{1,6})?", word)]
    others = [word for word in words if word not in numbers]
    if read_options("seq", WITH_CHECKS_OF_THEIR_OWN["seq"], others).operands or not 1 <= len(numbers) <= 3:
        raise Doubt("`seq` called like this could run forever")
    return NOTHING


def _jq(name: str, words: list[str], fed: bool) -> ReadingCall:
    plain = read_options(name, WITH_CHECKS_OF_THEIR_OWN[name], words).operands
    if not plain or not _is_simple_filter(plain[0]):
        raise Doubt("this `jq` filter may do more than pick values")
    return _in_table(name, words, fed)


def _is_simple_filter(text: str) -> bool:
    bare = re.sub(r'"[^"\\]*"', '""', text)
    if not re.fullmatch(r'[\w\s.\[\]|,:"?@/()+<>=!{}%-]*', bare):
        return False
    called = re.findall(r"(?<![.\w@])[A-Za-z_]\w*(?!\w*\s*:)", bare)
    return all(name in JQ_NAMES for name in called)


def _strings(name: str, words: list[str], fed: bool) -> ReadingCall:
    if any(word.startswith("@") for word in words):
        raise Doubt("`strings` would read its options from a file")
    return _in_table(name, words, fed)


def _command(_name: str, words: list[str], _fed: bool) -> ReadingCall:
    if len(words) < 2 or words[0] not in ("-v", "-V") or any(word.startswith("-") for word in words[1:]):
        raise Doubt("`command` runs a program")
    return NOTHING


def _test(_name: str, words: list[str], _fed: bool) -> ReadingCall:
    """One question about one file. `-v` and `-eq` would evaluate their words."""
    if len(words) != 2 or words[0] not in ("-d", "-e", "-f", "-r", "-s", "-x") or words[1].startswith("-"):
        raise Doubt("`test` called like this may do more than look at a file")
    return ReadingCall(paths=(words[1],), reads=False)


def _bracket(name: str, words: list[str], fed: bool) -> ReadingCall:
    if words[-1:] != ["]"]:
        raise Doubt("`[` is not closed")
    return _test(name, words[:-1], fed)


_CHECKS: dict[str, Callable[[str, list[str], bool], ReadingCall]] = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg"), _grep),
    "[": _bracket,
    "awk": _awk,
    "command": _command,
    "date": _date,
    "echo": _echo,
    "expr": lambda _name, _words, _fed: NOTHING,
    "find": _find,
    "jq": _jq,
    "printf": _printf,
    "sed": _sed,
    "seq": _seq,
    "strings": _strings,
    "test": _test,
}

STAR_SAFE = frozenset(("echo", *(name for name, program in PROGRAMS.items() if program.star_safe)))
"""Programs among whose words `*.txt` may stand: see `ReadingProgram.star_safe`."""
ONE_FILE = frozenset(name for name, program in PROGRAMS.items() if program.most < 1000)
"""Programs that take a second file name for something else, often for a file to write."""
