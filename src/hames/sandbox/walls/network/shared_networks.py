"""Network namespaces that commands of one thread share while one of them runs in the background.

Each sandbox has a network namespace of its own, so a server in one is out of reach for every other. While a program
runs in the background, further commands of its thread are started in its namespace, if their policy is the same: a
command with network access must not lend its way out to one without. Two descriptors keep a namespace; nothing runs
for it.
"""

import fcntl
import os
import threading
from contextlib import suppress
from itertools import count

from hames.domain.policy import SandboxPolicy
from hames.domain.value import Value
from hames.sandbox.walls.network.listener_program import GET_OWNER

_PROXIES = 4000


class NetworkKey(Value):
    thread: str
    policy: SandboxPolicy


class SharedNetwork:
    """`user` and `network` are descriptors of namespaces."""

    def __init__(self, user: int, network: int) -> None:
        self._user = user
        self._network = network
        self._numbers = count(1)
        self.users = 0

    def descriptors(self) -> tuple[int, int]:
        """Copies, for a program that enters them."""
        return os.dup(self._user), os.dup(self._network)

    def next_number(self) -> int:
        """For whoever needs something of his own in there, such as a port."""
        return next(self._numbers) % _PROXIES

    def close(self) -> None:
        os.close(self._user)
        os.close(self._network)


class SharedNetworks:
    """Of all threads. Commands are planned in worker threads."""

    def __init__(self) -> None:
        self._open: dict[NetworkKey, SharedNetwork] = {}
        self._turn = threading.Lock()

    def find(self, key: NetworkKey) -> tuple[tuple[int, int], int] | None:
        """Descriptors to enter, which the caller closes, and a number. None: there is nothing to share."""
        if not self._open:
            return None
        with self._turn:
            found = self._open.get(key)
            return None if found is None else (found.descriptors(), found.next_number())

    def hold(self, key: NetworkKey, pid: int) -> bool:
        """Keeps the network of process `pid`, the first in a sandbox, until `release`, or the one there is already.
        False: it has ended, or belongs to somebody else."""
        with self._turn:
            found = self._open.get(key)
            if found is None:
                opened = _open_namespaces(pid)
                if opened is None:
                    return False
                found = self._open[key] = SharedNetwork(*opened)
            found.users += 1
            return True

    def release(self, key: NetworkKey) -> None:
        with self._turn:
            found = self._open[key]
            found.users -= 1
            if not found.users:
                self._open.pop(key).close()


def _open_namespaces(pid: int) -> tuple[int, int] | None:
    with suppress(OSError):
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(network).st_ino != os.stat("/proc/self/ns/net").st_ino:
                return fcntl.ioctl(network, GET_OWNER), os.dup(network)
        finally:
            os.close(network)
    return None
