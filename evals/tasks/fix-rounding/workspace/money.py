"""Amounts are whole cents."""


def split(amount, people):
    """The share of each person."""
    share = amount // people
    return [share] * people
