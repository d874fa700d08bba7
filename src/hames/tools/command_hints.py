"""What to tell a model whose command has met a limit or looked for something that the sandbox does not show.

Programs report such things in their own words, or not at all. The words earn a hint, and only when the command failed.
"""

import os
import signal
from collections.abc import Sequence

from hames.deferred import pattern
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
_MISSING_SIGNS = ("no such file or directory", "enoent", "cannot find", "can't open", "not a directory")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/proc", "/dev", "/sys", "/tmp", "/run")
_WORDS = pattern(r"[^\s'\"`‘’:,()\[\]<>|]*/[^\s'\"`‘’:,()\[\]<>|]+")
_MOST_WORDS = 16
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
        instead = "; large files belong in the workspace" if isinstance(policy, WorkspaceWrite) else ""
        hints.append(f"the private /tmp and home directory are small{instead}")
    return hints


def looks_hidden(output: str, *, cwd: str, roots: Sequence[str]) -> bool:
    """Whether a program missed a file outside the workspace and the system's directories. It may exist: nobody looks,
    so that a command learns nothing about it."""
    shown = [*_SYSTEM, *roots, *map(os.path.realpath, roots)]
    for line in output.splitlines():
        if any(sign in line.lower() for sign in _MISSING_SIGNS):
            for word in _WORDS.findall(line)[:_MOST_WORDS]:
                path = os.path.realpath(os.path.join(cwd, word))  # noqa: PTH118
                if not any(path == root or path.startswith(f"{root.rstrip('/')}/") for root in shown):
                    return True
    return False


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
