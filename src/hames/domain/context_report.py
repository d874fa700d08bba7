"""The report of `/context`: what fills a model's context window."""

from hames.domain.value import Value


class ContextPart(Value):
    """`tokens` is an estimate. `count`: how many messages, calls or results there are."""

    name: str
    tokens: int
    count: int = 0


class ContextReport(Value):
    """`tokens` is an estimate of the next request; from `limit` on the conversation is shortened."""

    tokens: int
    limit: int
    window: int
    parts: tuple[ContextPart, ...]
    shortened: tuple[str, ...] = ()
    """What the model is no longer shown, in words."""
    budgets: tuple[str, ...] = ()
    """How much of each budget is used, in words."""
