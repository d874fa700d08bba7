"""Prepares what only a program itself can do before it starts, then becomes that program. This file runs alone.

`launcher_program.py TERMINAL USER_NAMESPACE NETWORK_NAMESPACE PROGRAM WORDS...`: with `1` for TERMINAL the terminal
on descriptor 0 becomes the controlling one; namespaces are descriptors, `-1` for none. It imports the standard library
only. The harness cannot do any of this between fork and exec without giving up `vfork`.
"""

import ctypes
import fcntl
import os
import sys
import termios

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000


def main(terminal: str, user: str, network: str, *argv: str) -> None:
    if terminal == "1":
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number, kind in ((int(user), _NEW_USER), (int(network), _NEW_NET)):
        if number >= 0:
            _enter(number, kind)
            os.close(number)
    os.execv(argv[0], argv)


def _enter(namespace: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, kind) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as problem:
        sys.exit(f"the command could not be started: {problem}")
