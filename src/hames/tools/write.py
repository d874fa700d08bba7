"""`write`: a whole file, new or replaced."""

from hames.ports import Job, ToolFailed, ToolSpec, Work
from hames.tools.drafts import Draft, Revision, drafted, existing
from hames.tools.edits.syntax import check_syntax
from hames.tools.files.places import PATH, Spot, locate, relative
from hames.tools.files.texts import Text, decoded, lines_of
from hames.tools.works import Changing, EditCheck, Seen, off_the_loop


class WriteTool:
    """Keeps the mode, the line ends and the encoding of what it replaces."""

    spec = ToolSpec(
        name="write",
        description=(
            "Write a whole file: create it, with its missing directories, or replace all of its content. "
            "Use `edit` or `patch` to change a part of a file, and `read` a file before you replace it. "
            "An existing file keeps its mode, line endings and encoding."
        ),
        schema={
            "type": "object",
            "properties": {
                "path": {**PATH, "description": "The file, inside the workspace; relative to the working directory."},
                "content": {"type": "string", "description": "The whole new content."},
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        writes=True,
        changes_files=True,
    )

    def __init__(self, seen: Seen, check: EditCheck | None = None) -> None:
        self._seen = seen
        self._check = check

    async def prepare(self, job: Job) -> Work:
        spot = locate(job.place, job.arguments["path"])
        before = await off_the_loop(lambda: existing(spot))
        if before is not None and (why := self._seen.unseen(spot.absolute, before)) and not _is_same(job, before):
            raise ToolFailed(f"{relative(job.place, spot.absolute)!r} {why}")
        return await off_the_loop(lambda: Changing(job, _draft(job, spot, before), self._seen, self._check))


def _is_same(job: Job, before: bytes) -> bool:
    text = decoded(before)
    return text is not None and text.body == job.arguments["content"]


def _draft(job: Job, spot: Spot, before: bytes | None) -> Draft:
    name, content = relative(job.place, spot.absolute), job.arguments["content"]
    form = (decoded(before) if before else None) or Text(body="")
    after = form.encoded(content, name)
    if after == before:
        return Draft(changes=(), updates=(), protected=False, done=f"{name} already has exactly this content")
    count = len(lines_of(content))
    kept = f", {form.peculiarities} kept" if form.peculiarities else ""
    verb = "Created" if before is None else "Replaced"
    done = f"{verb} {name} ({count} line{'' if count == 1 else 's'}{kept})"
    syntax = check_syntax(name, form.body, content)
    return drafted(job.place, [Revision(spot=spot, before=before, after=after)], done, syntax=syntax.words)
