"""Whether a path stays in the workspace, and what file name patterns stand for."""

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hames.sandbox.paths import is_inside
from hames.sandbox.trust.commands.doubt import Doubt
from hames.sandbox.trust.commands.secret_names import is_secret_directory, is_secret_path
from hames.sandbox.trust.commands.shell_words import ShellWord

MAX_ENTRIES = 20_000
MAX_MATCHES = 1_000
SYSTEM_FILES = frozenset(
    ("/etc/os-release", "/etc/debian_version", "/etc/lsb-release", "/proc/cpuinfo", "/proc/meminfo", "/proc/version")
)
"""What everybody may know about the machine."""


def check_path(path: str, place: str, workspace: str, *, reads: bool = True, files_only: bool = False) -> None:
    """Raises `Doubt` for a path that leads out of the workspace, or whose content is private."""
    if path == "-":
        return
    if not path:
        raise Doubt("a file name in it is empty")
    real = os.path.realpath(Path(place, path))
    if path in SYSTEM_FILES:
        return
    if not is_inside(real, workspace):
        raise Doubt(f"`{path}` is outside the workspace")
    below = os.path.relpath(real, workspace)
    try:
        is_directory = Path(real).is_dir()
    except OSError as error:
        raise Doubt(f"a path in it cannot be looked at ({error.strerror})") from None
    names = (*path.split("/"), *below.split("/"))
    reads = reads and not is_directory
    if any(map(is_secret_directory, names)) or (reads and (is_secret_path(path) or is_secret_path(below))):
        raise Doubt(f"the file `{path}` may hold a secret")
    if files_only and is_directory:
        raise Doubt(f"`{path}` is a directory")


def enter_directory(path: str, place: str, workspace: str) -> str:
    """Where `cd` leads. The shell counts `..` in names, the kernel in directories: where they differ, we ask."""
    target = os.path.normpath(Path(place, path))
    if target != os.path.realpath(Path(place, path)):
        raise Doubt(f"`{path}` goes through a symbolic link")
    check_path(path, place, workspace, reads=False)
    return target


def expand(word: ShellWord, place: str) -> list[str]:
    """What the shell makes of a word with `*` in it: the names that match, or the word itself when none does."""
    if not word.stars:
        return [word.text]
    matches = _matches(word, place)
    return sorted(matches) or [word.text]


def _matches(word: ShellWord, place: str) -> list[str]:
    found = ["/"] if word.text.startswith("/") else [""]
    at = 0
    for part in word.text.split("/"):
        stars = [star - at for star in word.stars if at <= star < at + len(part)]
        at += len(part) + 1
        if not part and at == 1:
            continue
        starts, found = found, []
        for start in starts:
            found += _steps(start, part, stars, place)
            if len(found) > MAX_MATCHES:
                raise Doubt(f"`{word.text}` stands for more than {MAX_MATCHES} files")
    # Not a `Path`, which would forget that `x/` has to be a directory.
    return [name for name in found if os.path.lexists(name if name.startswith("/") else f"{place}/{name}")]


def _steps(start: str, part: str, stars: Sequence[int], place: str) -> list[str]:
    joined = start if not start or start.endswith("/") else f"{start}/"
    if not stars:
        return [f"{joined}{part}" if part else joined]
    pieces = _pieces(part, stars)
    return [
        f"{joined}{name}"
        for name in _names(Path(place, start))
        if (not name.startswith(".") or part.startswith(".")) and _is_match(pieces, name)
    ]


def _pieces(part: str, stars: Sequence[int]) -> list[str]:
    """The literal text before, between and after the stars."""
    edges = [-1, *stars, len(part)]
    return [part[one + 1 : two] for one, two in pairwise(edges)]


def _is_match(pieces: Sequence[str], name: str) -> bool:
    """By searching for each piece in turn: a regular expression with many stars could take for ever."""
    first, *between, last = pieces
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in between:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _names(directory: Path) -> list[str]:
    """What the shell finds there, `.` and `..` included."""
    try:
        with os.scandir(directory) as entries:
            names = [".", ".."]
            for entry in entries:
                names.append(entry.name)
                if len(names) > MAX_ENTRIES:
                    raise Doubt(f"`{directory.name}` has more than {MAX_ENTRIES} entries")
            return names
    except OSError:
        return []
