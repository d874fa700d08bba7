"""A change of files, prepared: computed whole, shown as diffs, and nothing touched yet."""

from collections.abc import Sequence

from hames.domain.items import FileUpdate
from hames.domain.value import Value
from hames.ports import FileEdit, Place, ToolFailed
from hames.ports.workspace import Missing
from hames.tools.diffs import update
from hames.tools.files.apply_changes import MAX_BYTES
from hames.tools.files.places import Spot, protected, relative


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


def drafted(place: Place, revisions: Sequence[Revision], done: str) -> Draft:
    """Raises `ToolFailed` for what is too large to keep."""
    for one in revisions:
        if one.after is not None and len(one.after) > MAX_BYTES:
            name = relative(place, one.spot.absolute)
            raise ToolFailed(f"{name!r} would have {len(one.after):,} bytes; the limit is {MAX_BYTES:,}")
    return Draft(
        changes=tuple(
            FileEdit(root=one.spot.root, path=one.spot.path, before=one.before, after=one.after, mode=one.mode)
            for one in revisions
        ),
        updates=tuple(
            update(one.spot.absolute, relative(place, one.spot.absolute), one.before, one.after, mode=one.mode)
            for one in revisions
        ),
        protected=any(protected(one.spot, [other.spot for other in revisions]) for one in revisions),
        done=done,
    )
