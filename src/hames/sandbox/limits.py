"""Limits of one command, in force before anything of it has run.

Python's own hook between fork and exec costs `vfork`, and setting limits after the start would come too late. So
either the program waits to be told what to do until its limits are set (`confine`), or a shell sets them and then
becomes the program (`limited`), which costs a millisecond.

No core dumps ever, and the kernel is told to take the command first when memory runs out: the harness stays.
"""

import resource
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hames.ports import Limits
from hames.sandbox.plan import becoming

_EXPENDABLE = "1000"


def confine(pid: int, limits: Limits) -> None:
    """Limits a process that has not begun. Raises `OSError`."""
    wanted = {resource.RLIMIT_CORE: 0}
    if limits.processes:
        wanted[resource.RLIMIT_NPROC] = limits.processes + _threads_everywhere()
    if limits.memory_bytes:
        # Private writable memory. An address-space limit would also count what node and Go only reserve.
        wanted[resource.RLIMIT_DATA] = limits.memory_bytes
    if limits.file_bytes:
        wanted[resource.RLIMIT_FSIZE] = limits.file_bytes
    for kind, most in wanted.items():
        hard = resource.getrlimit(kind)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, kind, (allowed, allowed))
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(_EXPENDABLE)


def limited(argv: Sequence[str], limits: Limits) -> tuple[str, ...]:
    """The words that start `argv` under `limits`."""
    script = ["ulimit -c 0", f"{{ echo {_EXPENDABLE} >/proc/self/oom_score_adj; }} 2>/dev/null"]
    if limits.processes:
        count = limits.processes + _threads_everywhere()
        # bash says -u, dash and busybox say -p
        script.append(f"ulimit -u {count} 2>/dev/null || ulimit -p {count} 2>/dev/null")
    if limits.memory_bytes:
        script.append(f"ulimit -d {max(1, limits.memory_bytes // 1024)}")
    if limits.file_bytes:
        script.append(f"ulimit -f {max(1, limits.file_bytes // 512)}")
    return becoming(argv, script)


def _threads_everywhere() -> int:
    """The limit counts everything the user runs, so what already runs does not count against the command."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    return 0
