"""Walks a writable root, all of it, and lists what other programs may act on later.

Directories are remembered by inode and change time, which no program can set, so an unchanged one costs one `lstat`.
Only the set-uid search has to look at every file each time: a change of mode leaves no trace in the directory.
"""

import errno
import os
import stat
import subprocess
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from hames.executables import find_program
from hames.private_files import descriptor
from hames.sandbox.processes.environment import SYSTEM_PATH
from hames.sandbox.walls.after_command.task_files import FOREIGN_CODE, TASK_DIRECTORIES, TASK_FILES
from hames.sandbox.walls.beneath_root import PLACE, open_listed

SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID

_GIT_NAMES = frozenset(g + i + t for g in (".g", ".G") for i in "iI" for t in "tT")
"""Some file systems do not tell them apart."""

_MARKS = frozenset({"HEAD", "objects", "refs", "commondir", *_GIT_NAMES, *TASK_FILES})
_RACY_NANOSECONDS = 2_500_000_000
"""A directory that changed this recently may change again without a new time: some file systems count two seconds."""

_MOST_REMEMBERED = 100_000
_LONGEST = 700
"""Characters of a path before it is abbreviated through a descriptor: the kernel takes 4,096 bytes at once."""

_PAUSE_EVERY_SECONDS = 0.002
_PAUSE_SECONDS = 0.0001


class TooManyFiles(Exception):
    """There is more than was asked for. `Tree.look` without a limit sees it all."""


class OutOfTime(Exception):
    """The deadline has passed; what was seen is remembered for the next time."""


@dataclass
class TreeContents:
    """Absolute paths. `git` are directories that git would use as a repository's own, `pointers` are `.git` that are
    files or links, `special` are regular files with a set-uid or set-gid bit, `hidden` are directories that could be
    entered and not listed before we changed their mode for a moment."""

    git: list[str] = field(default_factory=list[str])
    pointers: list[str] = field(default_factory=list[str])
    tasks: list[str] = field(default_factory=list[str])
    special: list[str] = field(default_factory=list[str])
    hidden: list[str] = field(default_factory=list[str])
    entries: int = 0

    def add(self, other: "TreeContents") -> None:
        self.git += other.git
        self.pointers += other.pointers
        self.tasks += other.tasks
        self.special += other.special
        self.hidden += other.hidden
        self.entries += other.entries


class _Directory(NamedTuple):
    identity: tuple[int, int, int]
    subdirectories: tuple[str, ...]
    total: int
    files: tuple[str, ...] | None
    """None: nobody has asked for their names yet, and there may be very many."""
    is_git: bool
    pointers: tuple[str, ...]
    tasks: tuple[str, ...]
    hidden: bool = False
    racy: bool = True


class Tree:
    """One root. Not for two threads at once."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._known: dict[str, _Directory] = {}
        self.entries = 0
        """How many there were when it was last seen whole."""

    def look(
        self,
        now: int,
        *,
        special: bool,
        skip: Collection[str] = (),
        limit: int = 0,
        deadline: float = 0.0,
    ) -> TreeContents:
        """`now` is the file system's own time in nanoseconds. `special` looks at the mode of every file.

        Raises `TooManyFiles` and `OutOfTime`.
        """
        seen, known = TreeContents(), dict[str, _Directory]()
        paused = time.perf_counter()
        # A path as it is called, a path to reach it, whether it is in a task directory, a descriptor to close.
        todo: list[tuple[str, str, bool, int]] = [(self.root, self.root, False, -1)]
        visited = 0
        try:
            while todo:
                path, reach, in_task, close = todo.pop()
                if close >= 0:
                    os.close(close)
                    continue
                visited += 1
                if not visited % 64 and (clock := time.perf_counter()) - paused > _PAUSE_EVERY_SECONDS:
                    if deadline and time.monotonic() > deadline:
                        raise OutOfTime
                    # Lets go of the interpreter: the event loop would otherwise wait for its turn each time.
                    time.sleep(_PAUSE_SECONDS)
                    paused = clock
                if len(reach) > _LONGEST:
                    try:
                        held = os.open(reach, PLACE)
                    except OSError:
                        continue
                    todo.append(("", "", False, held))
                    reach = f"/proc/self/fd/{held}/."
                here = self._directory(path, reach, now, in_task, with_files=special)
                if here is None:
                    continue
                if len(known) < _MOST_REMEMBERED:
                    known[path] = here
                seen.entries += here.total
                if limit and seen.entries > limit:
                    raise TooManyFiles
                if here.is_git:
                    seen.git.append(path)
                if here.hidden:
                    seen.hidden.append(path)
                seen.pointers += [f"{path}/{name}" for name in here.pointers]
                seen.tasks += [f"{path}/{name}" for name in here.tasks]
                if special and here.files is not None:
                    seen.special += [f"{path}/{name}" for name in here.files if _is_special(f"{reach}/{name}")]
                for name in here.subdirectories:
                    below = f"{path}/{name}"
                    if below not in skip:
                        todo.append((below, f"{reach}/{name}", in_task or _opens_tasks(path, name), -1))
        finally:
            for *_, close in todo:
                if close >= 0:
                    os.close(close)
            # What was not reached this time is still as good as it was.
            self._known = known if not todo else {**self._known, **known}
        self.entries = seen.entries
        return seen

    def _directory(self, path: str, reach: str, now: int, in_task: bool, *, with_files: bool) -> _Directory | None:
        try:
            about = os.lstat(reach)
        except OSError:
            return None
        if not stat.S_ISDIR(about.st_mode):
            return None
        identity = (about.st_dev, about.st_ino, about.st_ctime_ns)
        before = self._known.get(path)
        is_enough = before is not None and (before.files is not None or not with_files)
        if before is not None and is_enough and before.identity == identity and not before.racy:
            return before
        hidden = False
        try:
            entries = _list(reach)
        except PermissionError:
            entries, hidden = _list_hidden(reach), True
        except OSError:
            return None
        if entries is None:
            return None
        here, racy = _sort_out(path, entries, identity, in_task), about.st_ctime_ns > now - _RACY_NANOSECONDS
        return here._replace(files=here.files if with_files else None, hidden=hidden, racy=racy)


def _list(reach: str | int) -> list[tuple[str, bool]]:
    with os.scandir(reach) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _list_hidden(reach: str) -> list[tuple[str, bool]] | None:
    try:
        with descriptor(os.open(reach, PLACE)) as place, descriptor(open_listed(place)) as listed:
            return _list(listed)
    except OSError:
        return None


def _sort_out(path: str, entries: list[tuple[str, bool]], identity: tuple[int, int, int], in_task: bool) -> _Directory:
    subdirectories = tuple(name for name, is_directory in entries if is_directory)
    files = tuple(name for name, is_directory in entries if not is_directory)
    marks = {name for name, _ in entries if name in _MARKS}
    is_git = path.rpartition("/")[2] in _GIT_NAMES
    pointers: tuple[str, ...] = ()
    tasks = files if in_task else ()
    if marks:
        is_git = is_git or ("HEAD" in marks and ({"objects", "refs"} <= marks or "commondir" in marks))
        pointers = tuple(name for name in files if name in _GIT_NAMES)
        if not in_task and not any(f"/{name}/" in f"{path}/" for name in FOREIGN_CODE):
            tasks = tuple(name for name in files if name in TASK_FILES)
    return _Directory(identity, subdirectories, len(entries), files, is_git, pointers, tasks)


def _opens_tasks(path: str, name: str) -> bool:
    return name in TASK_DIRECTORIES and not any(f"/{foreign}/" in f"{path}/" for foreign in FOREIGN_CODE)


def _is_special(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return bool(mode & SPECIAL_BITS) and stat.S_ISREG(mode)


def start_special_search(root: str) -> "subprocess.Popen[bytes] | None":
    """The same search for set-uid and set-gid bits by `find`, in a process of its own. None: there is no `find`."""
    program = find_program("find", path=":".join(SYSTEM_PATH))
    if not program:
        return None
    try:
        return subprocess.Popen(
            [program, "-P", root, "-type", "f", "-perm", "/6000", "-print0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={"LC_ALL": "C"},
        )
    except OSError:
        return None


def special_search_result(search: "subprocess.Popen[bytes]") -> list[str] | None:
    """What it found. None: it did not look everywhere."""
    found, complaints = search.communicate()
    # What nobody may enter, and what has just gone, is no reason to doubt the rest.
    skipped = (b"Permission denied", b"No such file or directory")
    about_some = bool(complaints) and all(line.endswith(skipped) for line in complaints.splitlines())
    if search.returncode != 0 and not (search.returncode == 1 and about_some):
        return None
    return [os.fsdecode(path) for path in found.split(b"\0") if path]


def file_system_time(root: str) -> int:
    """Now, as the file system of `root` counts: the earliest change time that a later change there can get."""
    try:
        with descriptor(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as here:
            mode = stat.S_IMODE(os.fstat(here).st_mode)
            if not mode & stat.S_ISGID:  # it would be taken away from an owner who is not in the group
                # Setting the mode it has sets nothing but the change time. A server's clock may differ from ours.
                os.fchmod(here, mode)
                return os.fstat(here).st_ctime_ns
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EPERM, errno.EACCES, errno.EROFS):
            raise
    # File systems stamp with the coarse clock, which is up to ten milliseconds behind.
    return time.clock_gettime_ns(getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME))
