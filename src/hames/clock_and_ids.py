"""The real clock, and ids that nobody can guess."""

import os
import time

import anyio

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class RandomIds:
    """Sorts by time, and never goes back: two ids of one process keep their order whatever the clock does."""

    def __init__(self) -> None:
        self._last = 0

    def new(self, prefix: str) -> str:
        self._last = max(self._last + 1, time.time_ns() // 1000)
        return f"{prefix}_{_base32(self._last, 11)}{_base32(int.from_bytes(os.urandom(8)) >> 4, 12)}"


def _base32(number: int, length: int) -> str:
    return "".join(_DIGITS[(number >> 5 * place) & 31] for place in range(length - 1, -1, -1))
