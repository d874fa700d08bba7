"""Changing files below a directory: each is old or new, never a mix, and several change together or not at all.

New content is written under no name (`O_TMPFILE`), synced, and only then put in place. What stood there is
replaced, never written into: a hard link to it keeps the old content. Links are never followed. What fails
half-way is undone; a kill between two files is not. Between its first name and its last there is one step, and a
kill in that step leaves a file that nobody has locked: the next change in the directory removes it.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from hames.domain.value import Value
from hames.ports.workspace import Denied, FileEdit, FileRefused, LinkInTheWay, Missing, NotRegular, Unsteady
from hames.tools.files.directory import LocalDirectory
from hames.tools.files.refusals import explained, shown

MAX_BYTES = 8 << 20
"""What is changed is held in memory twice, and shown as a diff."""

SWEPT_NAMES = 10_000

_PREFIX, _SUFFIX = ".hames-", ".tmp"
_DESCRIPTORS = "/proc/self/fd"
_NO_TMPFILE = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})


class _Traits(Value):
    """What a file keeps when its content is replaced."""

    mode: int
    owner: int
    group: int
    attributes: dict[str, bytes] = {}


def apply(edits: Sequence[FileEdit]) -> None:
    """Carries them all out, or none. Raises `FileRefused`: `Unsteady` when a file is not what it was before."""
    staged: list[_Staged] = []
    try:
        for edit in edits:
            staged.append(_Staged(edit))
            staged[-1].stage()
        for one in staged:
            one.commit()
    except BaseException as error:
        if stuck := [shown(one.path) for one in reversed(staged) if not one.undo()]:
            raise Denied(f"{error}; and {', '.join(stuck)} could not be restored") from error
        raise
    finally:
        for one in staged:
            one.close()


class _Staged:
    """One change on its way: staged (written, unseen), committed (in place), undone."""

    def __init__(self, edit: FileEdit, traits: _Traits | None = None) -> None:
        self.path = edit.path
        self._edit = edit
        self._traits = traits
        self._parent = -1
        self._name = ""
        self._content = -1
        self._temporary = ""
        self._made: list[tuple[int, str]] = []
        self._committed = False

    def stage(self) -> None:
        with _told(self.path):
            *parents, self._name = self.path.split("/")
            self._parent = self._directory(parents)
            self._compare()
            if self._edit.after is not None:
                _sweep(self._parent)
                self._write(self._edit.after)

    def commit(self) -> None:
        with _told(self.path):
            if self._edit.after is None:
                os.unlink(self._name, dir_fd=self._parent)
            elif self._edit.before is None:
                self._link_as(self._name)
            else:
                self._replace()
            self._committed = True
            self._sync_directory()

    def undo(self) -> bool:
        """Back to what was before. False: the system does not let us."""
        try:
            if self._committed:
                self._restore()
        except (OSError, FileRefused):
            return False
        self._drop_temporary()
        for parent, name in reversed(self._made):
            with suppress(OSError):
                os.rmdir(name, dir_fd=parent)
        return True

    def _restore(self) -> None:
        edit = self._edit
        if edit.before is None:
            os.unlink(self._name, dir_fd=self._parent)
            return
        back = FileEdit(root=edit.root, path=edit.path, before=edit.after, after=edit.before)
        restoring = _Staged(back, self._traits)
        try:
            restoring.stage()
            restoring.commit()
        finally:
            restoring.close()

    def close(self) -> None:
        self._drop_temporary()
        for fd in (self._content, self._parent, *(parent for parent, _ in self._made)):
            if fd >= 0:
                os.close(fd)
        self._content = self._parent = -1
        self._made.clear()

    def _drop_temporary(self) -> None:
        if self._temporary:
            with suppress(OSError):
                os.unlink(self._temporary, dir_fd=self._parent)
            self._temporary = ""

    def _directory(self, parts: list[str]) -> int:
        """The parent, made where it is missing. One component at a time and no links: there is no way out."""
        with LocalDirectory(self._edit.root) as root:
            here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root.fd)
        for part in parts:
            try:
                below = self._step(here, part)
            finally:
                os.close(here)
            here = below
        return here

    def _step(self, here: int, part: str) -> int:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(part, flags, dir_fd=here)
        except NotADirectoryError:
            if stat.S_ISLNK(os.stat(part, dir_fd=here, follow_symlinks=False).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
            raise
        except FileNotFoundError:
            if self._edit.after is None:
                raise
            os.mkdir(part, dir_fd=here)
            self._made.append((os.dup(here), part))
            return os.open(part, flags, dir_fd=here)

    def _compare(self) -> None:
        """Refuses unless the file is what it was when the change was prepared."""
        name, before = shown(self.path), self._edit.before
        try:
            there = os.stat(self._name, dir_fd=self._parent, follow_symlinks=False)
        except FileNotFoundError:
            if before is not None:
                raise Missing(f"{name!r} is gone since the change was prepared") from None
            return
        if stat.S_ISLNK(there.st_mode):
            raise LinkInTheWay(f"{name!r} is a symbolic link; name the real file")
        if not stat.S_ISREG(there.st_mode):
            raise NotRegular(f"{name!r} is not a regular file")
        if before is None:
            raise Unsteady(f"{name!r} has appeared since the change was prepared")
        # Replacing needs no write permission on the file itself; its owner's wish counts all the same.
        if not os.access(self._name, os.W_OK, dir_fd=self._parent, effective_ids=True):
            raise Denied(f"{name!r} is read-only")
        if self._read() != before:
            raise Unsteady(f"{name!r} has changed since the change was prepared; read it again")

    def _read(self) -> bytes:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(self._name, flags, dir_fd=self._parent)
        with os.fdopen(fd, "rb") as file:
            there = os.fstat(fd)
            self._traits = self._traits or _Traits(
                mode=stat.S_IMODE(there.st_mode),
                owner=there.st_uid,
                group=there.st_gid,
                attributes=_attributes(fd),
            )
            return file.read(MAX_BYTES + 1)

    def _write(self, content: bytes) -> None:
        self._content = self._unnamed()
        with suppress(OSError):  # a file system without locks is never swept, either
            fcntl.flock(self._content, fcntl.LOCK_EX | fcntl.LOCK_NB)
        view = memoryview(content)
        while view:
            view = view[os.write(self._content, view) :]
        if self._traits:
            _keep(self._content, self._traits, self.path)
        if self._edit.mode is not None:
            os.fchmod(self._content, self._edit.mode & 0o777)
        os.fsync(self._content)

    def _unnamed(self) -> int:
        # The old file may be private: until it has the old mode, the new one is.
        mode = 0o600 if self._traits else 0o666
        if os.access(_DESCRIPTORS, os.X_OK):
            try:
                return os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=self._parent)
            except OSError as error:
                if error.errno not in _NO_TMPFILE:
                    raise
        self._temporary = _temporary_name()
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC
        try:
            return os.open(self._temporary, flags, mode, dir_fd=self._parent)
        except OSError:
            self._temporary = ""
            raise

    def _link_as(self, name: str) -> None:
        """Gives the new content a name that nobody has: an existing one is EEXIST."""
        if self._temporary:
            os.link(self._temporary, name, src_dir_fd=self._parent, dst_dir_fd=self._parent, follow_symlinks=False)
        else:
            os.link(f"{_DESCRIPTORS}/{self._content}", name, dst_dir_fd=self._parent, follow_symlinks=True)

    def _replace(self) -> None:
        if not self._temporary:
            name = _temporary_name()
            self._link_as(name)
            self._temporary = name
        os.rename(self._temporary, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        self._temporary = ""

    def _sync_directory(self) -> None:
        # The change has happened; whether its name survives a power cut is best effort.
        with suppress(OSError):
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._parent)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


@contextmanager
def _told(path: str) -> Generator[None, None, None]:
    """Turns the system's answers into refusals that name the file."""
    try:
        yield
    except OSError as error:
        raise explained(error, path) from error


def _temporary_name() -> str:
    # Not one of the engine's names: it must be one that nobody can have prepared.
    return f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"


def _sweep(directory: int) -> None:
    """Removes what a killed process left: named as only we name files, and locked by nobody."""
    with suppress(OSError):
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            with os.scandir(fd) as entries:
                names = [entry.name for entry in islice(entries, SWEPT_NAMES)]
        finally:
            os.close(fd)
        for name in names:
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
                _remove_orphan(directory, name)


def _remove_orphan(directory: int, name: str) -> None:
    with suppress(OSError):
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=directory)
        finally:
            os.close(fd)


def _attributes(fd: int) -> dict[str, bytes]:
    with suppress(OSError):
        kept = (name for name in os.listxattr(fd) if name.startswith("user.") or name == "system.posix_acl_access")
        return {name: os.getxattr(fd, name) for name in kept}
    return {}


def _keep(fd: int, traits: _Traits, path: str) -> None:
    there = os.fstat(fd)
    if (there.st_uid, there.st_gid) != (traits.owner, traits.group):
        try:
            os.fchown(fd, traits.owner, traits.group)
        except PermissionError:
            raise Denied(f"{shown(path)!r} belongs to another user or group, which the change would lose") from None
    os.fchmod(fd, traits.mode & 0o1777)  # set-id bits do not survive a write anywhere
    for name, value in traits.attributes.items():
        with suppress(OSError):
            os.setxattr(fd, name, value)
