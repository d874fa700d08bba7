"""What the attempts to escape have in common."""

import ctypes
import os
from collections.abc import Callable
from typing import Any

Targets = dict[str, Any]

Attempt = Callable[[Targets], object]

_X86 = os.uname().machine == "x86_64"


class AttemptFailed(Exception):
    """The attempt was refused."""


def call(x86: int, arm: int, *arguments: Any) -> int:
    """A raw system call. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(x86 if _X86 else arm, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def write(path: str, text: str = "escaped") -> None:
    with open(path, "a") as file:
        file.write(text)


def there_and_back(path: str) -> None:
    os.rename(path, f"{path}-away")
    os.rename(f"{path}-away", path)


def canary_in(text: bytes, stage: Targets) -> None:
    if stage["canary"].encode() not in text:
        raise AttemptFailed


def read_canary(path: str, stage: Targets) -> None:
    with open(path, "rb") as file:
        canary_in(file.read(), stage)


def libc_says_yes(function: str, *arguments: Any) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments) < 0:
        raise AttemptFailed
