"""Reading a unified diff, as `diff -u` and `git diff` write it and models write it from memory.

The signs before the lines count; the numbers in a hunk's head are believed only about where
it begins, and where they tell a removed line `-- x` from the next file's head.
"""

from collections.abc import Iterator

from hames.deferred import pattern
from hames.ports import ToolFailed
from hames.tools.patches.hunks import FilePatch, Hunk, Sign

NOTHING = "/dev/null"
PLAIN_MODES = {"100644": 0o644, "100755": 0o755}

_HEAD = pattern(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE = pattern(r'\\([0-7]{3}|[abtnvfr"\\])')
_ESCAPED = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


def parse_patch(patch: str) -> list[FilePatch]:
    """Raises `ToolFailed` for what is no patch, or one that does what a patch here may not."""
    reader = _Reader(patch)
    files = list(reader.files())
    if not files:
        raise ToolFailed("there is no file in this patch: it begins with `--- a/path` and `+++ b/path`")
    return files


class _Section:
    """One file's part, as far as it is known."""

    def __init__(self) -> None:
        self.old = self.new = ""
        self.moved = False
        self.added = self.deleted = False
        self.mode: int | None = None
        self.hunks: list[Hunk] = []

    def finished(self) -> FilePatch:
        old, new = self.old, self.new
        if old == NOTHING and new == NOTHING:
            raise ToolFailed("a file of the patch is /dev/null on both sides")
        if self.added or old == NOTHING:
            return FilePatch(path=new, kind="add", hunks=tuple(self.hunks), mode=self.mode)
        if self.deleted or new == NOTHING:
            return FilePatch(path=old, kind="delete", hunks=tuple(self.hunks))
        move_to = new if old != new else ""
        if move_to and not self.moved:
            raise ToolFailed(
                f"the patch calls one file {old!r} and {new!r}; a rename says `rename from` and `rename to`"
            )
        return FilePatch(path=old, kind="modify", hunks=tuple(self.hunks), move_to=move_to, mode=self.mode)


class _Reader:
    def __init__(self, patch: str) -> None:
        self._lines = patch.split("\n")
        if self._lines and self._lines[-1] == "":
            self._lines.pop()
        self._at = 0
        self._section: _Section | None = None

    def files(self) -> Iterator[FilePatch]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git "):
                yield from self._begin()
                assert self._section is not None
                self._section.old, self._section.new = _git_names(line)
                self._at += 1
            elif self._at_names():
                yield from self._names()
            elif line.startswith("@@"):
                self._hunk()
            else:
                self._extended(line)
                self._at += 1
        yield from self._end()

    def _begin(self) -> Iterator[FilePatch]:
        yield from self._end()
        self._section = _Section()

    def _end(self) -> Iterator[FilePatch]:
        if self._section is not None:
            yield self._section.finished()
        self._section = None

    def _at_names(self, *, sure: bool = False) -> bool:
        """`sure`: a removed line `-- x` and an added `++ y` look the same, so a hunk must follow."""
        signs = ("--- ", "+++ ", "@@") if sure else ("--- ", "+++ ")
        there = self._lines[self._at : self._at + len(signs)]
        return len(there) == len(signs) and all(map(str.startswith, there, signs))

    def _names(self) -> Iterator[FilePatch]:
        if self._section is None or self._section.hunks:
            yield from self._begin()
        assert self._section is not None
        old, new = (_name(self._lines[self._at + i][4:]) for i in range(2))
        if old.startswith(("a/", NOTHING)) and new.startswith(("b/", NOTHING)):
            old, new = old.removeprefix("a/"), new.removeprefix("b/")
        if not self._section.moved:
            self._section.old, self._section.new = old, new
        self._at += 2

    def _extended(self, line: str) -> None:
        """git's lines between `diff --git` and the first hunk. Anything else outside a hunk is not ours to read."""
        section = self._section
        if section is None or section.hunks:
            return
        words = line.split(" ")
        match words:
            case ["new", "file", "mode", mode]:
                section.added, section.mode = True, _mode(mode)
            case ["deleted", "file", "mode", mode]:
                section.deleted = True
                _mode(mode)
            case ["old", "mode", mode]:
                _mode(mode)
            case ["new", "mode", mode]:
                section.mode = _mode(mode)
            case ["rename", "from", *_]:
                section.old, section.moved = _name(line[12:]), True
            case ["rename", "to", *_]:
                section.new, section.moved = _name(line[10:]), True
            case ["copy", ("from" | "to"), *_]:
                raise ToolFailed("the patch copies a file; write the copy as a new file instead")
            case ["GIT", "binary", "patch"] | ["Binary", "files", *_]:
                raise ToolFailed("the patch changes a binary file, which is not possible here")
            case _:
                pass

    def _hunk(self) -> None:
        head = self._lines[self._at]
        if self._section is None:
            raise ToolFailed(f"line {self._at + 1} of the patch: a hunk before any `---` and `+++`")
        stated = _HEAD.match(head)
        if stated is None and head.strip("@ "):
            raise ToolFailed(f"line {self._at + 1} of the patch: {head!r} is no head of a hunk")
        old_left = int(stated[2] or 1) if stated else 0
        new_left = int(stated[4] or 1) if stated else 0
        lines: list[tuple[Sign, str]] = []
        bare = 0
        newline: bool | None = None
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at]
            owed = old_left > 0 or new_left > 0
            if line.startswith(("@@", "diff --git ")) or self._at_names(sure=owed) or (not owed and line == "-- "):
                break
            if line.startswith("\\"):
                newline = False if lines and lines[-1][0] != "-" else True if newline is None else newline
                self._at += 1
                continue
            sign, text = _split(line)
            if sign is None:
                if not owed:
                    break
                raise ToolFailed(f"line {self._at + 1} of the patch begins with none of ` `, `-`, `+`: {line!r}")
            bare = bare + 1 if line == "" else 0
            lines.append((sign, text))
            old_left -= sign != "+"
            new_left -= sign != "-"
            self._at += 1
        # An empty line after a hunk is a gap between files, unless the head counts it.
        while bare and (stated is None or old_left < 0):
            lines.pop()
            bare, old_left = bare - 1, old_left + 1
        at = int(stated[1]) if stated else None
        self._section.hunks.append(Hunk(lines=tuple(lines), at=at, newline=newline))


def _split(line: str) -> tuple[Sign | None, str]:
    match line[:1]:
        case "":
            return " ", ""  # an empty line of context whose only character, the sign, was trimmed
        case (" " | "-" | "+") as sign:
            return sign, line[1:]
        case _:
            return None, line


def _mode(word: str) -> int:
    if word not in PLAIN_MODES:
        kinds = {"120000": "a symbolic link", "160000": "a submodule"}
        raise ToolFailed(f"the patch makes or changes {kinds.get(word, f'a file of mode {word}')}, which is refused")
    return PLAIN_MODES[word]


def _name(text: str) -> str:
    if text.startswith('"'):
        return _unquoted(text)
    return text.split("\t", maxsplit=1)[0].removesuffix("\r")


def _unquoted(text: str) -> str:
    """git quotes names as C does, byte by byte."""
    inner = text.strip()[1:-1]
    raw = _ESCAPE.sub(lambda m: chr(int(m[1], 8) if m[1].isdigit() else _ESCAPED[m[1]]), inner)
    return b"".join(c.encode("latin-1") if ord(c) < 256 else c.encode() for c in raw).decode("utf-8", "replace")


def _git_names(line: str) -> tuple[str, str]:
    """Of `diff --git a/x b/x`. Needed where no `---` follows; a name with a space is told by both being the same."""
    rest = line[len("diff --git ") :]
    half = len(rest) // 2
    old, new = rest[:half], rest[half + 1 :]
    if old.startswith("a/") and new.startswith("b/") and old[2:] == new[2:]:
        return old[2:], new[2:]
    parts = rest.split(" ")
    if len(parts) == 2 and parts[0].startswith("a/") and parts[1].startswith("b/"):
        return parts[0][2:], parts[1][2:]
    return "", ""
