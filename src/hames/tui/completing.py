"""What a half-typed word may become: `/commands` at the start of a prompt, `@files` anywhere."""

import os
import subprocess
import time
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from select import select
from typing import Literal
from urllib.parse import unquote, urlparse

from hames.deferred import pattern
from hames.domain.file_list import CACHE_DIRECTORIES, COMPILED_FILES, RIPGREP_LIST
from hames.domain.value import Value
from hames.executables import find_ripgrep
from hames.protocols.flint.items import FileInput, LocalImageInput, TextInput, UserInput

MOST_FILES = 20_000
MOST_SHOWN = 8
UNKNOWN_IGNORES = ("venv", "target", "dist")
"""Left out as well where no ripgrep reads the project's ignore files."""
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
LIST_SECONDS = 5
_MENTIONED = pattern(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]\S*))')


class CompletionQuery(Value):
    """A word that can be completed: from `start` to the cursor."""

    kind: Literal["command", "file"]
    query: str
    start: int


def word_to_complete(text: str, cursor: int) -> CompletionQuery | None:
    """
    >>> wanted("/mo", 3)
    CompletionQuery(kind='command', query='mo', start=0)
    >>> wanted("look at @src/ma", 15)
    CompletionQuery(kind='file', query='src/ma', start=8)
    >>> wanted("a@b", 3)
    """
    before = text[:cursor]
    start = max(before.rfind(" "), before.rfind("\n")) + 1
    word = before[start:]
    if start == 0 and word.startswith("/") and "/" not in word[1:]:
        return CompletionQuery(kind="command", query=word[1:], start=0)
    if word.startswith("@"):
        return CompletionQuery(kind="file", query=word[1:], start=start)
    return None


def rank_matches(query: str, names: Iterable[str], *, most: int = MOST_SHOWN) -> list[str]:
    """Those that contain the letters in order; the start of a name counts most, and a short one before a long one.

    >>> rank_matches("ap", ["src/map.py", "app.py", "tests/x.py"])
    ['app.py', 'src/map.py']
    """
    if not query:
        return list(names)[:most]
    letters = query.casefold()
    ranked: list[tuple[int, int, str]] = []
    for name in names:
        folded = name.casefold()
        last = folded.rpartition("/")[2]
        if last.startswith(letters) or folded.startswith(letters):
            rank = 0
        elif letters in last:
            rank = 1
        elif letters in folded:
            rank = 2
        elif _in_order(letters, folded):
            rank = 3
        else:
            continue
        ranked.append((rank, len(name), name))
    return [name for _, _, name in sorted(ranked)[:most]]


def _in_order(letters: str, name: str) -> bool:
    rest = iter(name)
    return all(letter in rest for letter in letters)


def list_files(root: Path) -> list[str]:
    """Relative paths of the files. Ignore files count only where ripgrep is installed. Blocks: use a thread."""
    if program := find_ripgrep(str(root)):
        try:
            return sorted(_first_files([program, *RIPGREP_LIST], root))
        except OSError:
            pass
    return _walked(root)


def _first_files(command: list[str], root: Path) -> list[str]:
    """What ripgrep finds first. It is stopped when there is enough: the directory may be a whole disk."""
    found, end = bytearray(), time.monotonic() + LIST_SECONDS
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        while found.count(b"\0") < MOST_FILES and select([process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                break
            found += chunk
        process.kill()
    return found.decode(errors="replace").split("\0")[:-1][:MOST_FILES]


def _walked(root: Path) -> list[str]:
    found: list[str] = []
    for directory, below, names in os.walk(root):
        below[:] = sorted(name for name in below if name not in (*CACHE_DIRECTORIES, *UNKNOWN_IGNORES))
        base = os.path.relpath(directory, root)
        kept = [name for name in sorted(names) if not any(fnmatch(name, pattern) for pattern in COMPILED_FILES)]
        found += [name if base == "." else f"{base}/{name}" for name in kept]
        if len(found) > MOST_FILES:
            break
    return found[:MOST_FILES]


def inputs(text: str, root: Path, *, typed: str | None = None) -> list[UserInput]:
    """A prompt's parts: its text, and what its `@words` point at, if it is there.

    `typed` is the text without what was pasted: an `@word` in a pasted text names no file to attach.
    """
    parts: list[UserInput] = [TextInput(text=text)]
    seen: set[str] = set()
    for found in _MENTIONED.finditer(text if typed is None else typed):
        path = found[1] or found[2].rstrip(".,;:!?)")
        if not path or path in seen:
            continue
        target = root / Path(path).expanduser()
        try:
            there = target.is_file()
        except (OSError, ValueError):
            continue
        if there:
            seen.add(path)
            picture = path.lower().endswith(PICTURES)
            parts.append(LocalImageInput(path=str(target)) if picture else FileInput(path=str(target)))
    return parts


def file_mention(path: str) -> str:
    """How a prompt points at a file."""
    return f'@"{path}"' if " " in path else f"@{path}"


def pasted_picture(text: str) -> str | None:
    """The path, when all that was pasted is the path of a picture: quoted, escaped or as `file://`, as terminals do.

    >>> pasted_picture("file:///tmp/a%20b.png")
    '/tmp/a b.png'
    """
    line = text.strip()
    if not line or "\n" in line:
        return None
    if line.startswith("file://"):
        line = unquote(urlparse(line).path)
    elif line[0] in "'\"" and line[-1] == line[0]:
        line = line[1:-1]
    else:
        line = line.replace("\\ ", " ")
    return line if line.lower().endswith(PICTURES) else None


def replace_word(text: str, cursor: int, found: CompletionQuery, choice: str) -> tuple[str, int]:
    """The text with the word replaced, and where the cursor goes."""
    word = f"/{choice} " if found.kind == "command" else f"{file_mention(choice)} "
    return text[: found.start] + word + text[cursor:], found.start + len(word)
