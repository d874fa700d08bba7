"""Reads the project notes of a workspace: AGENTS.md, or CLAUDE.md where there is no AGENTS.md beside it.

The user's own come first, then those of the repository from its root down to the working directory. Links are
followed as long as they stay in the repository; each file is opened below the descriptor of its root, so that
nothing that is swapped meanwhile can lead elsewhere. The user's own file may be a link to anywhere.
"""

import os
import stat
from pathlib import Path

from hames.domain.project_notes import Note
from hames.ports.workspace import FileRefused, LinkInTheWay, Missing, NotRegular, Outside
from hames.tools.files.directory import LocalDirectory
from hames.tools.files.refusals import shown

NAMES = ("AGENTS.md", "CLAUDE.md")
FILE_BYTES = 32 << 10
"""Of one file."""
ALL_BYTES = 128 << 10
"""Of all files together. The nearest are the last to be left out."""
DEPTH = 64
"""So many directories up, at most, a repository's root is looked for."""
HOPS = 8
"""So many absolute links in a row are followed."""


class WorkspaceNotes:
    """Implements `ports.Notes`. `own` is the directory of the user's own notes."""

    def __init__(self, own: Path | None) -> None:
        self._own = own

    def read(self, cwd: str) -> tuple[Note, ...]:
        """General first, nearest last. Raises nothing: what cannot be read says why."""
        found = _Found()
        if self._own is not None:
            _read_below(found, self._own, [""], anywhere=True)
        here = Path(os.path.realpath(cwd))
        root, planted = _repository(here)
        found.notes += planted
        _read_below(found, root, _folders(root, here))
        return _within(found.notes)


class _Found:
    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.seen: set[tuple[int, int]] = set()
        """The files that were read, by device and inode: one that is linked to twice is shown once."""


def _repository(here: Path) -> tuple[Path, list[Note]]:
    """The root of the repository around `here`, or `here` itself; and notes that are not to be trusted.

    A directory above that somebody else may write in is none of ours: `.git` in `/tmp` is easily planted.
    """
    owner = _look(here)
    for folder in (here, *here.parents[:DEPTH]):
        found = _look(folder)
        if owner is None or found is None:
            break
        problem = "" if folder == here else _planted(found, owner)
        if os.path.lexists(folder / ".git"):
            if not problem:
                return folder, []
            paths = [folder / name for name in NAMES if os.path.lexists(folder / name)]
            return here, [Note(path=shown(str(path)), problem=problem) for path in paths[:1]]
        if problem:
            break
    return here, []


def _look(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def _planted(found: os.stat_result, owner: os.stat_result) -> str:
    if found.st_mode & stat.S_IWOTH:
        return "everybody can write in its directory"
    if found.st_uid not in (os.geteuid(), owner.st_uid):
        return "its directory belongs to somebody else"
    return ""


def _folders(root: Path, here: Path) -> list[str]:
    """From the root down, each relative to it with a slash behind; the root is nothing at all."""
    parts = here.relative_to(root).parts
    return ["".join(f"{part}/" for part in parts[:depth]) for depth in range(len(parts) + 1)]


def _read_below(found: _Found, root: Path, folders: list[str], *, anywhere: bool = False) -> None:
    try:
        with LocalDirectory(str(root)) as beneath:
            for folder in folders:
                for name in NAMES:
                    if not _is_there(beneath, folder + name):
                        continue
                    note = _own(root / name, found) if anywhere else _note(beneath, folder + name, found)
                    found.notes += [note] if note is not None else []
                    break
    except FileRefused:
        return  # the directory itself is not there


def _is_there(beneath: LocalDirectory, path: str) -> bool:
    try:
        os.stat(path, dir_fd=beneath.fd, follow_symlinks=False)
    except (OSError, ValueError):
        return False
    return True


def _note(beneath: LocalDirectory, path: str, found: _Found) -> Note | None:
    name = shown(str(Path(beneath.root) / path))
    try:
        return _shown(name, *_opened(beneath, path), found)
    except Outside:
        return Note(path=name, problem=f"it is a link that leads out of {shown(beneath.root)}")
    except LinkInTheWay:
        return Note(path=name, problem="it is a link that leads in a circle")
    except Missing:
        return Note(path=name, problem="it is a link to a file that does not exist")
    except NotRegular:
        return Note(path=name, problem="it is not a regular file")
    except FileRefused as refusal:
        return Note(path=name, problem=str(refusal))


def _opened(beneath: LocalDirectory, path: str) -> tuple[bytes, os.stat_result]:
    """The beginning of the file. An absolute link into the same directory tree stays inside as well."""
    for _ in range(HOPS):
        try:
            return beneath.head(path, limit=FILE_BYTES + 4)
        except Outside:
            target = _absolute_target(beneath, path)
            if target is None:
                raise
            path = target
    raise LinkInTheWay(f"{shown(path)!r} is a link to a link to a link")


def _absolute_target(beneath: LocalDirectory, path: str) -> str | None:
    """Where below the root an absolute link leads, if it does. Opening decides, this only finds the way."""
    try:
        target = os.readlink(path, dir_fd=beneath.fd)
    except OSError:
        return None
    inside = beneath.root.rstrip("/") + "/"
    return target[len(inside) :].lstrip("/") or None if target.startswith(inside) else None


def _own(path: Path, found: _Found) -> Note | None:
    name, real = shown(str(path)), Path(os.path.realpath(path))
    try:
        with LocalDirectory(str(real.parent)) as folder:
            return _shown(name, *folder.head(real.name, limit=FILE_BYTES + 4), found)
    except FileRefused as refusal:
        return Note(path=name, problem=str(refusal))


def _shown(path: str, data: bytes, about: os.stat_result, found: _Found) -> Note | None:
    """None for an empty file, and for one that was shown under another name."""
    key = about.st_dev, about.st_ino
    if key in found.seen:
        return None
    found.seen.add(key)
    text = data[:FILE_BYTES].decode(errors="replace")
    if len(data) <= FILE_BYTES:
        return Note(path=path, text=text.strip()) if text.strip() else None
    whole = data[:FILE_BYTES].decode(errors="ignore").rstrip()  # not half a character at the end
    mark = f"[cut: these are the first {FILE_BYTES:,} of {about.st_size:,} bytes]"
    problem = f"the model is shown the first {FILE_BYTES:,} of its {about.st_size:,} bytes"
    return Note(path=path, text=f"{whole}\n{mark}", problem=problem)


def _within(notes: list[Note]) -> tuple[Note, ...]:
    left = ALL_BYTES
    kept: list[Note] = []
    for note in reversed(notes):
        size = len(note.text.encode())
        if size > left:
            problem = (
                f"the notes are too long: together they may have {ALL_BYTES:,} bytes, and more specific ones come first"
            )
            kept.append(Note(path=note.path, problem=problem))
        else:
            left -= size
            kept.append(note)
    return tuple(reversed(kept))
