"""Whether a command is what a pattern is about: surely, maybe or not.

Patterns that allow are matched word for word. Patterns that ask or deny also cover further arguments, options in
between and other spellings of the program, and `maybe` is the answer wherever only the shell knows.
"""

import re
from functools import lru_cache
from typing import Literal

from hames.domain.rules import pattern_words
from hames.sandbox.trust.rules.found_commands import ScriptWord

Match = Literal["no", "maybe", "yes"]

_VALUE_OPTIONS = {"git": frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"})}
"""Options before the subcommand that take the next word."""
GIT_COMMANDS = frozenset(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout cherry "
    "cherry-pick clean clone commit commit-graph commit-tree config count-objects credential describe diff diff-files "
    "diff-index diff-tree difftool fast-export fast-import fetch filter-branch for-each-ref format-patch fsck gc grep "
    "hash-object help init log ls-files ls-remote ls-tree maintenance merge merge-base merge-file merge-tree mergetool "
    "mv name-rev notes prune pull push range-diff read-tree rebase reflog remote repack replace request-pull reset "
    "restore rev-list rev-parse revert rm send-email shortlog show show-branch show-ref sparse-checkout stash status "
    "submodule switch symbolic-ref tag update-index update-ref version var verify-commit whatchanged worktree "
    "write-tree send-pack receive-pack upload-pack".split()
)


def allows(pattern: str, words: tuple[str, ...]) -> bool:
    """Word for word; a `*` at the end stands for any further words.

    >>> [allows("pytest *", tuple(text.split())) for text in ("pytest", "pytest -q a.py", "pytest2", "./pytest")]
    [True, True, False, False]
    """
    wanted = pattern_words(pattern)
    if wanted[-1] == "*" and len(wanted) > 1:
        wanted, words = wanted[:-1], words[: len(wanted) - 1]
    elif wanted == ("*",):
        return True
    return len(wanted) == len(words) and all(_glob(one).fullmatch(two) for one, two in zip(wanted, words, strict=True))


def refuses(pattern: str, words: tuple[ScriptWord, ...]) -> Match:
    """For patterns that ask or deny."""
    first, *further = pattern_words(pattern)
    if further[-1:] == ["*"]:
        further.pop()
    if not words:
        return "no"
    words = _spelled_out(words)
    program = _program(first, words[0])
    if program == "no":
        return "no"
    name = (words[0].text or "").rpartition("/")[2]
    operands = tuple(word for word in further if not word.startswith("-"))
    options: tuple[Match, ...] = tuple(_option(word, words[1:]) for word in further if word.startswith("-"))
    rest = _lowest(_rest(operands, words[1:], name, {}), *options)
    if rest == "no" and name == "git" and further and _may_be_alias(words[1:]):
        return "maybe"
    return _lowest(program, rest)


def _spelled_out(words: tuple[ScriptWord, ...]) -> tuple[ScriptWord, ...]:
    """`git-push`, as git's own programs are called, is `git push`."""
    name = (words[0].text or "").rpartition("/")[2]
    if not name.startswith("git-"):
        return words
    return (ScriptWord(parts=("git",)), ScriptWord(parts=(name[4:],)), *words[1:])


def _lowest(*found: Match) -> Match:
    return "no" if "no" in found else "maybe" if "maybe" in found else "yes"


def _program(wanted: str, word: ScriptWord) -> Match:
    text = word.text
    if text is None:
        return "maybe" if _may_match(wanted, word) or word.parts[-1] is None or "/" in word.shown else "no"
    names = (text, text.rpartition("/")[2])
    return (
        "yes"
        if any(_glob(one).fullmatch(two) for one in (wanted, wanted.rpartition("/")[2]) for two in names)
        else "no"
    )


def _rest(
    wanted: tuple[str, ...], words: tuple[ScriptWord, ...], name: str, known: dict[tuple[int, int], Match]
) -> Match:
    """The words behind the program."""
    if not wanted:
        return "yes"
    if not words:
        return "no"
    key = (len(wanted), len(words))
    if key in known:
        return known[key]
    known[key] = "no"
    word, found = words[0], list[Match]()
    if word.many:
        # It may stand for no word, for this one, or for all that are wanted.
        found.append("maybe")
    elif word.text is None:
        if _may_match(wanted[0], word):
            found.append(_lower(_rest(wanted[1:], words[1:], name, known)))
    elif _glob(wanted[0]).fullmatch(word.text):
        found.append(_rest(wanted[1:], words[1:], name, known))
    if word.shown.startswith("-"):
        takes = word.text in _VALUE_OPTIONS.get(name, ())
        if not takes:
            found.append(_rest(wanted, words[1:], name, known))
        if len(words) > 1 and "=" not in word.shown:
            skipped = _rest(wanted, words[2:], name, known)
            found.append(skipped if takes else _lower(skipped))
    known[key] = "yes" if "yes" in found else "maybe" if "maybe" in found else "no"
    return known[key]


def _option(wanted: str, words: tuple[ScriptWord, ...]) -> Match:
    """Whether an option is among the words: alone, with others (`-rf`, `-r -f`), or perhaps under its other name."""
    given = [word.text for word in words]
    if any(text is not None and _glob(wanted).fullmatch(text.partition("=")[0]) for text in given):
        return "yes"
    if any(word.text is None and (word.many or word.shown.startswith("-")) for word in words):
        return "maybe"
    texts = [text for text in given if text is not None and text.startswith("-")]
    letters = {letter for text in texts if not text.startswith("--") for letter in text[1:]}
    if wanted.startswith("--"):
        name = wanted.partition("=")[0]
        if any(text.startswith("--") and len(text) > 3 and name.startswith(text.partition("=")[0]) for text in texts):
            return "maybe"  # abbreviated
        initials = {part[:1] for part in name[2:].split("-")}
        return "maybe" if letters & initials else "no"
    if set(wanted[1:]) <= letters:
        return "yes"
    return "maybe" if any(text.startswith("--") and text != "--" for text in texts) else "no"


def _lower(match: Match) -> Match:
    return "maybe" if match == "yes" else match


def _may_be_alias(words: tuple[ScriptWord, ...]) -> bool:
    """Whether git's subcommand may be a name that somebody gave to another one."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        text = word.text
        if text is None:
            return True
        if text in _VALUE_OPTIONS["git"]:
            if rest and (rest[0].text is None or "alias." in rest[0].shown):
                return True
            del rest[:1]
        elif text.startswith("-"):
            if "alias." in text:
                return True
        else:
            return text not in GIT_COMMANDS
    return False


def _may_match(wanted: str, word: ScriptWord) -> bool:
    """Whether a word with unknown parts could be one that the pattern covers: whether two globs meet."""
    return _meet(wanted, tuple(word.parts))


def _meet(pattern: str, parts: tuple[str | None, ...]) -> bool:
    other: list[str] = []
    for part in parts:
        other += ["*"] if part is None else [f"={character}" for character in part]
    mine = ["*" if character == "*" else f"={character}" for character in pattern]
    reachable = {(0, 0)}
    seen = set(reachable)
    while reachable:
        one, two = reachable.pop()
        if one == len(mine) and two == len(other):
            return True
        steps: list[tuple[int, int]] = []
        left = mine[one] if one < len(mine) else None
        right = other[two] if two < len(other) else None
        if left == "*":
            steps += [(one + 1, two)] + ([(one, two + 1)] if right is not None else [])
        if right == "*":
            steps += [(one, two + 1)] + ([(one + 1, two)] if left is not None else [])
        if left is not None and left == right and left != "*":
            steps.append((one + 1, two + 1))
        for step in steps:
            if step not in seen:
                seen.add(step)
                reachable.add(step)
    return False


_SHELL_QUOTES = re.compile(r"\\\n|[\"'\\]")
"""What a shell takes out of a word: the program may hand the text to one."""


def mentions(pattern: str, text: str) -> bool:
    """Whether the words that the pattern names all stand in one line of a text that some program may run.

    >>> mentions("git push *", 'subprocess.run(["git", "push"])'), mentions("git push *", "git pull")
    (True, False)
    >>> mentions("git push *", "g'i't p\\\\ush")
    True
    """
    wanted = [
        word.rpartition("/")[2] for word in pattern_words(pattern) if "*" not in word and not word.startswith("-")
    ]
    if not wanted:
        return True
    return any(_names(wanted, one) for one in {text, _SHELL_QUOTES.sub("", text)})


def _names(wanted: list[str], text: str) -> bool:
    if not all(word in text for word in wanted):
        return False
    return any(
        all(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", line) for word in wanted) for line in text.splitlines()
    )


@lru_cache(maxsize=512)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
