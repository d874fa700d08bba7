"""What to say of a file that is not there: which one may be meant."""

from difflib import get_close_matches

from hames.ports import Place, ToolFailed
from hames.tools.files.places import Spot, relative

WALKED_ENTRIES = 20_000
DEPTH = 12
NAMED = 3
_SKIPPED = frozenset({".git", ".harness", "node_modules", "__pycache__", ".venv", "venv", "target"})


def no_file(place: Place, spot: Spot) -> str:
    """One sentence without its end."""
    found = _alike(place, spot)
    aside = f"; did you mean {' or '.join(map(repr, found))}?" if found else ""
    return f"no file {relative(place, spot.absolute)!r}{aside}"


def _alike(place: Place, spot: Spot) -> list[str]:
    """Files of the same name elsewhere first, then those whose path is nearly the same."""
    try:
        with place.files.open(place.workspace) as root:
            paths = [
                entry.path
                for entry in root.walk(".", depth=DEPTH, limit=WALKED_ENTRIES, skip=_SKIPPED)
                if entry.kind in ("file", "link")
            ]
    except ToolFailed:
        return []
    wanted = spot.path if spot.root == place.workspace else spot.absolute
    name = wanted.rpartition("/")[2]
    same = [path for path in paths if path.rpartition("/")[2].lower() == name.lower()]
    if same:
        same.sort(key=lambda path: (-_shared_end(path, wanted), len(path)))
    else:
        close = get_close_matches(name, {path.rpartition("/")[2] for path in paths}, n=NAMED, cutoff=0.75)
        same = [path for one in close for path in paths if path.rpartition("/")[2] == one]
    return [relative(place, f"{place.workspace.rstrip('/')}/{path}") for path in same[:NAMED]]


def _shared_end(one: str, other: str) -> int:
    """How many parts of the two paths are the same, counted from their ends."""
    count = 0
    for left, right in zip(reversed(one.split("/")), reversed(other.split("/")), strict=False):
        if left.lower() != right.lower():
            break
        count += 1
    return count
