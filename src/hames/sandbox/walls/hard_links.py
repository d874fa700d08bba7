"""Files of a writable directory that are also known by a name outside it.

Package managers link their cache into `.venv` and `node_modules`, and `git clone` links the objects of a local
repository. It is one file with two names: whoever may write the one changes the other, and no mount can tell them
apart. So such a file is replaced by a copy of its own before a command runs. A large one is shown read-only instead.
"""

import os
import secrets
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress

from hames.private_files import descriptor
from hames.sandbox.paths import root_of
from hames.sandbox.walls.beneath_root import open_directory
from hames.sandbox.walls.mounts import Mount
from hames.sandbox.walls.workspace_survey import LinkedName, SurveyResult

LARGE_BYTES = 64 << 20
_SPARE_BYTES = 1 << 30
_MOST_MOUNTS = 32
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def find_shared_files(
    seen: Iterable[SurveyResult], roots: Sequence[str], *, read_only: Sequence[str] = ()
) -> list[LinkedName]:
    """Files in the writable `roots` with a name outside them. What is `read_only` in there counts as outside."""
    names = {name.path: name for one in seen for name in one.linked}
    if not names or not roots:
        return []
    open_to_us, closed = (tuple(f"{path}/" for path in paths) for paths in (roots, read_only))
    exact = frozenset(read_only)
    writable = [
        name
        for path, name in names.items()
        if path.startswith(open_to_us) and not path.startswith(closed) and path not in exact
    ]
    count = Counter((name.device, name.inode) for name in writable)
    return [name for name in writable if count[name.device, name.inode] < name.links]


def separate_files(
    names: Sequence[LinkedName], roots: Sequence[str], *, can_mount: bool
) -> tuple[list[str], list[str]]:
    """Gives each of these files content of its own. Returns those that were copied and those that could not be."""
    copied: list[str] = []
    left: list[str] = []
    firsts: dict[tuple[int, int], str] = {}
    by_directory: dict[str, list[LinkedName]] = {}
    for name in names:
        by_directory.setdefault(os.path.dirname(name.path), []).append(name)
    for directory, inside_it in by_directory.items():
        try:
            with _open_beneath(directory, roots) as place:
                for name in inside_it:
                    if not _can_be_changed(name.path, place):
                        continue
                    first = firsts.get((name.device, name.inode))
                    if _separate(name, place, first, roots, can_mount=can_mount):
                        copied.append(name.path)
                        firsts.setdefault((name.device, name.inode), name.path)
                    else:
                        left.append(name.path)
        except OSError:
            left += [name.path for name in inside_it if os.path.lexists(name.path)]
    return copied, left


def _open_beneath(directory: str, roots: Sequence[str]) -> AbstractContextManager[int]:
    """The directory, reached without following a link that a running command could have put there."""
    root = root_of(directory, roots)
    assert root is not None
    return open_directory(root, directory)


def _can_be_changed(path: str, place: int) -> bool:
    """Whether we, and so a command, could write to it, now or after a change of its mode."""
    with suppress(OSError):
        about = os.stat(os.path.basename(path), dir_fd=place, follow_symlinks=False)
        return os.geteuid() in (0, about.st_uid) or os.access(os.path.basename(path), os.W_OK, dir_fd=place)
    return False


def _separate(name: LinkedName, place: int, first: str | None, roots: Sequence[str], *, can_mount: bool) -> bool:
    base = os.path.basename(name.path)
    temporary = f".hames-{secrets.token_hex(8)}"
    try:
        source = os.open(base, _FILE, dir_fd=place)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        about = os.fstat(source)
        if not stat.S_ISREG(about.st_mode) or about.st_ino != name.inode or about.st_nlink < 2:
            return True  # it has been replaced since
        if first is None or not _link_to_first(first, temporary, place, roots):
            if can_mount and (about.st_size > LARGE_BYTES or about.st_size > _free(place) - _SPARE_BYTES):
                return False
            _copy(source, about, temporary, place)
        after = os.fstat(source)
        unchanged = (after.st_size, after.st_mtime_ns) == (about.st_size, about.st_mtime_ns)
        if not unchanged or os.stat(base, dir_fd=place, follow_symlinks=False).st_ino != name.inode:
            raise OSError("changed while it was copied")
        os.rename(temporary, base, src_dir_fd=place, dst_dir_fd=place)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=place)
        return False
    finally:
        os.close(source)
    return True


def _link_to_first(first: str, temporary: str, place: int, roots: Sequence[str]) -> bool:
    """Two names of one file inside stay two names of one file."""
    try:
        with _open_beneath(os.path.dirname(first), roots) as other:
            base = os.path.basename(first)
            os.link(base, temporary, src_dir_fd=other, dst_dir_fd=place, follow_symlinks=False)
    except OSError:
        return False
    return True


def _copy(source: int, about: os.stat_result, temporary: str, place: int) -> None:
    """With its owner, attributes, mode and times."""
    with descriptor(os.open(temporary, _NEW, 0o600, dir_fd=place)) as target:
        _copy_content(source, target, about.st_size)
        if os.fstat(target).st_uid != about.st_uid or os.fstat(target).st_gid != about.st_gid:
            with suppress(OSError):
                os.fchown(target, about.st_uid, about.st_gid)
        with suppress(OSError, AttributeError):
            for attribute in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(target, attribute, os.getxattr(source, attribute))
        os.fchmod(target, stat.S_IMODE(about.st_mode))
        os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))


def _copy_content(source: int, target: int, size: int) -> None:
    done = 0
    with suppress(OSError, AttributeError):  # between file systems, and on some of them, only the plain way works
        while done < size and (count := os.copy_file_range(source, target, size - done, done, done)):
            done += count
    if done < size:
        os.lseek(target, 0, os.SEEK_SET)
        os.lseek(source, 0, os.SEEK_SET)
        with open(source, "rb", closefd=False) as read, open(target, "wb", closefd=False) as write:
            shutil.copyfileobj(read, write, 1 << 20)


def _free(place: int) -> int:
    about = os.fstatvfs(place)
    return about.f_bavail * about.f_frsize


def protect_shared_files(
    seen: Sequence[SurveyResult], roots: Sequence[str], *, read_only: Sequence[str] = (), can_mount: bool = True
) -> tuple[list[Mount], list[str]]:
    """Before a command: nothing it can write to is known by a name outside. `can_mount`: what cannot be copied may be
    made read-only by a mount. Returns such mounts, and notes for people."""
    names = find_shared_files(seen, roots, read_only=read_only)
    copied, left = separate_files(names, roots, can_mount=can_mount)
    notes: list[str] = []
    if copied:
        notes.append(
            f"{_count_by_place(copied, roots)}, so they were replaced by copies: commands cannot change the originals"
        )
    if left:
        how = (
            "they are read-only for commands" if can_mount else "could not be copied: commands can change the originals"
        )
        notes.append(f"{_count_by_place(left, roots)}, and {how}")
    covered = left if len(left) <= _MOST_MOUNTS else sorted({os.path.dirname(path) for path in left})
    return [Mount(path=path, how="read") for path in covered] if can_mount else [], notes


def _count_by_place(paths: Sequence[str], roots: Sequence[str]) -> str:
    places = Counter(_top(path, roots) for path in paths)
    where = ", ".join(f"{count} in {place!r}" for place, count in places.most_common(3))
    return f"hard links: these files of the workspace are also linked outside it ({where})"


def _top(path: str, roots: Sequence[str]) -> str:
    return path[len(root_of(path, roots) or "") :].lstrip("/").partition("/")[0] or path
