"""What is in a workspace now, with the content of every file that is not kept yet."""

import os
import stat
import time
from collections.abc import Collection
from typing import NamedTuple

from hames.checkpoints.left_out import MADE_AGAIN
from hames.checkpoints.pack import Pack


class Entry(NamedTuple):
    """One path. `kind`: file, link, directory, or left (not kept, so nothing ever touches it).

    `value` is the digest of a file, the target of a link, or why something was left.
    """

    kind: str
    mode: int = 0
    value: str = ""
    size: int = 0
    inode: int = 0
    """Of a file, 0: look at the content again next time, whatever the times say. Of a directory, only if something in
    it is not kept: it can come back only by being moved."""
    modified_ns: int = 0
    changed_ns: int = 0

    @property
    def content(self) -> tuple[str, int, str]:
        """What makes two entries the same for people."""
        return self[:3]


Manifest = dict[str, Entry]

FILE, LINK, DIRECTORY, LEFT = "file", "link", "directory", "left"
IGNORED = "ignored by the project"

_UNSTEADY_NS = 20_000_000
"""File times move in steps of some milliseconds: a file that changed just now may change again without a sign."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class CheckpointLimits(NamedTuple):
    file_bytes: int = 16 << 20
    files: int = 50_000
    new_bytes: int = 512 << 20
    first_seconds: float = 3.0
    later_seconds: float = 1.0
    store_bytes: int = 1 << 30


class Scan:
    """One walk. `known` is what the last one found; contents go into the pack."""

    def __init__(
        self,
        pack: Pack,
        known: Manifest,
        limits: CheckpointLimits,
        *,
        ignored: frozenset[str] | None,
        excluded: Collection[str],
    ) -> None:
        """`excluded` are paths below the workspace that are not part of it: the logs of threads, for one."""
        self._pack = pack
        self._known = known
        self._limits = limits
        self._ignored = ignored or frozenset()
        self._by_name = ignored is None
        self._excluded = frozenset(excluded)
        self._new_bytes = limits.new_bytes
        seconds = limits.later_seconds if known else limits.first_seconds
        self._until = time.monotonic() + seconds
        self._found: Manifest = {}
        self._files = 0

    def run(self, workspace: str, wanted: Collection[str] = ()) -> Manifest:
        """`wanted` are kept whatever the limits of time and space say. Raises `OSError` without a workspace."""
        root = os.open(workspace, _LIST & ~os.O_NOFOLLOW)
        try:
            about = os.fstat(root)
            self._found[""] = Entry(DIRECTORY, about.st_mode & 0o7777, changed_ns=about.st_ctime_ns)
            for path in wanted:
                self._look_at(root, path)
            self._walk(root)
        finally:
            os.close(root)
        return self._found

    def _look_at(self, root: int, path: str) -> None:
        if self._is_left_out(path):
            return
        try:
            with open_parent(root, path) as (parent, name):
                about = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if stat.S_ISREG(about.st_mode):
                    self._found[path] = self._file(parent, name, about, wanted=True)
        except OSError:
            return

    def _walk(self, root: int) -> None:
        waiting: list[tuple[str, bool]] = [("", self._by_name)]
        while waiting:
            directory, by_name = waiting.pop()
            try:
                here = open_directory(root, directory)
            except OSError as problem:
                if directory:
                    self._found[directory] = Entry(LEFT, value=f"not readable: {problem.strerror}")
                continue
            try:
                waiting += self._list(here, f"{directory}/" if directory else "", by_name=by_name)
            finally:
                os.close(here)

    def _list(self, here: int, prefix: str, *, by_name: bool) -> list[tuple[str, bool]]:
        below: list[tuple[str, bool]] = []
        known, found = self._known, self._found
        with os.scandir(here) as entries:
            names = list(entries)
        repository = bool(prefix) and any(entry.name == ".git" for entry in names)
        nested = by_name or repository
        if repository:
            found[prefix[:-1]] = found[prefix[:-1]]._replace(inode=os.fstat(here).st_ino)
        for entry in names:
            name = entry.name
            path = prefix + name
            if name == ".git" or path in self._excluded:
                continue
            try:
                about = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it has just gone
            mode = about.st_mode
            if stat.S_ISDIR(mode):
                if path in self._ignored or (nested and name in MADE_AGAIN):
                    found[path] = Entry(LEFT, value=IGNORED, inode=about.st_ino)
                else:
                    found[path] = Entry(DIRECTORY, mode & 0o7777, changed_ns=about.st_ctime_ns)
                    below.append((path, nested))
                continue
            before = known.get(path)
            if path in found:
                continue  # it was wanted
            if (
                before is not None
                and before.inode == about.st_ino
                and before.changed_ns == about.st_ctime_ns
                and before.modified_ns == about.st_mtime_ns
                and before.size == about.st_size
            ):
                self._files += 1
                found[path] = before
            elif stat.S_ISLNK(mode):
                found[path] = self._link(here, name, about)
            elif stat.S_ISREG(mode):
                # What is kept already stays kept: the limits are for what is new.
                found[path] = self._file(here, name, about, wanted=before is not None and before.kind == FILE)
            else:
                found[path] = Entry(LEFT, value="neither a file nor a directory")
        return below

    def _is_left_out(self, path: str) -> bool:
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        return ".git" in parts or any(one in self._excluded or one in self._ignored for one in above)

    @staticmethod
    def _link(here: int, name: str, about: os.stat_result) -> Entry:
        try:
            target = os.readlink(name, dir_fd=here)
        except OSError:
            return Entry(LEFT, value="not readable")
        return Entry(LINK, 0, target, about.st_size, about.st_ino, about.st_mtime_ns, about.st_ctime_ns)

    def _file(self, here: int, name: str, about: os.stat_result, *, wanted: bool = False) -> Entry:
        self._files += 1
        if about.st_size > self._limits.file_bytes:
            return Entry(LEFT, value=f"larger than {self._limits.file_bytes >> 20} MiB")
        if not wanted:
            if self._files > self._limits.files:
                return Entry(LEFT, value="too many files")
            if time.monotonic() > self._until:
                return Entry(LEFT, value="not kept yet: there was no time")
            if self._new_bytes < about.st_size:
                return Entry(LEFT, value="not kept: too much is new")
        try:
            file = os.open(name, _READ, dir_fd=here)
        except OSError as problem:
            return Entry(LEFT, value=f"not readable: {problem.strerror}")
        try:
            return self._content(file)
        except OSError as problem:
            return Entry(LEFT, value=f"not kept: {problem.strerror}")
        finally:
            os.close(file)

    def _content(self, file: int) -> Entry:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return Entry(LEFT, value="neither a file nor a directory")
        chunks: list[bytes] = []
        left = min(about.st_size, self._limits.file_bytes) + 1
        while left > 0 and (chunk := os.read(file, left)):
            chunks.append(chunk)
            left -= len(chunk)
        content = b"".join(chunks)
        after = os.fstat(file)
        same = (after.st_mtime_ns, after.st_ctime_ns, after.st_size) == (
            about.st_mtime_ns,
            about.st_ctime_ns,
            len(content),
        )
        if not same:
            return Entry(LEFT, value="it was being written")
        digest = self._pack.add(content)
        self._new_bytes -= len(content)
        steady = time.time_ns() - about.st_ctime_ns > _UNSTEADY_NS
        return Entry(
            FILE,
            about.st_mode & 0o7777,
            digest,
            about.st_size,
            about.st_ino if steady else 0,
            about.st_mtime_ns,
            about.st_ctime_ns,
        )


def open_directory(root: int, path: str) -> int:
    """A descriptor of a directory below the root that no link leads out of. Raises `OSError`."""
    if path and "/" not in path:
        return os.open(path, _LIST, dir_fd=root)
    here = os.open(".", _LIST, dir_fd=root)
    for name in path.split("/") if path else ():
        try:
            below = os.open(name, _LIST, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


class open_parent:  # noqa: N801 - used like a function
    """The directory that a path lies in, held open, and the path's last name."""

    def __init__(self, root: int, path: str) -> None:
        above, _, self._name = path.rpartition("/")
        self._parent = open_directory(root, above)

    def __enter__(self) -> tuple[int, str]:
        return self._parent, self._name

    def __exit__(self, *_: object) -> None:
        os.close(self._parent)
