"""`edit`: one exact text for another."""

from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice

from hames.ports import Job, ToolFailed, ToolSpec, Work
from hames.ports.workspace import Missing, NotRegular
from hames.tools.drafts import Draft, Revision, drafted, existing
from hames.tools.files.apply_changes import MAX_BYTES
from hames.tools.files.places import PATH, Spot, locate, relative
from hames.tools.files.texts import Text, decoded, lines_of
from hames.tools.works import Changing, Seen, off_the_loop

LISTED_PLACES = 10
COMPARED_LINES = 10_000
CANDIDATES = 20
COMPARED_CHARS = 200
SHOWN_LINES = 12
SHOWN_CHARS = 500
ALIKE = 0.6


class EditTool:
    """The text must be there exactly once, unless all of them are meant."""

    spec = ToolSpec(
        name="edit",
        description=(
            "Replace an exact text in a file. `old_string` must match the file character for character, indentation "
            "included, without the line numbers that `read` shows, and must occur exactly once: give enough lines "
            "around the change to make it unique, or set `replace_all`. Read the file first."
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

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def prepare(self, job: Job) -> Work:
        spot = locate(job.place, job.arguments["path"])
        name = relative(job.place, spot.absolute)
        before = await off_the_loop(lambda: existing(spot))
        if before is None:
            raise Missing(f"no file {name!r}; `write` creates one")
        text = decoded(before)
        if text is None:
            raise NotRegular(f"{name!r} is not a text file")
        stale = self._seen.stale(spot.absolute, before)
        return await off_the_loop(lambda: Changing(job, _draft(job, spot, name, before, text, stale=stale), self._seen))


def _draft(job: Job, spot: Spot, name: str, before: bytes, text: Text, *, stale: bool) -> Draft:
    old, new = _fitted(text, job.arguments["old_string"]), _fitted(text, job.arguments["new_string"])
    body, every = text.body, job.arguments.get("replace_all", False)
    if old == new:
        raise ToolFailed("`old_string` and `new_string` are the same")
    if old not in body and "\r\n" in body:
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    if old not in body:
        since = "; it has changed since you read it" if stale else ""
        raise ToolFailed(f"`old_string` is not in {name!r}{since}. {_nearest(body, old)}")
    lines = list(islice(_lines_with(body, old), LISTED_PLACES + 1))
    if len(lines) > 1 and not every:
        places = ", ".join(map(str, lines[:LISTED_PLACES])) + (", …" if len(lines) > LISTED_PLACES else "")
        raise ToolFailed(
            f"`old_string` occurs more than once in {name!r}, at lines {places}; "
            "give more of the text around it, or set `replace_all`"
        )
    count = body.count(old)
    if len(body) + count * (len(new) - len(old)) > MAX_BYTES:  # counted first: small replacements multiply
        raise ToolFailed(f"{name!r} would have more than {MAX_BYTES:,} bytes")
    after = text.encoded(body.replace(old, new), name)
    done = f"Edited {name}: {count} replacement{'' if count == 1 else 's'}, first at line {lines[0]}"
    return drafted(job.place, [Revision(spot=spot, before=before, after=after)], done)


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
    shown = there[start : start + min(len(wanted), SHOWN_LINES)]
    numbered = "\n".join(f"{number:>6}\t{line.rstrip()[:SHOWN_CHARS]}" for number, line in enumerate(shown, start + 1))
    return f"The nearest text is:\n{numbered}"


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
