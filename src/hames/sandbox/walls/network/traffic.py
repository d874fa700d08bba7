"""What a command sent to which host and received from it: counted, limited, and said in one short sentence."""

from collections.abc import Callable
from functools import partial

from hames.sandbox.walls.network.destinations import Destination

_NAMED = 8
_COUNTED = 1000
_UNITS = ("bytes", "kB", "MB", "GB")


class Traffic:
    """Of one command. `exceeded` is called once, when more than `limit` bytes went through."""

    def __init__(self, limit: int, exceeded: Callable[[], None]) -> None:
        self._limit = limit
        self._exceeded = exceeded
        self._total = 0
        self._hosts: dict[Destination, tuple[int, int]] = {}
        self._uncounted = 0

    def of(self, to: Destination) -> Callable[[int, int], None]:
        """What counts the bytes of a new connection to this host."""
        if to not in self._hosts and len(self._hosts) >= _COUNTED:
            self._uncounted += 1
        else:
            self._hosts.setdefault(to, (0, 0))
        return partial(self._add, to)

    def _add(self, to: Destination, sent: int, received: int) -> None:
        before, self._total = self._total, self._total + sent + received
        if to in self._hosts:
            were_sent, were_received = self._hosts[to]
            self._hosts[to] = (were_sent + sent, were_received + received)
        if before <= self._limit < self._total:
            self._exceeded()

    @property
    def notes(self) -> tuple[str, ...]:
        """The hosts that were reached, most bytes first."""
        if not self._hosts:
            return ()
        ranked = sorted(self._hosts.items(), key=lambda one: -sum(one[1]))
        words = [
            f"{to} ({readable_size(received)} received, {readable_size(sent)} sent)"
            for to, (sent, received) in ranked[:_NAMED]
        ]
        if more := len(ranked) - _NAMED + self._uncounted if len(ranked) > _NAMED else self._uncounted:
            words.append(f"{more} more hosts" if more > 1 else "1 more host")
        return (f"network: reached {', '.join(words)}",)


def readable_size(size: int) -> str:
    """
    >>> readable_size(12), readable_size(1_500), readable_size(3_000_000)
    ('12 bytes', '1.5 kB', '3.0 MB')
    """
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {_UNITS[0]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
