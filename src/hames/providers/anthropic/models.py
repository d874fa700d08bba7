"""Claude models, as data. `AS_OF` says when this was true.

Models differ in how they are asked to think, and a wrong question is refused:

* `none`    cannot think
* `budget`  thinks when given a number of tokens (4.5 and before)
* `asked`   decides itself how much, once it is asked to (4.6 to 4.8)
* `usual`   thinks by itself (5 and later); refuses a number of tokens

Thinking text is left out by the newer ones unless a summary is asked for.
"""

from typing import Literal

from msgspec.structs import replace

from hames.domain.models import ModelCard, Price
from hames.domain.value import Value

AS_OF = "2026-11"
PROVIDER = "anthropic"
BASE_URL = "https://api.anthropic.com"
DEFAULT = "claude-sonnet-5-5"

Thinking = Literal["none", "budget", "asked", "usual"]


class Claude(Value):
    """A model, and how it wants to be asked. `effort`: it takes an effort level."""

    card: ModelCard
    thinking: Thinking
    effort: bool


M = 1_000_000
K = 1_000


def _claude(
    model: str,
    name: str,
    description: str,
    thinking: Thinking,
    *,
    window: int = M,
    output: int = 128 * K,
    price: tuple[float, float, float, float] | None = None,
    successor: str = "",
) -> Claude:
    card = ModelCard(
        provider=PROVIDER,
        model=model,
        display_name=f"Claude {name}",
        description=description,
        context_window=window,
        max_output=output,
        reasoning=thinking != "none",
        web_search=thinking != "none",
        price=None
        if price is None
        else Price(input=price[0], output=price[1], cache_read=price[2], cache_write=price[3]),
        successor=successor,
    )
    return Claude(card=card, thinking=thinking, effort=thinking in ("asked", "usual") or model == "claude-opus-4-5")


_OPUS = (5.0, 25.0, 0.5, 6.25)
_SONNET = (3.0, 15.0, 0.3, 3.75)

MODELS: tuple[Claude, ...] = (
    _claude("claude-sonnet-5-5", "Sonnet 5.5", "Fast and capable", "usual", price=(2.0, 10.0, 0.2, 2.5)),
    _claude("claude-opus-5-5", "Opus 5.5", "Long-running coding", "usual", price=(4.0, 20.0, 0.2, 5.0)),
    _claude(
        "claude-haiku-5-5",
        "Haiku 5.5",
        "Fastest; prompts over 100,000 tokens cost five times as much",
        "usual",
        price=(0.1, 0.5, 0.01, 0.125),
    ),
    _claude("claude-fable-5-2", "Fable 5.2", "Demanding reasoning", "usual"),
    _claude("claude-fable-5-1", "Fable 5.1", "Demanding reasoning", "usual", price=(10.0, 50.0, 0.25, 12.5)),
    _claude("claude-mythos-5-2", "Mythos 5.2", "For verified organisations", "usual"),
    _claude("claude-mythos-5-1", "Mythos 5.1", "For verified organisations", "usual", price=(10.0, 50.0, 0.25, 12.5)),
    _claude("claude-opus-5", "Opus 5", "Before Opus 5.5", "usual", price=_OPUS),
    _claude("claude-sonnet-5", "Sonnet 5", "Before Sonnet 5.5", "usual", price=(2.0, 10.0, 0.2, 2.5)),
    _claude("claude-fable-5", "Fable 5", "Before Fable 5.1", "usual", price=(10.0, 50.0, 1.0, 12.5)),
    _claude("claude-mythos-5", "Mythos 5", "For verified organisations", "usual", price=(10.0, 50.0, 1.0, 12.5)),
    _claude("claude-opus-4-8", "Opus 4.8", "Before Opus 5", "asked", price=_OPUS),
    _claude("claude-opus-4-7", "Opus 4.7", "Before Opus 4.8", "asked", price=_OPUS),
    _claude("claude-opus-4-6", "Opus 4.6", "Before Opus 4.7", "asked", price=_OPUS),
    _claude("claude-sonnet-4-6", "Sonnet 4.6", "Before Sonnet 5", "asked", output=64 * K, price=_SONNET),
    _claude(
        "claude-haiku-4-5",
        "Haiku 4.5",
        "Before Haiku 5.5",
        "budget",
        window=200 * K,
        output=64 * K,
        price=(1.0, 5.0, 0.1, 1.25),
    ),
    _claude("claude-opus-4-5", "Opus 4.5", "Before Opus 4.6", "budget", window=200 * K, output=64 * K, price=_OPUS),
    _claude(
        "claude-sonnet-4-5",
        "Sonnet 4.5",
        "To be retired on 30 November 2026",
        "budget",
        window=200 * K,
        output=64 * K,
        price=_SONNET,
        successor="claude-sonnet-5-5",
    ),
    _claude("claude-mythos-preview", "Mythos Preview", "Retired", "usual", successor="claude-mythos-5-2"),
    _claude(
        "claude-opus-4-0",
        "Opus 4",
        "Retired",
        "budget",
        window=200 * K,
        output=32 * K,
        price=(15.0, 75.0, 1.5, 18.75),
        successor="claude-opus-5-5",
    ),
    _claude(
        "claude-sonnet-4-0",
        "Sonnet 4",
        "Retired",
        "budget",
        window=200 * K,
        output=64 * K,
        price=_SONNET,
        successor="claude-sonnet-5-5",
    ),
    _claude(
        "claude-3-7-sonnet-20250219",
        "Sonnet 3.7",
        "Retired",
        "budget",
        window=200 * K,
        output=64 * K,
        price=_SONNET,
        successor="claude-sonnet-5-5",
    ),
    _claude(
        "claude-3-5-sonnet-20241022",
        "Sonnet 3.5",
        "Retired",
        "none",
        window=200 * K,
        output=8192,
        price=_SONNET,
        successor="claude-sonnet-5-5",
    ),
    _claude(
        "claude-3-5-haiku-20241022",
        "Haiku 3.5",
        "Retired",
        "none",
        window=200 * K,
        output=8192,
        price=(0.8, 4.0, 0.08, 1.0),
        successor="claude-haiku-5-5",
    ),
    _claude(
        "claude-3-opus-20240229",
        "Opus 3",
        "Retired",
        "none",
        window=200 * K,
        output=4096,
        price=(15.0, 75.0, 1.5, 18.75),
        successor="claude-opus-5-5",
    ),
    _claude(
        "claude-3-haiku-20240307",
        "Haiku 3",
        "Retired",
        "none",
        window=200 * K,
        output=4096,
        price=(0.25, 1.25, 0.03, 0.3),
        successor="claude-haiku-5-5",
    ),
)

ALIASES: dict[str, str] = {
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}

SNAPSHOTS: dict[str, str] = {
    "claude-haiku-4-5-20251001": "claude-haiku-4-5",
    "claude-opus-4-5-20251101": "claude-opus-4-5",
    "claude-sonnet-4-5-20250929": "claude-sonnet-4-5",
    "claude-opus-4-20250514": "claude-opus-4-0",
    "claude-sonnet-4-20250514": "claude-sonnet-4-0",
    "claude-3-7-sonnet-latest": "claude-3-7-sonnet-20250219",
    "claude-3-5-haiku-latest": "claude-3-5-haiku-20241022",
}
"""Another name of the same model, sent as it was asked for."""

_BY_NAME = {claude.card.model: claude for claude in MODELS}

UNKNOWN = _claude("", "", "Not in this catalogue", "usual", window=200 * K, output=32 * K)
"""What is assumed of a model that came after this was written."""


def known(model: str) -> Claude | None:
    """The model of that name, alias or snapshot."""
    found = _BY_NAME.get(ALIASES.get(model, SNAPSHOTS.get(model, model)))
    if found is not None and model in SNAPSHOTS:
        return replace(found, card=replace(found.card, model=model))
    return found


def claude(model: str) -> Claude:
    """What is known of the model, or assumed."""
    return known(model) or replace(UNKNOWN, card=replace(UNKNOWN.card, model=model, display_name=model))


def current() -> tuple[str, ...]:
    """Names worth suggesting to somebody whose model is gone."""
    return tuple(ALIASES.values())
