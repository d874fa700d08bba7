"""Everything a program started: how to find it, and how to end it.

A process that calls `setsid` and forks twice has left the process group, the
session and the tree of parents; only the environment it was started with still
says whose it is.

This file also runs alone, as the guardian: it is told which families there are,
and when the harness is gone, however it went, it ends them. It imports the
standard library only, so that it starts fast and needs nothing installed.
"""

# pathlib would double what the guardian imports.

import os
import select
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

GRACE_SECONDS = 0.5
LIMIT_SECONDS = 1.5
COUNT_SECONDS = 0.2
_LOOKS, _YOUNG = 5, 40
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessInfo(NamedTuple):
    """One line of the process table."""

    pid: int
    parent: int
    group: int
    session: int
    dead: bool


def read_process(pid: int) -> ProcessInfo | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name is in parentheses and may contain anything, also parentheses.
    state, parent, group, session = text[text.rindex(b")") + 2 :].split(b" ", 4)[:4]
    return ProcessInfo(pid, int(parent), int(group), int(session), state in (b"Z", b"X"))


def find(root: int, job: str, *, since_root: bool = False) -> set[int]:
    """The living members of the family, the root included.

    `since_root` looks only at processes younger than the root: much cheaper, and right unless process
    numbers have gone round once since it started.
    """
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    if since_root:
        numbers = _younger(numbers, root)
    table = {seen.pid: seen for number in numbers if (seen := read_process(number)) is not None and not seen.dead}
    mark = f"HAMES_JOB={job}".encode()
    members = {
        seen.pid
        for seen in table.values()
        if (root and root in (seen.pid, seen.group, seen.session)) or _has_mark(seen.pid, mark)
    }
    # Nobody can join a session from outside, so whoever shares one with a member is a descendant.
    ours = os.getsid(0)
    while True:
        sessions = {table[pid].session for pid in members} - {ours}
        more = {seen.pid for seen in table.values() if seen.parent in members or seen.session in sessions}
        if more <= members:
            return members - {os.getpid()}
        members |= more


def descendants(root: int) -> set[int]:
    """The root and everything below it, as long as nobody lost his parents. Cheaper than `find`."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (seen := read_process(int(name))) is not None and not seen.dead:
            children.setdefault(seen.parent, []).append(seen.pid)
    found, rest = {root} if root else set[int](), [root] if root else []
    while rest:
        below = children.get(rest.pop(), [])
        found.update(below)
        rest += below
    return found


def tree(root: int) -> set[int]:
    """The same without looking at every process of the machine, where the kernel lists the children of each."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return descendants(root)
    found, rest = set[int](), [root]
    while rest:
        pid = rest.pop()
        found.add(pid)
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                    rest += [int(child) for child in file.read().split() if int(child) not in found]
    return found


def children(pid: int) -> set[int]:
    """Only those directly below it."""
    return {one for one in tree(pid) if (seen := read_process(one)) is not None and seen.parent == pid}


def _younger(numbers: list[int], root: int) -> list[int]:
    last = _last_pid()
    if last >= root:
        return [number for number in numbers if root <= number <= last]
    return [number for number in numbers if number >= root or number <= last]


def _last_pid() -> int:
    """The number that was given to a process last."""
    with open("/proc/loadavg", "rb") as file:
        return int(file.read().rsplit(b" ", 1)[1])


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def send_signal(members: Collection[int], number: int) -> None:
    for pid in members:
        with suppress(OSError):
            os.kill(pid, number)


def send_signal_to_groups(members: Collection[int], number: int) -> None:
    """The same, group by group: a group is hit all at once, whatever it forks meanwhile."""
    groups = {seen.group for pid in members if (seen := read_process(pid)) is not None} - {os.getpgrp()}
    for group in groups:
        with suppress(OSError):
            os.killpg(group, number)
    send_signal(members, number)


def end(root: int, job: str, *, spare: Collection[int] = (), grace_s: float = GRACE_SECONDS) -> bool:
    """Ask the family to stop, then make it. True when nobody is left.

    `spare`: who is not asked, only made: a wrapper whose end is everybody's end.
    """
    if not os.path.isdir("/proc/self"):
        with suppress(OSError):
            os.killpg(root, signal.SIGKILL)
        return True
    if grace_s:
        deadline = time.monotonic() + grace_s
        send_signal(find(root, job) - set(spare), signal.SIGTERM)
        while time.monotonic() < deadline and find(root, job) - set(spare):
            time.sleep(0.005)
    deadline = time.monotonic() + LIMIT_SECONDS
    while (members := _stop_all(root, job)) or _kill_youngest(job):
        send_signal_to_groups(members, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _stop_all(root: int, job: str) -> set[int]:
    """All members, stopped: what forks faster than it is killed is stopped first."""
    members: set[int] = set()
    for _ in range(50):
        found = find(root, job)
        if found <= members:
            return found
        send_signal_to_groups(found - members, signal.SIGSTOP)
        members |= found
    return members


def _kill_youngest(job: str) -> bool:
    """Ends one that is another process every moment. It is never where a scan has seen it, but always young."""
    mark = f"HAMES_JOB={job}".encode()
    for _ in range(_LOOKS):
        last = _last_pid()
        if found := [pid for pid in range(last, max(last - _YOUNG, 1), -1) if _has_mark(pid, mark)]:
            send_signal_to_groups(found, signal.SIGKILL)
            return True
        time.sleep(0.001)
    return False


def memory(members: Collection[int], limit: int) -> int:
    """The bytes that these processes use together. Above `limit` they are counted exactly, which takes longer: memory
    that a process shares with the one it was forked from is then counted once."""
    used = sum(_own_pages(pid) for pid in members) * _PAGE_BYTES
    return used if used <= limit else sum(_proportional_bytes(pid) for pid in members)


def _own_pages(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared = file.read().split()[:3]
    except (OSError, ValueError):
        return 0
    return int(resident) - int(shared)


def _proportional_bytes(pid: int) -> int:
    fields: dict[bytes, int] = {}
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                name, _, rest = line.partition(b":")
                if name in (b"Pss", b"Pss_Anon", b"SwapPss"):
                    fields[name] = int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return _own_pages(pid) * _PAGE_BYTES
    return fields.get(b"Pss_Anon", fields.get(b"Pss", 0)) + fields.get(b"SwapPss", 0)


class ProcessFamily(NamedTuple):
    """`pid` 0 is a family about to be started: it is known by its mark alone."""

    pid: int
    job: str
    limit: int
    memory: int

    def excess(self, *, many_threads: bool) -> str:
        """Which limit it is above, if any. The question to the whole machine is cheap, and comes first."""
        if self.limit and many_threads and self._count() > self.limit:
            return "processes"
        if self.memory and self.pid and memory(tree(self.pid), self.memory) > self.memory:
            return "memory"
        return ""

    def _count(self) -> int:
        return max(len(descendants(self.pid)), len(find(self.pid, self.job)))


def _guard() -> None:
    """Lines `+ PID JOB PROCESSES MEMORY` and `- 0 JOB 0 0` until the pipe closes; then nobody is left to be polite to.

    Families with a limit are counted a few times a second: nobody else counts root's processes, or the memory of a
    whole family. A line `JOB LIMIT` on stdout says which one was ended for which limit.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(-10)
    families: dict[str, ProcessFamily] = {}
    quiet = _threads()
    rest = b""
    while True:
        counted = [family for family in families.values() if family.limit or family.memory]
        if select.select([0], [], [], COUNT_SECONDS if counted else None)[0]:
            chunk = os.read(0, 65536)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                sign, pid, job, limit, most = line.decode().split()
                if sign == "+":
                    families[job] = ProcessFamily(int(pid), job, int(limit), int(most))
                else:
                    families.pop(job, None)
            quiet = min(quiet, _threads())
            continue
        many = _threads() - quiet > min((family.limit for family in counted if family.limit), default=0)
        for family in counted:
            if excess := family.excess(many_threads=many):
                with suppress(OSError):
                    os.write(1, f"{family.job} {excess}\n".encode())
                # Behind walls the first two are enough, and a machine full of processes has no time to lose.
                send_signal(sorted(descendants(family.pid))[:2], signal.SIGKILL)
                end(family.pid, family.job, grace_s=0)
    for family in families.values():
        end(family.pid, family.job, grace_s=0)


def _threads() -> int:
    """How many there are on this machine, at the price of one small file."""
    with open("/proc/loadavg", "rb") as file:
        return int(file.read().split()[3].split(b"/")[1])


if __name__ == "__main__":
    _guard()
