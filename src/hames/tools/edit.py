"""`edit`: replaces a text in a file by another."""

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice, pairwise

from hames.deferred import pattern
from hames.domain.value import Value
from hames.ports import Job, Place, ToolFailed, ToolSpec, Work
from hames.ports.workspace import Missing, NotRegular
from hames.tools.drafts import Draft, Revision, drafted, existing
from hames.tools.edits.matching import Edit, find_edits, without_line_numbers
from hames.tools.edits.syntax import Checked, check_syntax
from hames.tools.files.apply_changes import MAX_BYTES
from hames.tools.files.missing import no_file
from hames.tools.files.places import PATH, Spot, locate, relative
from hames.tools.files.texts import Text, decoded, lines_of
from hames.tools.works import Changing, EditCheck, Seen, off_the_loop

LISTED_PLACES = 10
COMPARED_LINES = 10_000
CANDIDATES = 20
COMPARED_CHARS = 200
SHOWN_LINES = 12
SHOWN_CHARS = 500
ALIKE = 0.6
MAX_EDITS = 100
_ESCAPED = pattern(r"\\([nt\"'`\\])")


class EditTool:
    """The text must be there once, unless all of them are meant."""

    spec = ToolSpec(
        name="edit",
        description=(
            "Replace a text in a file. `old_string` is the text as the file has it, without the line numbers that "
            "`read` shows, and must occur exactly once: give enough lines around the change to make it unique, or set "
            "`replace_all`. Read the file first. The answer shows the change as a diff, and new syntax errors."
        ),
        schema={
            "type": "object",
            "properties": {
                "path": {**PATH, "description": "The file, inside the workspace; relative to the working directory."},
                "old_string": {"type": "string", "minLength": 1, "description": "The text to replace."},
                "new_string": {"type": "string", "description": "What to put there; empty to remove it."},
                "replace_all": {"type": "boolean", "description": "Replace every occurrence. Default: false."},
            },
            "required": ["path", "old_string", "new_string"],
            "additionalProperties": False,
        },
        writes=True,
        changes_files=True,
    )

    def __init__(self, seen: Seen, check: EditCheck | None = None) -> None:
        self._seen = seen
        self._check = check

    async def prepare(self, job: Job) -> Work:
        given = job.arguments
        wanted = Replacement(old=given["old_string"], new=given["new_string"], every=given.get("replace_all", False))
        return await prepare_edits(job, self._seen, [wanted], self._check)


class MultiEditTool:
    """Several replacements in one file, each upon what the one before made of it. Understood and not offered: models
    that learned it call it by name."""

    spec = ToolSpec(
        name="multi_edit",
        description="Replace several texts in a file, one after the other: either all of them or none.",
        schema={
            "type": "object",
            "properties": {
                "path": PATH,
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_EDITS,
                    "items": {
                        "type": "object",
                        "properties": {
                            "old_string": {"type": "string", "minLength": 1},
                            "new_string": {"type": "string"},
                            "replace_all": {"type": "boolean"},
                        },
                        "required": ["old_string", "new_string"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["path", "edits"],
            "additionalProperties": False,
        },
        writes=True,
        changes_files=True,
        offered=False,
    )

    def __init__(self, seen: Seen, check: EditCheck | None = None) -> None:
        self._seen = seen
        self._check = check

    async def prepare(self, job: Job) -> Work:
        edits = [
            Replacement(old=one["old_string"], new=one["new_string"], every=one.get("replace_all", False))
            for one in job.arguments["edits"]
        ]
        return await prepare_edits(job, self._seen, edits, self._check)


class Replacement(Value):
    old: str
    new: str
    every: bool = False


async def prepare_edits(job: Job, seen: Seen, edits: Sequence[Replacement], check: EditCheck | None = None) -> Work:
    """Raises `ToolFailed` for an edit that fits nowhere, or in several places."""
    spot = locate(job.place, job.arguments["path"])
    name = relative(job.place, spot.absolute)
    before = await off_the_loop(lambda: existing(spot))
    if before is None:
        raise Missing(f"{await off_the_loop(lambda: no_file(job.place, spot))}; `write` creates one")
    text = decoded(before)
    if text is None:
        raise NotRegular(f"{name!r} is not a text file")
    stale = seen.is_stale(spot.absolute, before)
    return await off_the_loop(
        lambda: Changing(job, _draft(job.place, spot, text, edits, before, stale=stale), seen, check)
    )


def _draft(place: Place, spot: Spot, text: Text, edits: Sequence[Replacement], before: bytes, *, stale: bool) -> Draft:
    name = relative(place, spot.absolute)
    body, total, first = text.body, 0, 0
    syntax: Checked | None = None
    for edit in edits:
        found = _Found(body, _fitted(text, edit.old), _fitted(text, edit.new), every=edit.every)
        body, forgiven = found.replaced(name, stale=stale)
        total, first = total + found.count, first or found.first_line
        syntax = check_syntax(name, text.body, body)
        if forgiven and syntax.broke_it:
            raise ToolFailed(
                f"`old_string` is in {name!r} only with other whitespace, indentation or quotes, and the file would "
                f"not be valid after the edit ({syntax.words}). {found.nearest()}"
            )
    after = text.encoded(body, name)
    done = f"Edited {name}: {total} replacement{'' if total == 1 else 's'}, first at line {first}"
    if stale:
        done += ". It had changed since you read it; the rest of it may not be what you know"
    words = syntax.words if syntax else ""
    return drafted(place, [Revision(spot=spot, before=before, after=after)], done, syntax=words)


class _Found:
    """Where a text is in a file, and what to put there."""

    def __init__(self, body: str, old: str, new: str, *, every: bool) -> None:
        if old == new:
            raise ToolFailed("`old_string` and `new_string` are the same")
        self._body, self._every = body, every
        if old not in body and "\r\n" in body:
            old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
        if old not in body and (plain := without_line_numbers(old)):
            old, new = plain, without_line_numbers(new) or new
        self._decoded = False
        if old not in body:
            for decode in (_without_escapes, _without_entities):
                if (plain := decode(old)) != old and body.count(plain) == 1 and decode(new) != plain:
                    old, new, self._decoded = plain, decode(new), True
                    break
        self._old, self._new = old, new
        self.count = 0
        self.first_line = 0

    def replaced(self, name: str, *, stale: bool) -> tuple[str, bool]:
        """The new body, and whether whitespace, indentation or quotes had to be forgiven. Raises `ToolFailed`."""
        body, old, new = self._body, self._old, self._new
        if old in body:
            lines = list(islice(_lines_with(body, old), LISTED_PLACES + 1))
            self._refuse_several(lines, name)
            self.count, self.first_line = body.count(old), lines[0]
            if len(body) + self.count * (len(new) - len(old)) > MAX_BYTES:  # counted first: replacements multiply
                raise ToolFailed(f"{name!r} would have more than {MAX_BYTES:,} bytes")
            return body.replace(old, new), self._decoded
        edits = _apart(find_edits(body, old, new))
        if not edits:
            since = "; it has changed since you read it" if stale else ""
            raise ToolFailed(f"`old_string` is not in {name!r}{since}. {self.nearest()}")
        self._refuse_several([body.count("\n", 0, edit.start) + 1 for edit in edits], name)
        self.count, self.first_line = len(edits), body.count("\n", 0, edits[0].start) + 1
        for edit in reversed(edits):
            body = body[: edit.start] + edit.text + body[edit.end :]
        if body == self._body:
            raise ToolFailed(f"{name!r} already has what the edit would put there. {self.nearest()}")
        return body, True

    def _refuse_several(self, lines: list[int], name: str) -> None:
        if len(lines) < 2 or self._every:
            return
        places = ", ".join(map(str, lines[:LISTED_PLACES])) + (", …" if len(lines) > LISTED_PLACES else "")
        raise ToolFailed(
            f"`old_string` occurs more than once in {name!r}, at lines {places}; "
            "give more of the text around it, or set `replace_all`"
        )

    def nearest(self) -> str:
        return _nearest(self._body, self._old)


def _without_escapes(text: str) -> str:
    """The text as it was before somebody escaped it once too often."""
    return _ESCAPED.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text)


def _without_entities(text: str) -> str:
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&amp;", "&")):
        text = text.replace(entity, char)
    return text


def _apart(edits: list[Edit]) -> list[Edit]:
    """None at all if two of them overlap: which of them is meant is not clear."""
    overlap = any(after.start < before.end for before, after in pairwise(edits))
    return [] if overlap else edits


def _fitted(text: Text, part: str) -> str:
    return part.replace("\r\n", "\n") if text.crlf else part


def _lines_with(body: str, old: str) -> Iterator[int]:
    """The line each occurrence begins on. Overlapping ones count: which of them is meant is not clear, either."""
    line, seen, at = 1, 0, body.find(old)
    while at >= 0:
        line += body.count("\n", seen, at)
        yield line
        seen, at = at, body.find(old, at + 1)


def _nearest(body: str, old: str) -> str:
    """Where it was probably meant, as the file has it, so that the next try can be right."""
    wanted = [line.strip() for line in lines_of(old)]
    there = lines_of(body)[:COMPARED_LINES]
    key = max(range(len(wanted)), key=lambda i: len(wanted[i]))
    where = _most_alike([line.strip() for line in there], wanted[key])
    if where is None:
        return "Nothing in the file looks like it"
    start = max(0, where - key)
    shown = [line.rstrip("\n") for line in there[start : start + min(len(wanted), SHOWN_LINES)]]
    numbered = "\n".join(f"{number:>6}\t{line[:SHOWN_CHARS]}" for number, line in enumerate(shown, start + 1))
    ends = [str(number) for number, line in enumerate(shown, start + 1) if line != line.rstrip()]
    aside = f"\n[whitespace at the end of line{'' if len(ends) == 1 else 's'} {', '.join(ends)}]" if ends else ""
    return f"The nearest text is:\n{numbered}{aside}"


def _most_alike(lines: list[str], wanted: str) -> int | None:
    """The line that is most like `wanted`. Comparing well is slow, so only the most promising are compared well."""
    if wanted in lines:
        return lines.index(wanted)
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[:COMPARED_CHARS])

    def alike(index: int, ratio: Callable[[], float]) -> float:
        matcher.set_seq1(lines[index][:COMPARED_CHARS])
        return ratio() if matcher.real_quick_ratio() > ALIKE else 0.0

    promising = nlargest(CANDIDATES, range(len(lines)), key=lambda i: alike(i, matcher.quick_ratio))
    best = max(promising, key=lambda i: alike(i, matcher.ratio), default=None)
    return best if best is not None and alike(best, matcher.ratio) > ALIKE else None
