"""A change of files, prepared: computed whole, shown as diffs, and nothing touched yet."""

from collections.abc import Sequence

from hames.domain.items import FileUpdate
from hames.domain.value import Value
from hames.ports import FileEdit, Place, ToolFailed
from hames.ports.workspace import Missing
from hames.tools.diffs import update
from hames.tools.files.apply_changes import MAX_BYTES
from hames.tools.files.places import Spot, protected, relative

TOLD_CHARS = 3_000
"""Of the diff, to the model."""


class Revision(Value):
    """One file before and after; None: there is none. `mode` is given when it is to change."""

    spot: Spot
    before: bytes | None
    after: bytes | None
    mode: int | None = None


class Draft(Value):
    """What to do, how it is shown, and what the model reads when it is done."""

    changes: tuple[FileEdit, ...]
    updates: tuple[FileUpdate, ...]
    protected: bool
    done: str


def existing(spot: Spot) -> bytes | None:
    """What is there now, links not followed; None when there is nothing."""
    if spot.path == ".":
        raise ToolFailed(f"{spot.absolute!r} is a directory")
    try:
        with spot.open_root() as root:
            return root.read(spot.path, limit=MAX_BYTES, follow=False)
    except Missing:
        return None


def drafted(place: Place, revisions: Sequence[Revision], done: str, *, syntax: str = "") -> Draft:
    """Raises `ToolFailed` for what is too large to keep. `syntax` is what a parser says of the result."""
    for one in revisions:
        if one.after is not None and len(one.after) > MAX_BYTES:
            name = relative(place, one.spot.absolute)
            raise ToolFailed(f"{name!r} would have {len(one.after):,} bytes; the limit is {MAX_BYTES:,}")
    updates = tuple(
        update(one.spot.absolute, relative(place, one.spot.absolute), one.before, one.after, mode=one.mode)
        for one in revisions
    )
    return Draft(
        changes=tuple(
            FileEdit(root=one.spot.root, path=one.spot.path, before=one.before, after=one.after, mode=one.mode)
            for one in revisions
        ),
        updates=updates,
        protected=any(protected(one.spot, [other.spot for other in revisions]) for one in revisions),
        done="\n".join(part for part in (done, _told_diff(updates), f"[{syntax}]" if syntax else "") if part),
    )


def _told_diff(updates: Sequence[FileUpdate]) -> str:
    """The changes for the model. It knows what a new file says, because it wrote that itself."""
    diffs = [one.diff.removesuffix("\n") for one in updates if one.kind == "modify"]
    if len(updates) == 1:  # the names of the file are in the line above
        diffs = [
            "\n".join(line for line in diff.split("\n") if not line.startswith(("--- ", "+++ "))) for diff in diffs
        ]
    text = "\n".join(diffs)
    return text if len(text) <= TOLD_CHARS else f"{text[:TOLD_CHARS]}\n[… {len(text) - TOLD_CHARS:,} more characters]"
