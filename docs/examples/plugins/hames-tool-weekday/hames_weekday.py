"""A tool: the weekday of a date. `read_only` says that it changes nothing, so nobody is asked about it."""

from datetime import date
from typing import Annotated

from hames import tool


@tool(read_only=True)
def weekday(day: Annotated[str, "a date such as 2026-11-16"]) -> str:
    """Says which day of the week a date is."""
    return f"{date.fromisoformat(day):%A}"
