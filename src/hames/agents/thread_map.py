"""Which of another agent's threads and turns belong to which of ours: a small file for each thread.

It is kept in the user's own state directory: one that came with a repository could lead the agent to any thread it has.
Nothing in it is followed elsewhere, waited for or read without end.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from hames.domain.ids import ThreadId
from hames.domain.value import Value
from hames.private_files import private_directory

KNOWN_BYTES = 1 << 20
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Known(Value):
    """`turns`: ours to theirs, in order; empty for a turn that the agent was only told about, or has no name for."""

    thread: str
    turns: dict[str, str] = {}
    instructions: str = ""
    """A digest of the client's instructions that the agent was told last; empty: none."""

    def until(self, last: str) -> "Known":
        """As it was when that turn of ours had ended."""
        names = list(self.turns)
        return Known(thread=self.thread, turns={name: self.turns[name] for name in names[: names.index(last) + 1]})


class ThreadMap:
    def __init__(self, directory: Callable[[], Path | None]) -> None:
        """`directory` says where it is kept; None: nowhere, and the agent is told again with every turn."""
        self._directory = directory

    def known(self, thread_id: ThreadId) -> Known | None:
        """What cannot be read is forgotten: the agent is told again."""
        try:
            with self._open() as at:
                return msgspec.json.decode(_read(_name(thread_id), at), type=Known)
        except (OSError, ValueError):
            return None

    def keep(
        self, thread_id: ThreadId, theirs: str, turns: Mapping[str, str], *, instructions: str | None = None
    ) -> None:
        """`instructions` None: as they were."""
        kept = self.known(thread_id)
        before = kept if kept is not None and kept.thread == theirs else Known(thread=theirs)
        told = before.instructions if instructions is None else digest(instructions)
        after = Known(thread=theirs, turns={**before.turns, **turns}, instructions=told)
        if after == kept:
            return
        with suppress(OSError), self._open() as at:
            _replace(_name(thread_id), msgspec.json.encode(after), at)

    @contextmanager
    def _open(self) -> Generator[int]:
        if (directory := self._directory()) is None:
            raise FileNotFoundError("there is no place for it")
        at = os.open(private_directory(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield at
        finally:
            os.close(at)


def digest(instructions: str) -> str:
    return hashlib.sha256(instructions.encode()).hexdigest()[:32] if instructions else ""


def _name(thread_id: ThreadId) -> str:
    return f"{thread_id}.json"


def _read(name: str, at: int) -> bytes:
    fd = os.open(name, os.O_RDONLY | _PLAIN, dir_fd=at)
    with os.fdopen(fd, "rb") as file:
        return file.read(KNOWN_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""


def _replace(name: str, data: bytes, at: int) -> None:
    fresh = f"{name}.{os.getpid()}.new"
    with suppress(FileNotFoundError):
        os.unlink(fresh, dir_fd=at)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600, dir_fd=at), "wb") as file:
        file.write(data)
    os.replace(fresh, name, src_dir_fd=at, dst_dir_fd=at)
