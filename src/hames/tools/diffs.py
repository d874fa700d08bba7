"""Unified diffs: what a change does to a file, for people and for the record.

difflib takes quadratic time where much is alike and little is the same, so what is equal
at both ends is cut off first, and what remains of a big change is shown as out with the old, in with the new.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from hames.domain.items import FileUpdate
from hames.tools.files.texts import decoded, lines_of

CONTEXT_LINES = 3
MATCHED_PAIRS = 50_000
MAX_CHARS = 1 << 20

_Op = tuple[str, int, int, int, int]


def update(path: str, name: str, before: bytes | None, after: bytes | None, *, mode: int | None = None) -> FileUpdate:
    """How the change of `path` is shown; `name` is what its header calls it."""
    kind = "add" if before is None else "delete" if after is None else "modify"
    return FileUpdate(path=path, kind=kind, diff=_bounded(_diff(name, before, after, mode)))


def _diff(name: str, before: bytes | None, after: bytes | None, mode: int | None) -> str:
    name = name.lstrip("/")  # a file outside the working directory is named in full
    old, new = f"a/{name}" if before is not None else "/dev/null", f"b/{name}" if after is not None else "/dev/null"
    head = "" if mode is None else f"{'new file' if before is None else 'new'} mode 100{mode & 0o777:o}\n"
    sides = [decoded(content or b"") for content in (before, after)]
    if sides[0] is None or sides[1] is None:
        return f"{head}Binary files {old} and {new} differ\n"
    # Line ends and marks are part of the change when they change, and noise when they stay.
    same = all(getattr(sides[0], part) == getattr(sides[1], part) for part in ("crlf", "mark", "encoding"))
    texts = [text.body if same or not text.crlf else text.body.replace("\n", "\r\n") for text in (sides[0], sides[1])]
    if texts[0] == texts[1]:
        return head
    return f"{head}--- {old}\n+++ {new}\n" + "".join(_hunks(lines_of(texts[0]), lines_of(texts[1])))


def _hunks(old: list[str], new: list[str]) -> Iterator[str]:
    for group in _groups(_ops(old, new)):
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@\n"
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in old[old_from:old_to])
            else:
                yield from (_line("-", line) for line in old[old_from:old_to])
                yield from (_line("+", line) for line in new[new_from:new_to])


def _ops(old: list[str], new: list[str]) -> list[_Op]:
    """What to do with which lines, from beginning to end."""
    most = min(len(old), len(new))
    head = next((i for i in range(most) if old[i] != new[i]), most)
    most -= head
    tail = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    old_end, new_end = len(old) - tail, len(new) - tail
    left, right = old[head:old_end], new[head:new_end]
    counts = Counter(right)
    middle: Sequence[_Op] = [("replace", 0, len(left), 0, len(right))]
    if sum(counts[line] for line in left) <= MATCHED_PAIRS:
        middle = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    moved = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in middle]
    return [("equal", 0, head, 0, head), *moved, ("equal", old_end, len(old), new_end, len(new))]


def _groups(ops: list[_Op]) -> Iterator[list[_Op]]:
    """Changes with the lines around them; changes far apart are apart."""
    group: list[_Op] = []
    for tag, a, b, c, d in ops:
        if tag != "equal":
            group.append((tag, a, b, c, d))
            continue
        size = b - a
        if not group:
            shift = max(0, size - CONTEXT_LINES)
            group = [(tag, a + shift, b, c + shift, d)]
        elif size > 2 * CONTEXT_LINES:
            yield [*group, (tag, a, a + CONTEXT_LINES, c, c + CONTEXT_LINES)]
            group = [(tag, b - CONTEXT_LINES, b, d - CONTEXT_LINES, d)]
        else:
            group.append((tag, a, b, c, d))
    if any(op[0] != "equal" for op in group):
        tag, a, b, c, d = group[-1]
        if tag == "equal":
            group[-1] = (tag, a, min(b, a + CONTEXT_LINES), c, min(d, c + CONTEXT_LINES))
        yield group


def _span(start: int, end: int) -> str:
    count = end - start
    return f"{start + (count > 0)},{count}" if count != 1 else f"{start + 1}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _bounded(diff: str) -> str:
    if len(diff) <= MAX_CHARS:
        return diff
    return f"{diff[:MAX_CHARS]}\n[… {len(diff) - MAX_CHARS:,} characters of this diff omitted …]\n"
