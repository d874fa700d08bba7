"""Model cards: context window, prices and abilities of a model, known before it is asked anything."""

from typing import Literal

from hames.deferred import pattern
from hames.domain.value import Value

Dialect = Literal["", "claude", "gpt"]
"""The tools a model was trained with; empty: none that we know."""

_GPT = pattern(r"(?:^|[/.:])(?:gpt-(?:[5-9]|\d\d)(?!\d)|o[34](?:-|$))|codex")


class Price(Value):
    """US dollars per million tokens."""

    input: float
    output: float
    cache_read: float = 0.0
    cache_write: float = 0.0


class ModelCard(Value):
    provider: str
    model: str
    """The provider's own name for it."""
    display_name: str
    description: str = ""
    context_window: int = 200_000
    max_output: int = 32_000
    tools: bool = True
    images: bool = True
    reasoning: bool = False
    web_search: bool = False
    price: Price | None = None
    successor: str = ""
    """Set when the provider has retired it: what to use instead."""
    usable: bool = True
    """False: its provider has no key, or no address, and cannot be asked."""

    @property
    def id(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def dialect(self) -> Dialect:
        """By its name, wherever it is served.

        >>> ModelCard(provider="router", model="anthropic/claude-sonnet-5", display_name="").dialect
        'claude'
        """
        name = self.model.lower()
        if "claude" in name:
            return "claude"
        return "gpt" if _GPT.search(name) and "gpt-oss" not in name else ""
