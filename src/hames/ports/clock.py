"""Time and names: what the engine may not make up itself, so that tests can decide it."""

from typing import Protocol


class Clock(Protocol):
    """The only one who tells the time."""

    def now_ms(self) -> int:
        """Wall clock, for people. It may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds, for durations."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """The only one who rolls the dice."""

    def new(self, prefix: str) -> str:
        """A name nobody has: the prefix, an underscore, then letters and digits that sort by time."""
        ...
