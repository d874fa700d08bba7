"""Limits of one command, in force before anything of it has run.

Python's own hook between fork and exec costs `vfork`, and setting limits after the start would come too late. So
either the program waits to be told what to do until its limits are set (`confine`), or a shell sets them and then
becomes the program (`limited`), which costs a millisecond.

No core dumps ever, and the kernel is told to take the command first when memory runs out: the harness stays.

The kernel limits the memory of one process. That limit may be lifted from inside, because sanitizers reserve terabytes
of addresses and use none of them; what a command uses with everything it started is watched by the guardian.
"""

import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from hames.ports import Limits

_EXPENDABLE = "1000"
_LEAST_MEMORY_BYTES = 1 << 30


def memory_limit(limits: Limits) -> int:
    """In bytes; 0: none."""
    return default_memory_bytes() if limits.memory_bytes is None else limits.memory_bytes


def readable(size: int) -> str:
    """
    >>> readable(16 << 30), readable(300 << 20)
    ('16 GiB', '300 MiB')
    """
    return f"{size / (1 << 30):.3g} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.3g} MiB"


@cache
def default_memory_bytes() -> int:
    """Three quarters of what this machine, or this container, has."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(_LEAST_MEMORY_BYTES, min([machine, *_container_limits()]) * 3 // 4)


def _container_limits() -> Iterator[int]:
    """Of the control groups we are in, of both versions."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            root, name = ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
            group = Path("/sys/fs/cgroup", root, path.strip("/"))
            for place in (group, *group.parents):
                if place.is_relative_to("/sys/fs/cgroup"):
                    with suppress(OSError, ValueError):
                        yield int((place / name).read_text())


def set_limits(pid: int, limits: Limits) -> None:
    """Limits a process that has not begun. Raises `OSError`."""
    wanted = {resource.RLIMIT_CORE: 0}
    if limits.processes:
        wanted[resource.RLIMIT_NPROC] = limits.processes + _threads_everywhere()
    if memory := memory_limit(limits):
        # Private writable memory. An address-space limit would also count what node and Go only reserve.
        wanted[resource.RLIMIT_DATA] = memory
    if limits.file_bytes:
        wanted[resource.RLIMIT_FSIZE] = limits.file_bytes
    for kind, most in wanted.items():
        hard = resource.getrlimit(kind)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, kind, (allowed, hard if kind == resource.RLIMIT_DATA else allowed))
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(_EXPENDABLE)


def limited_command(argv: Sequence[str], limits: Limits) -> tuple[str, ...]:
    """A shell command line that sets `limits` and then becomes `argv`."""
    script = ["ulimit -c 0", f"{{ echo {_EXPENDABLE} >/proc/self/oom_score_adj; }} 2>/dev/null"]
    if limits.processes:
        count = limits.processes + _threads_everywhere()
        # bash says -u, dash and busybox say -p
        script.append(f"ulimit -u {count} 2>/dev/null || ulimit -p {count} 2>/dev/null")
    if memory := memory_limit(limits):
        script.append(f"ulimit -S -d {max(1, memory // 1024)}")
    if limits.file_bytes:
        script.append(f"ulimit -f {max(1, limits.file_bytes // 512)}")
    return ("/bin/sh", "-c", "; ".join([*script, 'exec "$@"']), "sh", *argv)


def _threads_everywhere() -> int:
    """The limit counts everything the user runs, so what already runs does not count against the command."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    return 0
