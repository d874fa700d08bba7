"""What this user spent today: one small file in the state directory, shared by all processes under a lock."""

import fcntl
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hames.domain.budgets import BudgetMeasure, Budgets, DayTotal, Spending

log = logging.getLogger(__name__)


def day_spending(budgets: Budgets, directory: Path) -> "DaySpendingFile | None":
    """None where the day has no budget."""
    return DaySpendingFile(directory / "spending.json") if budgets.limited("day") else None


def local_day() -> str:
    from datetime import datetime

    return datetime.now().astimezone().date().isoformat()


class DaySpendingFile:
    """Implements `ports.DaySpending`."""

    def __init__(self, path: Path, today: Callable[[], str] = local_day) -> None:
        self._path = path
        self._today = today
        self._own = DayTotal()
        """What this process counted today: it is never less than that, whatever happened to the file."""

    def add(self, spent: Spending) -> DayTotal:
        return self._change(lambda total: replace(total, spent=total.spent + spent))

    def raise_limit(self, measure: BudgetMeasure, amount: float) -> DayTotal:
        return self._change(
            lambda total: replace(total, raised={**total.raised, measure: total.raised.get(measure, 0.0) + amount})
        )

    def _change(self, change: Callable[[DayTotal], DayTotal]) -> DayTotal:
        day = self._today()
        own = self._own if self._own.day == day else DayTotal(day=day)
        self._own = change(own)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            log.warning("budget.day_not_shared", extra={"error": str(problem)})
            return self._own
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            total = change(self._read(day, own))
            temporary = self._path.with_suffix(".new")
            temporary.write_bytes(msgspec.json.encode(total))
            temporary.chmod(0o600)
            temporary.replace(self._path)
        except OSError as problem:
            log.warning("budget.day_not_written", extra={"error": str(problem)})
            return self._own
        else:
            return total
        finally:
            os.close(lock)

    def _read(self, day: str, own: DayTotal) -> DayTotal:
        """The file, or what this process knows where it is missing, damaged or of another day."""
        with suppress(OSError, msgspec.DecodeError):
            found = msgspec.json.decode(self._path.read_bytes(), type=DayTotal)
            if found.day == day and all(
                getattr(found.spent, name) >= getattr(own.spent, name) - 1e-9 for name in Spending.__struct_fields__
            ):
                return found
        return own
