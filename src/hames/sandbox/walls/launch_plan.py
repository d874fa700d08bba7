"""A plan: everything decided about one run before it starts. Each kind of wall makes one.

Plans are made in a worker thread (they look at disks); the program is started from the event loop's own.
"""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class LaunchPlan:
    """`contained`: the kernel ends everything with the wrapper. `tmp` is the private temporary directory, if there
    is one. `files` are handed to the program and closed here afterwards. `closing` undoes what planning did and
    returns notes; it may be called twice."""

    argv: Sequence[str]
    cwd: str
    contained: bool
    tmp: str = ""
    private_home: bool = False
    """The home directory is a private one that can be written to."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """More for its environment."""
    files: list[int] = field(default_factory=list[int])
    kept: list[int] = field(default_factory=list[int])
    """Also closed here afterwards, and not handed over."""
    sockets: frozenset[str] = frozenset()
    """Other programs' sockets that were there when it was planned."""
    began: Callable[[], bool] | None = None
    """Once it has ended: whether the program ever began. None: nobody knows."""
    release: Callable[[int], None] | None = None
    """Called with the number of the process, which does nothing until then."""
    environment: Callable[[Mapping[str, str]], Mapping[str, str]] = dict
    """The variables that the program gets, given the usual ones."""
    connect: Callable[[], None] | None = None
    """Gives a started program its network. It has not begun before that. Raises `SandboxUnavailable`."""
    child: Callable[[], tuple[int, int] | None] | None = None
    """The first process inside and its network namespace. Waits for it."""
    is_shown: Callable[[str], bool] = lambda _: True
    """Whether the program can see a directory, given by its real path."""
    start_in: Callable[[Callable[[], subprocess.Popen[bytes]]], subprocess.Popen[bytes]] | None = None
    """Starts it in a thread of its own. None: in the thread that asks."""
    closing: Callable[[], Sequence[str]] = tuple
    inspect: Callable[[], Sequence[str]] = tuple
    """Looks at what a program in the background left so far, and returns notes."""

    def close_files(self) -> None:
        while self.files or self.kept:
            os.close((self.files or self.kept).pop())
