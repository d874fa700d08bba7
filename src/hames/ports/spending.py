"""What a user spent today, in all processes together."""

from typing import Protocol

from hames.domain.budgets import BudgetMeasure, DayTotal, Spending


class DaySpending(Protocol):
    """Both may wait for another process, so they are called in a thread. They raise nothing: what cannot be written is
    counted in this process alone."""

    def add(self, spent: Spending) -> DayTotal:
        """Counts it, and returns what was spent today by everybody."""
        ...

    def raise_limit(self, measure: BudgetMeasure, amount: float) -> DayTotal:
        """Somebody allowed so much more for today."""
        ...
