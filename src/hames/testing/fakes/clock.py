"""A clock that is told the time, and names that count."""

from anyio.lowlevel import checkpoint


class FakeClock:
    """Sleeping takes no time at all, and the clock knows how long it was."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self.at_ms = start_ms
        self.elapsed = 0.0

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic(self) -> float:
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await checkpoint()

    def advance(self, seconds: float) -> None:
        self.elapsed += seconds
        self.at_ms += round(seconds * 1000)


class CountingIds:
    def __init__(self, last: int = 0) -> None:
        self._last = last

    def new(self, prefix: str) -> str:
        self._last += 1
        return f"{prefix}_{self._last:06}"
