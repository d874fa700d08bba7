"""Budgets of the configuration: tables `turn`, `thread` and `day`, each with `usd`, `tokens`, `minutes` and `steps`."""

from collections.abc import Mapping

import msgspec

from hames.domain.budgets import MEASURES, SCOPES, Budgets
from hames.domain.errors import Misconfigured
from hames.domain.json import Json


def read_budgets(value: Json, origin: str) -> Budgets:
    """Raises `Misconfigured`. A budget that was meant and not understood would be no budget."""
    tables: Mapping[str, Json] = value if isinstance(value, dict) else {}
    for scope, table in tables.items():
        if scope not in SCOPES:
            raise Misconfigured(f"budgets ({origin}) has {scope!r}; a budget is for one of {', '.join(SCOPES)}")
        if not isinstance(table, dict):
            raise Misconfigured(f"budgets.{scope} ({origin}) must be a table, such as {{ usd = 2.0 }}")
        for measure, limit in table.items():
            if measure not in MEASURES:
                known = ", ".join(MEASURES)
                raise Misconfigured(f"budgets.{scope} ({origin}) has {measure!r}; the keys are {known}")
            whole = measure in ("tokens", "steps")
            number = isinstance(limit, int if whole else int | float) and not isinstance(limit, bool)
            if not number or not 0 <= limit < 1e15:
                what = "a whole number" if whole else "a number"
                raise Misconfigured(f"budgets.{scope}.{measure} is {limit!r} ({origin}); it must be {what}, 0 for none")
    return msgspec.convert(tables, Budgets, strict=False)
