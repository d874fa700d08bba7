"""What to tell a model whose command has met a limit: which one, how much it is, and what can be done.

Programs report a limit in their own words, or not at all. The words earn a hint, and only when the command failed.
"""

import signal

from hames.domain.policy import ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.ports import Limits

_FILE_SIGNS = ("file too large", "file size limit exceeded", "efbig", "sigxfsz")
_SHADOW_SIGNS = ("reserveshadowmemoryrange failed", "can not mmap the shadow memory", "unable to mmap")
_MEMORY_SIGNS = (
    "memoryerror",
    "cannot allocate memory",
    "can't allocate",
    "out of memory",
    "outofmemory",
    "bad_alloc",
    "memory allocation of",
    "memory exhausted",
    "failed to allocate",
    "allocation failed",
    "failed to map",
    "enomem",
)
_PROCESS_SIGNS = (
    "resource temporarily unavailable",
    "can't start new thread",
    "cannot fork",
    "can't fork",
    "fork: retry",
    "unable to create native thread",
    "failed to create new os thread",
    "eagain",
)
_SPACE_SIGNS = ("no space left on device", "enospc")


def limit_hints(output: str, code: int, limits: Limits, policy: SandboxPolicy) -> list[str]:
    """Sentences about the limits that a failed command seems to have met."""
    low = output.lower()
    hints: list[str] = []
    if limits.file_bytes and (abs(code) in _killed_by(signal.SIGXFSZ) or _any(low, _FILE_SIGNS)):
        hints.append(f"file size limit: one file may have {_size(limits.file_bytes)} (max_file_mb)")
    if limits.memory_bytes != 0 and _any(low, _SHADOW_SIGNS):
        hints.append("memory limit: sanitizers reserve terabytes of addresses; begin with `ulimit -d unlimited`")
    elif limits.memory_bytes != 0 and _any(low, _MEMORY_SIGNS):
        most = _size(limits.memory_bytes) if limits.memory_bytes else "three quarters of this machine's"
        hints.append(f"memory limit: a command may use {most} memory (max_memory_mb)")
    if limits.processes and _any(low, _PROCESS_SIGNS):
        hints.append(f"process limit: a command may have {limits.processes:,} processes and threads (max_processes)")
    if isinstance(policy, ReadOnly | WorkspaceWrite) and _any(low, _SPACE_SIGNS):
        hints.append("the private /tmp and home directory are small; large files belong in the workspace")
    return hints


def _any(text: str, signs: tuple[str, ...]) -> bool:
    return any(sign in text for sign in signs)


def _killed_by(number: int) -> tuple[int, int]:
    return number, 128 + number


def _size(count: int) -> str:
    """
    >>> _size(16 << 30), _size(300 << 20)
    ('16 GiB', '300 MiB')
    """
    return f"{count / (1 << 30):.3g} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.3g} MiB"
