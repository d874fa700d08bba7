"""What lies in a writable directory that a sandbox must know of: hard links, sockets, languages.

The first look goes through everything. Later ones look at the directories alone: whoever adds, removes or renames
something changes the times of a directory. A further name that a file is given elsewhere changes no directory here,
so now and then everything is looked at again, as often as that costs little.
"""

import os
import stat
import threading
import time
from typing import NamedTuple

from hames.domain.value import Value
from hames.sandbox.walls.view.home import LANGUAGES

BUDGET_SECONDS = 20.0
"""After that a look ends where it is, and says so."""

_SETTLED_NS = 2_000_000_000
_PAUSE_FULL, _PAUSE_QUICK = 200, 20
_LONGEST_PAUSE_SECONDS = 60.0
_ALWAYS_FULL_SECONDS, _ALWAYS_QUICK_SECONDS = 0.001, 0.005


class LinkedName(NamedTuple):
    """One name of a file that has several: `links` in all."""

    path: str
    device: int
    inode: int
    links: int


class SurveyResult(Value):
    """`complete`: there was time to look at everything."""

    linked: tuple[LinkedName, ...] = ()
    sockets: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    languages: frozenset[str] = frozenset()
    complete: bool = True


class _Directory:
    """What one directory held when it had `state`; no state: it had just changed, so it is looked at again."""

    __slots__ = ("children", "environment", "languages", "linked", "sockets", "state")

    def __init__(self) -> None:
        self.state: tuple[int, ...] | None = None
        self.children: list[str] = []
        self.linked: list[LinkedName] = []
        self.sockets: list[str] = []
        self.environment = False
        self.languages: set[str] = set()


class WorkspaceSurvey:
    """For one directory, for as long as the sandbox lives. May be used by several threads."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._known: dict[str, _Directory] = {}
        self._seen = SurveyResult()
        self._full_at = self._quick_at = float("-inf")
        self._full_cost = self._quick_cost = 0.0

    def look(self) -> SurveyResult:
        with self._lock:
            started = time.monotonic()
            full = started - self._full_at >= self._pause_full()
            if not full and started - self._quick_at < self._pause_quick():
                return self._seen
            complete = self._walk(full=full, deadline=started + BUDGET_SECONDS)
            ended = time.monotonic()
            self._quick_at, self._quick_cost = ended, self._quick_cost if full else ended - started
            if full:
                self._full_at, self._full_cost = ended, ended - started
            known = self._known
            self._seen = SurveyResult(
                linked=tuple(name for directory in known.values() for name in directory.linked),
                sockets=tuple(path for directory in known.values() for path in directory.sockets),
                environments=tuple(path for path, directory in known.items() if directory.environment),
                languages=frozenset(language for directory in known.values() for language in directory.languages),
                complete=complete,
            )
            return self._seen

    def _pause_full(self) -> float:
        if self._full_cost < _ALWAYS_FULL_SECONDS:
            return 0.0
        return min(self._full_cost * _PAUSE_FULL, _LONGEST_PAUSE_SECONDS)

    def _pause_quick(self) -> float:
        if self._quick_cost < _ALWAYS_QUICK_SECONDS:
            return 0.0
        return min(self._quick_cost * _PAUSE_QUICK, _LONGEST_PAUSE_SECONDS)

    def _walk(self, *, full: bool, deadline: float) -> bool:
        """Goes through the tree and keeps what is still there. False: there was no time for all of it."""
        before, self._known = self._known, {}
        after = self._known
        ahead = [self.root]
        turns = 0
        while ahead:
            path = ahead.pop()
            turns += 1
            if turns % 256 == 0 and time.monotonic() > deadline:
                # What was known of the rest is better than nothing.
                self._known = before | after
                return False
            try:
                about = os.lstat(path)
            except OSError:
                continue
            state = (about.st_dev, about.st_ino, about.st_mtime_ns, about.st_ctime_ns)
            directory = before.get(path)
            if full or directory is None or directory.state != state:
                directory = _read_directory(path, about, state)
            after[path] = directory
            ahead += directory.children
        return True


def _read_directory(path: str, about: os.stat_result, state: tuple[int, ...]) -> _Directory:
    directory = _Directory()
    now = time.time_ns()
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                _add_entry(directory, entry)
    except OSError:
        return directory
    settled = now - max(about.st_mtime_ns, about.st_ctime_ns) > _SETTLED_NS
    directory.state = state if settled else None
    return directory


def _add_entry(directory: _Directory, entry: "os.DirEntry[str]") -> None:
    if entry.is_dir(follow_symlinks=False):
        directory.children.append(entry.path)
        return
    if entry.is_symlink():
        return
    try:
        about = entry.stat(follow_symlinks=False)
    except OSError:
        return
    if stat.S_ISSOCK(about.st_mode):
        directory.sockets.append(entry.path)
    elif about.st_nlink > 1 and stat.S_ISREG(about.st_mode):
        name = LinkedName(path=entry.path, device=about.st_dev, inode=about.st_ino, links=about.st_nlink)
        directory.linked.append(name)
    name = entry.name
    if name == "pyvenv.cfg":
        directory.environment = True
    if language := LANGUAGES.get(name) or LANGUAGES.get(name[name.rfind(".") :]):
        directory.languages.add(language)
