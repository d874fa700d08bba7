"""Opens listening sockets in the network namespaces of sandboxes, and hands them out. This file runs alone.

To enter a network namespace a process has to enter the user namespace that owns it, and from there is no way back. So
each socket is opened by a process of its own. That has to be forked from a small one: forking the harness would copy
its page tables, and a process with threads may not change its user namespace at all.

It reads `PID NAMESPACE PORT` from the socket it is started with, one message for each wish. It answers with `ok` and
the socket, or with the reason why not, and ends when the other side closes. It imports the standard library only.
"""

import ctypes
import fcntl
import os
import socket
import sys

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
GET_OWNER = 0xB701  # NS_GET_USERNS
_IP_FREEBIND = 15
_BACKLOG = 128
LONGEST_BYTES = 256


def listen_inside(pid: int, namespace: int, port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1 in the network namespace of a process. Raises `OSError`.

    `namespace` is the number it must have, so that a process that has taken the same number meanwhile is not
    mistaken for it; 0: any but our own.
    """
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    found, own = os.fstat(network).st_ino, os.stat("/proc/self/ns/net").st_ino
    if found == own or namespace not in (0, found):
        raise OSError("that is not the network namespace of the sandbox")
    owner = fcntl.ioctl(network, GET_OWNER)
    _enter(owner, _NEW_USER)
    _enter(network, _NEW_NET)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    # The loopback interface there may not be up yet.
    listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    return listener


def _enter(namespace: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, kind) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _serve(talk: socket.socket) -> None:
    while wish := talk.recv(LONGEST_BYTES):
        try:
            child = os.fork()
        except OSError as error:
            talk.send(str(error).encode()[:LONGEST_BYTES])
            continue
        if child == 0:
            os._exit(_answer(talk, wish))
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
            talk.send(b"the process that opens it was ended")


def _answer(talk: socket.socket, wish: bytes) -> int:
    try:
        listener = listen_inside(*(int(word) for word in wish.split()))
        socket.send_fds(talk, [b"ok"], [listener.fileno()])
    except (OSError, ValueError) as error:
        talk.send(str(error).encode()[:LONGEST_BYTES] or b"unknown")
    return 0


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
