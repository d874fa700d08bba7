"""What tokens cost. Pure: usage and prices in, dollars out."""

from collections.abc import Callable, Mapping

from hames.domain.models import Price
from hames.domain.usage import Usage

TOKENS_PER_PRICE = 1_000_000


def cost(spent: Mapping[str, Usage], price_of: Callable[[str], Price | None]) -> float | None:
    """US dollars for the usage of each model at its own price. None: the price of one of them is not known.

    Thinking is part of the output and costs the same.

    >>> cost({"a/b": Usage(input_tokens=1_000_000, output_tokens=100_000)}, {"a/b": Price(input=2.0, output=10.0)}.get)
    3.0
    """
    total = 0.0
    for model, usage in spent.items():
        price = price_of(model)
        if price is None:
            return None
        total += usage.input_tokens * price.input + usage.output_tokens * price.output
        total += usage.cache_read_tokens * price.cache_read + usage.cache_write_tokens * price.cache_write
    return total / TOKENS_PER_PRICE
