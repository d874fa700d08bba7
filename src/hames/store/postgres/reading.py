"""What the rows of a thread say."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hames.domain.events import FORMAT, Record, ThreadCreated
from hames.store.lines import merge_deltas, record, unknown

READ: Final = """
select seq, 0::bigint as n, body from hames.ev where thread = $1 and seq > $2
union all
select seq, n, body from hames.live where thread = $1 and seq > $2
order by 1, 2
"""
"""In one statement: both tables as they were at one moment."""

Row = tuple[int, int, bytes]
"""Number of the record, number of the live row or 0, line."""


@dataclass
class ReadRows:
    records: list[Record] = field(default_factory=list[Record])
    """Of the log itself."""
    open_bundle: list[Record] = field(default_factory=list[Record])
    """The live deltas behind them, as they were kept."""
    newer: bool = False
    """A newer version wrote some of it."""
    bad: int = 0
    """Rows that are damaged."""

    @property
    def everything(self) -> list[Record]:
        return [*self.records, *merge_deltas(self.open_bundle)]


def packed_lines(body: bytes) -> list[Row]:
    """The rows of a thread that was packed."""
    return [(number, 0, line) for number, line in enumerate(zlib.decompress(body).splitlines(), 1)]


def read_rows(rows: Iterable[Sequence[object]], after: int = 0) -> ReadRows:
    found = ReadRows()
    last = after
    for seq, n, body in rows:
        assert isinstance(seq, int) and isinstance(body, bytes)
        one = record(body)
        if one is None:
            found.newer = found.newer or unknown(body)
            found.bad += not unknown(body)
            last = seq if n == 0 else last
        elif n == 0:
            found.records.append(one)
            last = seq
            if isinstance(one.event, ThreadCreated):
                found.newer = found.newer or one.event.format > FORMAT
        elif seq == last + 1:
            found.open_bundle.append(one)
    return found
