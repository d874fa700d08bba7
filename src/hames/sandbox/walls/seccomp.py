"""The system-call filter, assembled by hand: classic BPF, one `struct` per instruction, no libseccomp.

Only the low half of an argument is compared. The kernel reads these arguments as 32-bit words and drops the
rest, so a filter that compared all 64 bits could be passed by setting a bit nobody looks at.
"""

import errno
import os
import platform
import re
import struct
from functools import cache
from typing import Literal

from hames.domain.errors import SandboxUnavailable

Machine = Literal["x86_64", "aarch64"]

_ARCHES: dict[Machine, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_COLUMN: dict[Machine, int] = {"x86_64": 0, "aarch64": 1}

_DENIED = """
    # mounts: the walls themselves
    mount=165/40 umount2=166/39 pivot_root=155/41 chroot=161/51 open_tree=428/428 move_mount=429/429 fsopen=430/430
    fsconfig=431/431 fsmount=432/432 fspick=433/433 mount_setattr=442/442 open_tree_attr=467/467 setns=308/268
    # other processes
    ptrace=101/117 process_vm_readv=310/270 process_vm_writev=311/271 pidfd_getfd=438/438 kcmp=312/272
    # kernel surface that ordinary programs do without
    bpf=321/280 perf_event_open=298/241 userfaultfd=323/282 io_uring_setup=425/425 io_uring_enter=426/426
    io_uring_register=427/427 fanotify_init=300/262 open_by_handle_at=304/265 lookup_dcookie=212/18 syslog=103/116
    vhangup=153/58
    # keyrings belong to the user, not to a namespace
    add_key=248/217 request_key=249/218 keyctl=250/219
    # the machine
    init_module=175/105 finit_module=313/273 delete_module=176/106 kexec_load=246/104 kexec_file_load=320/294
    reboot=169/142 swapon=167/224 swapoff=168/225 acct=163/89 quotactl=179/60 quotactl_fd=443/443
    settimeofday=164/170 clock_settime=227/112 clock_adjtime=305/266 adjtimex=159/171 sethostname=170/161
    setdomainname=171/162 iopl=172/- ioperm=173/- modify_ldt=154/-
"""
"""System calls with their numbers on x86_64 and aarch64."""
DENIED = {
    name: (int(x86), None if arm == "-" else int(arm)) for name, x86, arm in re.findall(r"(\w+)=(\d+)/(\d+|-)", _DENIED)
}

_CLONE = (56, 220)
_CLONE3 = (435, 435)
_UNSHARE = (272, 97)
_IOCTL = (16, 29)
_SOCKET = (41, 198)
_SOCKETPAIR = (53, 199)
_GETDENTS64 = (217, 61)
_SECCOMP = (317, 277)
_PIDFD_GETFD = 438

_LAST_KNOWN = 469  # file_setattr: what nobody has read about here is answered as an older kernel would

_NEW_NAMESPACES = 0x7E020000  # NS, CGROUP, UTS, IPC, USER, PID, NET
_NEW_TIME = 0x80  # only for unshare: in clone these bits are the exit signal
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
# The rest is either a way around the network namespace (AF_VSOCK) or kernel surface (AF_ALG, AF_RDS, AF_TIPC).
_FAMILIES = (1, 2, 10, 16)  # UNIX, INET, INET6, NETLINK

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24
_ALLOW, _ERRNO, _KILL, _REPORT = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000
_NO_NEW_PRIVILEGES, _SET_FILTER = 38, 1
_NEW_LISTENER, _WAIT_KILLABLE = 0x08, 0x20

_VERDICTS: dict[str, int] = {
    "allow": _ALLOW,
    "forbid": _ERRNO | errno.EPERM,
    "unknown": _ERRNO | errno.ENOSYS,
    "family": _ERRNO | errno.EAFNOSUPPORT,
    "kill": _KILL,
}


def machine() -> Machine | None:
    """The kind of machine this is, if the filter knows it."""
    name = platform.machine()
    return name if name == "x86_64" or name == "aarch64" else None  # noqa: PLR1714 - narrows the literal


def file() -> int:
    """The filter in a memory file of its own, at its beginning: reading moves a position that copies would share.

    Raises `SandboxUnavailable` on a machine the filter does not know.
    """
    kind = machine()
    if kind is None:
        raise SandboxUnavailable(f"no sandbox: there is no system-call filter for {platform.machine()!r}")
    return memory_file("filter", build(kind))


def memory_file(name: str, content: bytes) -> int:
    """A file without a path, at its beginning."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class _Program:
    """Instructions with named targets. Jumps go forward and at most 255 instructions far, which is all BPF can."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, str, str]] = []
        self._labels: dict[str, int] = {}

    def label(self, name: str) -> None:
        self._labels[name] = len(self._code)

    def load(self, offset: int) -> None:
        self._code.append((_LOAD, offset, "", ""))

    def jump(self, test: int, value: int, *, then: str = "", otherwise: str = "") -> None:
        self._code.append((test, value, then, otherwise))

    def answer(self, verdict: int) -> None:
        self._code.append((_RETURN, verdict, "", ""))

    def assemble(self) -> bytes:
        return b"".join(
            struct.pack("<HBBI", code, self._distance(at, then), self._distance(at, otherwise), value)
            for at, (code, value, then, otherwise) in enumerate(self._code)
        )

    def _distance(self, at: int, label: str) -> int:
        return self._labels[label] - at - 1 if label else 0


@cache
def build(kind: Machine) -> bytes:
    """The filter as the kernel wants it: an array of `struct sock_filter`."""
    column = _COLUMN[kind]
    program = _Program()
    program.load(_ARCH)
    program.jump(_EQUAL, _ARCHES[kind], otherwise="kill")
    program.load(_NR)
    program.jump(_GREATER, _LAST_KNOWN, then="unknown")  # also everything with the x32 bit
    for numbers in DENIED.values():
        if (number := numbers[column]) is not None:
            program.jump(_EQUAL, number, then="forbid")
    program.jump(_EQUAL, _CLONE3[column], then="unknown")  # its flags are behind a pointer; libc falls back to clone
    program.jump(_EQUAL, _CLONE[column], then="clone")
    program.jump(_EQUAL, _UNSHARE[column], then="unshare")
    program.jump(_EQUAL, _IOCTL[column], then="ioctl")
    program.jump(_EQUAL, _SOCKET[column], then="socket")
    program.jump(_EQUAL, _SOCKETPAIR[column], then="socket", otherwise="allow")

    program.label("clone")
    program.load(_ARG0)
    program.jump(_ANY_BIT, _NEW_NAMESPACES, then="forbid", otherwise="allow")
    program.label("unshare")
    program.load(_ARG0)
    program.jump(_ANY_BIT, _NEW_NAMESPACES | _NEW_TIME, then="forbid", otherwise="allow")
    program.label("ioctl")
    program.load(_ARG1)
    program.jump(_EQUAL, _TIOCSTI, then="forbid")
    program.jump(_EQUAL, _TIOCLINUX, then="forbid", otherwise="allow")
    program.label("socket")
    program.load(_ARG0)
    for family in _FAMILIES:
        program.jump(_EQUAL, family, then="allow", otherwise="family" if family == _FAMILIES[-1] else "")

    for name, verdict in _VERDICTS.items():
        program.label(name)
        program.answer(verdict)
    return program.assemble()


@cache
def build_listing_reports(kind: Machine) -> bytes:
    """A filter that forbids nothing and reports listings of directories to a listener."""
    program = _Program()
    program.load(_ARCH)
    program.jump(_EQUAL, _ARCHES[kind], otherwise="allow")
    program.load(_NR)
    program.jump(_EQUAL, _GETDENTS64[_COLUMN[kind]], otherwise="allow")
    program.answer(_REPORT)
    program.label("allow")
    program.answer(_ALLOW)
    return program.assemble()


def report_listings() -> int:
    """Puts that filter on the calling thread and on all it starts, for good. Returns the listener's descriptor.

    A program with the setuid bit gets no privileges from this thread any more. Raises `OSError` where the kernel is too
    old (before 5.6), where a container forbids it, or where another listener is there already.
    """
    kind = machine()
    if kind is None:
        raise OSError(errno.ENOSYS, "no system-call filter for this machine")
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_PIDFD_GETFD, -1, 0, 0) < 0 and ctypes.get_errno() != errno.EBADF:
        raise OSError(ctypes.get_errno(), "listings cannot be answered here")
    code = build_listing_reports(kind)
    instructions = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("@HP", len(code) // 8, ctypes.addressof(instructions))
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    # A signal must not interrupt a listing that is half answered; kernels before 5.19 do not know that wish.
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener = libc.syscall(_SECCOMP[_COLUMN[kind]], _SET_FILTER, flags, filter_)
        if listener >= 0:
            os.set_inheritable(listener, False)
            return listener
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
