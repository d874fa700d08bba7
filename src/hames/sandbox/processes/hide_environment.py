"""What children may not read of the harness itself: its environment and its memory.

A program without walls runs as the same user and can open `/proc/PID/environ` of its parent, where the keys are.
An ordinary user's process can make itself unreadable; root reads everything, so there the values are also erased
from the memory that file shows. `os.environ` keeps them: it is a copy.
"""

import ctypes
import re
import sys
from contextlib import suppress
from pathlib import Path

from hames.deferred import pattern

_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 50 - 3, 51 - 3  # fields of /proc/self/stat, counted after the name

SECRET_NAMES = pattern(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|^AWS_|_URL$|_URI$|_DSN$", re.IGNORECASE)


def conceal() -> None:
    """Call once, early, in a program that holds keys. It changes nothing for the program itself, except that
    it leaves no core dump and that C libraries no longer find secrets in the environment."""
    if sys.platform != "linux":
        return
    with suppress(OSError, ValueError, IndexError):
        _erase_secrets()
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _erase_secrets() -> None:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    shown = Path("/proc/self/environ").read_bytes()
    # Only if the file shows exactly that memory: a title that some library wrote over it is left alone.
    if not start or end - start != len(shown) or ctypes.string_at(start, len(shown)) != shown:
        return
    at = start
    for entry in shown.split(b"\0"):
        name, found, value = entry.partition(b"=")
        if found and SECRET_NAMES.search(name.decode("ascii", "replace")):
            ctypes.memset(at + len(name) + 1, 0, len(value))
        at += len(entry) + 1
