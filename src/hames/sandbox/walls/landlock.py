"""Landlock: a second-best wall, only for who says `allowDegraded` by name.

It confines reading and writing and, on newer kernels, TCP and signals; together with the system-call filter also the
rest of the network. It does not hide the names of files or other processes, does not stop changes of mode and time
stamps outside the roots, leaves other programs' unix sockets reachable, and has no guard rails inside the roots.

This file also runs alone: it is the small program that raises the walls around itself and then becomes the command.
It imports the standard library only.
"""

import ctypes
import json
import os
import stat
import struct
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every machine
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2

_READ = 0b1101  # execute, read file, read directory
_READ_DIRECTORY = 0b1000
_OF_FILES = 0b111 | 1 << 14 | 1 << 15
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_ALL_FS_BY_ABI = (0, (1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract sockets, signals

_AF_INET = (2, 10, 16)
_SOCKET = {0xC000003E: 41, 0xC00000B7: 198}


def abi() -> int:
    """The version of Landlock this kernel has; 0 for none."""
    version = _libc().syscall(_CREATE_RULESET, None, 0, 1)
    return max(0, version)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def restrict(writable: list[str], readable: list[str]) -> None:
    """Confines this process and all its children for good. Raises `OSError`."""
    version = abi()
    if version == 0:
        raise OSError("this kernel has no Landlock")
    files = _ALL_FS_BY_ABI[min(version, len(_ALL_FS_BY_ABI) - 1)]
    tcp = _TCP if version >= 4 else 0
    scopes = _SCOPES if version >= 6 else 0
    attributes = struct.pack("<QQQ", files, tcp, scopes)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    libc = _libc()
    ruleset = _check_result(libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    for path in readable:
        _allow(libc, ruleset, path, _READ & files)
    _allow(libc, ruleset, "/etc", _READ_DIRECTORY & files)
    for path in ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom"):
        _allow(libc, ruleset, path, (_READ | _WRITE_FILE | _TRUNCATE) & files & ~0b1000)
    for path in writable:
        _allow(libc, ruleset, path, files)
    _check_result(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _check_result(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    access &= -1 if stat.S_ISDIR(os.fstat(place).st_mode) else _OF_FILES
    if access:
        _check_result(libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("<Qi", access, place), 0))
    os.close(place)


def filter_calls(program: bytes) -> None:
    """Installs a filter from `hames.sandbox.walls.seccomp`, or one of ours. Raises `OSError`."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HL", len(program) // 8, ctypes.addressof(buffer))
    _check_result(_libc().prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0))


def without_internet(arch: int) -> bytes:
    """A filter that leaves only unix sockets: Landlock itself knows nothing of UDP, raw sockets and netlink."""
    refuse, allow = 0x00050000 | 13, 0x7FFF0000
    families = _AF_INET
    code: list[tuple[int, int, int, int]] = [
        (0x20, 0, 0, 0),
        (0x15, 0, len(families) + 1, _SOCKET[arch]),
        (0x20, 0, 0, 16),
        *((0x15, len(families) - at, 0, family) for at, family in enumerate(families)),
        (0x06, 0, 0, allow),
        (0x06, 0, 0, refuse),
    ]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _check_result(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _run_command() -> None:
    """`landlock.py FILTER_FD SETTINGS WORD…`"""
    filter_fd, settings, argv = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
    program = os.read(filter_fd, 65536)
    os.close(filter_fd)
    try:
        restrict(settings["writable"], settings["readable"])
        filter_calls(without_internet(struct.unpack_from("<I", program, 12)[0]))
        filter_calls(program)
    except OSError as error:
        sys.exit(f"no sandbox: Landlock: {error}")
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201 - this is a program, and this its word
        sys.exit(127)


if __name__ == "__main__":
    _run_command()
