"""`patch`: changes to several files that happen together or not at all."""

import stat
from collections.abc import Sequence

from hames.deferred import pattern
from hames.ports import Job, Place, ToolFailed, ToolSpec, Work
from hames.tools.drafts import Draft, Revision, drafted, existing
from hames.tools.edits.syntax import check_syntax
from hames.tools.files.missing import no_file
from hames.tools.files.places import Spot, locate, protected, relative
from hames.tools.files.texts import Text, decoded
from hames.tools.patches import begin_patch, unified
from hames.tools.patches.hunks import FilePatch, apply_hunks
from hames.tools.patches.wrapping import unwrapped
from hames.tools.works import Changing, EditCheck, Seen, off_the_loop

MAX_FILES = 200
CHECKED_FILES = 20
_FOREIGN = pattern(r"^[A-Za-z]:|\\|[\0-\x1f]")


class PatchTool:
    """Everything is computed first, in memory, each file of the patch upon the one before."""

    spec = ToolSpec(
        name="patch",
        description=(
            "Change one or more files with a patch; either all of it is applied or nothing. Two formats: a unified "
            "diff (`--- a/path`, `+++ b/path`, `@@ -1,4 +1,5 @@`; /dev/null for new and deleted files; git's `rename "
            "from` and `rename to`), or `*** Begin Patch` with `*** Add File:`, `*** Update File:`, `*** Delete File:` "
            "and `*** Move to:`. Context lines are lines of the file. Line numbers may be off when the lines "
            "occur only once. Paths are relative to the working directory."
        ),
        schema={
            "type": "object",
            "properties": {"patch": {"type": "string", "minLength": 1, "description": "The whole patch."}},
            "required": ["patch"],
            "additionalProperties": False,
        },
        writes=True,
        changes_files=True,
    )

    def __init__(self, seen: Seen, check: EditCheck | None = None) -> None:
        self._seen = seen
        self._check = check

    async def prepare(self, job: Job) -> Work:
        return await off_the_loop(lambda: Changing(job, _draft(job), self._seen, self._check))


def _draft(job: Job) -> Draft:
    patch: str = job.arguments["patch"]
    if patch.count("\r\n") == patch.count("\n"):
        patch = patch.replace("\r\n", "\n")
    patch = unwrapped(patch)
    reader = begin_patch if patch.lstrip().startswith(begin_patch.BEGIN) else unified
    parts = reader.parse_patch(patch)
    if len(parts) > MAX_FILES:
        raise ToolFailed(f"the patch changes {len(parts)} files; the limit is {MAX_FILES}")
    files: dict[str, Revision] = {}
    for part in parts:
        _take(files, job.place, part)
    changed = [file for file in files.values() if file.before != file.after or file.mode is not None]
    if not changed:
        raise ToolFailed("the patch changes nothing")
    lines = [f"{_verb(file)} {relative(job.place, file.spot.absolute)}" for file in changed]
    return drafted(job.place, changed, "\n".join(["Patched:", *lines]), syntax=_syntax(job.place, changed))


def _syntax(place: Place, changed: Sequence[Revision]) -> str:
    found: list[str] = []
    for file in changed[:CHECKED_FILES]:
        texts = [decoded(content or b"") for content in (file.before, file.after)]
        if file.after is not None and texts[0] is not None and texts[1] is not None:
            name = relative(place, file.spot.absolute)
            if words := check_syntax(name, texts[0].body, texts[1].body).words:
                found.append(f"{name}: {words}")
    return "; ".join(found)


def _take(files: dict[str, Revision], place: Place, part: FilePatch) -> None:
    """One part of the patch, upon what the parts before it made of the files."""
    file = _file(files, place, part.path)
    if part.kind == "add":
        if file.after is not None:
            raise ToolFailed(f"{part.path!r} is to be added and is there already")
        content = Text(body="").encoded(apply_hunks("", part.hunks, part.path).body, part.path)
        _put(files, file, content, mode=part.mode if part.mode == 0o755 else None)
        return
    if file.after is None:
        raise ToolFailed(no_file(place, file.spot))
    content = _changed(file.after, part)
    if part.kind == "delete":
        if part.hunks and content:
            raise ToolFailed(f"{part.path!r} is to be deleted, and has lines that the patch does not remove")
        _put(files, file, None)
    elif part.move_to:
        _move(files, file, _file(files, place, part.move_to), part, content)
    else:
        _put(files, file, content, mode=_mode(file, part.mode))


def _move(files: dict[str, Revision], file: Revision, target: Revision, part: FilePatch, content: bytes) -> None:
    if target.after is not None:
        raise ToolFailed(f"{part.path!r} is to become {part.move_to!r}, which is there already")
    if protected(target.spot) or protected(file.spot):
        raise ToolFailed(f"{part.path!r} is to become {part.move_to!r}: nothing is renamed from or to a protected path")
    mode = _mode(file, part.mode)
    _put(files, target, content, mode=_mode_of(file.spot) if mode is None and file.before is not None else mode)
    _put(files, file, None)


def _changed(content: bytes, part: FilePatch) -> bytes:
    if not part.hunks:
        return content
    text = decoded(content)
    if text is None:
        raise ToolFailed(f"{part.path!r} is not a text file")
    body, forgiven = apply_hunks(text.body, part.hunks, part.path)
    if forgiven and (broken := check_syntax(part.move_to or part.path, text.body, body)).broke_it:
        raise ToolFailed(
            f"the lines for {part.path!r} are there only with other whitespace, indentation or quotes, and the file "
            f"would not be valid after the patch ({broken.words}); read it and try again"
        )
    return text.encoded(body, part.path) if body or part.kind != "delete" else b""


def _file(files: dict[str, Revision], place: Place, path: str) -> Revision:
    below = _inside(place, path)
    refusal = ToolFailed(f"{path!r} is not a path for a patch: use a relative path, with `/` and without `..`")
    if not below or below.startswith("/") or _FOREIGN.search(below) or ".." in below.split("/"):
        raise refusal
    spot = locate(place, below)
    if below != path and protected(spot):  # guard rails are named as they are shown
        raise refusal
    if spot.absolute not in files:
        before = existing(spot)
        files[spot.absolute] = Revision(spot=spot, before=before, after=before)
    return files[spot.absolute]


def _inside(place: Place, path: str) -> str:
    """A path below the working directory may be given in full."""
    return path.removeprefix(f"{place.cwd.rstrip('/')}/") if path.startswith("/") else path


def _put(files: dict[str, Revision], file: Revision, content: bytes | None, *, mode: int | None = None) -> None:
    files[file.spot.absolute] = Revision(spot=file.spot, before=file.before, after=content, mode=mode)


def _mode(file: Revision, wanted: int | None) -> int | None:
    """git knows one bit of the mode; the others stay."""
    if wanted is None or file.before is None:
        return file.mode
    mode = _mode_of(file.spot)
    changed = mode | (mode & 0o444) >> 2 if wanted == 0o755 else mode & ~0o111
    return changed if changed != mode else file.mode


def _mode_of(spot: Spot) -> int:
    with spot.open_root() as root:
        return stat.S_IMODE(root.mode(spot.path, follow=False))


def _verb(file: Revision) -> str:
    return "added" if file.before is None else "deleted" if file.after is None else "changed"
