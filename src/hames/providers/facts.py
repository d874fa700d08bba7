"""Prices and context windows of models, from the generated table `price_table`."""

from hames.domain.models import Price
from hames.domain.value import Value
from hames.providers.price_table import FACTS


class ModelFacts(Value):
    """Empty, 0 and None: the table does not say."""

    name: str = ""
    context_window: int = 0
    price: Price | None = None


def facts_of(provider: str, model: str) -> ModelFacts:
    row = FACTS.get(f"{provider}/{model}")
    return ModelFacts() if row is None else ModelFacts(name=row[0], context_window=row[1], price=price(*row[2:]))


def price(asked: float, answered: float, cache_read: float | None, cache_write: float | None) -> Price:
    """Dollars per million tokens. A cache without a price of its own costs what input costs."""
    return Price(
        input=asked,
        output=answered,
        cache_read=asked if cache_read is None else cache_read,
        cache_write=asked if cache_write is None else cache_write,
    )
