"""What tokens cost. Pure: usage and prices in, dollars out.

A model without a known price is named, not guessed: a sum that leaves something out says so.
"""

from collections.abc import Callable, Mapping

from hames.domain.models import ModelCard, Price
from hames.domain.usage import Usage
from hames.domain.value import Value


class Cost(Value):
    """US dollars, and the models that are not in them because nobody knows their price."""

    dollars: float = 0.0
    unpriced: tuple[str, ...] = ()


def price_of(usage: Usage, price: Price) -> float:
    """Dollars. Thinking is part of the output and costs the same.

    >>> price_of(Usage(input_tokens=1_000_000, output_tokens=100_000), Price(input=2.0, output=10.0))
    3.0
    """
    counted = (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + usage.cache_read_tokens * price.cache_read
        + usage.cache_write_tokens * price.cache_write
    )
    return counted / 1_000_000


def cost(spent: Mapping[str, Usage], find: Callable[[str], ModelCard | None]) -> Cost:
    """Of a turn or a thread: `spent` is usage by model, as `Turn` and `ThreadState` have it."""
    dollars, unpriced = 0.0, list[str]()
    for model, usage in spent.items():
        card = find(model)
        if card is None or card.price is None:
            unpriced.append(model)
        else:
            dollars += price_of(usage, card.price)
    return Cost(dollars=dollars, unpriced=tuple(unpriced))
