"""Opens a path below a directory without leaving it, whatever symbolic links and `..` say.

Never by comparing strings: between a check and its use a directory can become a
link. The kernel resolves the whole path below a descriptor (`openat2`, Linux 5.6);
where it cannot, a walk opens one component at a time and follows links itself.
"""

import ctypes
import errno
import os
import stat
import sys
from functools import cache

SYS_OPENAT2 = 437
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

MAX_LINKS = 40
TRIES = 128
"""The kernel answers EAGAIN when something was renamed while it looked."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: int, path: str, flags: int, *, follow: bool, by_kernel: bool | None = None) -> int:
    """A descriptor of `path` below the directory `root`.

    `follow`: links are followed as long as they stay below; else any link is ELOOP. What leaves is EXDEV.
    """
    flags |= os.O_CLOEXEC
    for _ in range(TRIES):
        try:
            if kernel_resolves() if by_kernel is None else by_kernel:
                return _openat2(root, path, flags, follow=follow)
            return _walk(root, path, flags, follow=follow)
        except (BlockingIOError, InterruptedError):
            continue
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


@cache
def kernel_resolves() -> bool:
    """Old kernels lack the call, and some containers forbid it."""
    if sys.platform != "linux":
        return False
    try:
        os.close(_openat2(-100, ".", os.O_PATH | os.O_CLOEXEC, follow=True))
    except OSError:
        return False
    return True


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _openat2(root: int, path: str, flags: int, *, follow: bool) -> int:
    resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (0 if follow else RESOLVE_NO_SYMLINKS)
    how = _How(flags=flags, mode=0, resolve=resolve)
    name = ctypes.c_char_p(os.fsencode(path))
    fd = _libc().syscall(
        ctypes.c_long(SYS_OPENAT2), ctypes.c_int(root), name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
    )
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return fd


def _walk(root: int, path: str, flags: int, *, follow: bool) -> int:
    """The same in steps. `..` goes back to a directory that is held open, so moving one cannot lead outside."""
    held = [os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)]
    todo = _parts(path)
    links = 0
    try:
        while todo:
            part = todo.pop()
            if part == ".":
                continue
            if part == "..":
                if len(held) == 1:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                os.close(held.pop())
                continue
            here = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=held[-1])
            held.append(here)
            kind = os.fstat(here)
            if stat.S_ISLNK(kind.st_mode):
                links += 1
                if not follow or links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = os.readlink("", dir_fd=here)
                if target.startswith("/"):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                todo += _parts(target)
                os.close(held.pop())
            elif not stat.S_ISDIR(kind.st_mode):
                if todo:
                    raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
                return _reopened(held[-2], part, flags, kind)
        return os.open(".", flags, dir_fd=held[-1])
    finally:
        for fd in held:
            os.close(fd)


def _parts(path: str) -> list[str]:
    """The components, last one first. `x/.` and `x/` say that `x` is a directory, so the dot stays."""
    return [part or "." for part in reversed(path.split("/"))]


def _reopened(parent: int, name: str, flags: int, expected: os.stat_result) -> int:
    fd = os.open(name, flags | os.O_NOFOLLOW, dir_fd=parent)
    if not os.path.samestat(os.fstat(fd), expected):
        os.close(fd)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)
    return fd


def filesystem_type(fd: int) -> int:
    """The kernel's magic number of the file system `fd` lives on; 0 when it cannot be told."""
    if sys.platform != "linux":
        return 0
    answer = (ctypes.c_long * 32)()  # `f_type` comes first in `struct statfs`
    return answer[0] if _libc().fstatfs(ctypes.c_int(fd), ctypes.byref(answer)) == 0 else 0
