"""Limits of one command, set by the command itself just before it becomes the program.

Setting them from outside would come after the start, and a fork in between would go free. Python's own hook
between fork and exec costs `vfork`, which costs more the larger the harness is. A shell that sets them and then
`exec`s is a millisecond, and right.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hames.ports import Limits
from hames.sandbox.plan import becoming

_OWN_COUNT_SINCE = (5, 14)


def limited(argv: Sequence[str], limits: Limits, *, walled: bool) -> tuple[str, ...]:
    """The words that start `argv` under `limits`.

    No core dumps ever, and the kernel is told to take the command first when memory runs out: the harness stays.
    """
    script = ["ulimit -c 0", "{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null"]
    if limits.processes:
        count = limits.processes + (0 if walled and _counts_alone() else _threads_everywhere())
        # bash says -u, dash and busybox say -p
        script.append(f"ulimit -u {count} 2>/dev/null || ulimit -p {count} 2>/dev/null")
    if limits.memory_bytes:
        # Private writable memory. An address-space limit would also count what node and Go only reserve.
        script.append(f"ulimit -d {max(1, limits.memory_bytes // 1024)}")
    if limits.file_bytes:
        script.append(f"ulimit -f {max(1, limits.file_bytes // 512)}")
    return becoming(argv, script)


def _counts_alone() -> bool:
    """Whether processes in a user namespace are counted there, and not with all the others of the same user."""
    numbers = os.uname().release.split("-")[0].split(".")[:2]
    with suppress(ValueError):
        return tuple(int(number) for number in numbers) >= _OWN_COUNT_SINCE
    return False


def _threads_everywhere() -> int:
    """The limit counts everything the user runs, so what already runs does not count against the command."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    return 0
