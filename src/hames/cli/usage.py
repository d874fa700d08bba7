"""Tokens and money, counted and in words."""

from collections.abc import Collection, Mapping

from hames.protocols.flint import messages as m

MILLION = 1_000_000


def short_count(count: int) -> str:
    """
    >>> short_count(950), short_count(12_345), short_count(2_500_000)
    ('950', '12.3k', '2.5M')
    """
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < MILLION else f"{count / MILLION:.1f}M"


def in_dollars(cost: float) -> str:
    """
    >>> in_dollars(1.234), in_dollars(0.002)
    ('$1.23', '<$0.01')
    """
    return f"${cost:.2f}" if cost >= 0.01 else "<$0.01"


def total_usage(used: Collection[m.Usage]) -> m.Usage | None:
    """Of several turns together; None if there was none."""
    if not used:
        return None
    return m.Usage(
        input_tokens=sum(one.input_tokens for one in used),
        output_tokens=sum(one.output_tokens for one in used),
        thinking_tokens=sum(_count(one.thinking_tokens) for one in used),
        cache_read_tokens=sum(_count(one.cache_read_tokens) for one in used),
        cache_write_tokens=sum(_count(one.cache_write_tokens) for one in used),
    )


def dollars_of(usage: m.Usage, price: Mapping[str, float]) -> float:
    """`price` is per million tokens. `input_tokens` of `usage` leaves out what a cache was used for."""
    usual = price.get("input", 0.0)
    whole = usage.input_tokens * usual
    whole += _count(usage.cache_read_tokens) * price.get("cacheRead", usual)
    whole += _count(usage.cache_write_tokens) * price.get("cacheWrite", usual)
    return (whole + usage.output_tokens * price.get("output", 0.0)) / MILLION


def _count(tokens: object) -> int:
    return tokens if isinstance(tokens, int) else 0
