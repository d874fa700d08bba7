"""Dates in ISO 8601, from milliseconds."""

DAY_SECONDS = 86_400


def iso_date(at_ms: int) -> str:
    """
    >>> iso_date(0), iso_date(951_782_399_000), iso_date(1_700_000_000_123)
    ('1970-01-01T00:00:00.000Z', '2000-02-28T23:59:59.000Z', '2023-11-14T22:13:20.123Z')
    """
    seconds, millis = divmod(at_ms, 1000)
    days, rest = divmod(seconds, DAY_SECONDS)
    hours, rest = divmod(rest, 3600)
    year, month, day = _civil(days)
    return f"{year:04}-{month:02}-{day:02}T{hours:02}:{rest // 60:02}:{rest % 60:02}.{millis:03}Z"


def _civil(days: int) -> tuple[int, int, int]:
    """The date of a day since 1970-01-01. Years are counted from March, so that a leap day is the last day of one."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1
