"""Claude models: what the generated table of prices and context windows (`price_table`) does not say.

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
from hames.providers.facts import facts_of, price

PROVIDER = "anthropic"
BASE_URL = "https://api.anthropic.com"
DEFAULT = "claude-sonnet-5-5"

Thinking = Literal["none", "budget", "asked", "usual"]


class Claude(Value):
    """A model, and how it wants to be asked. `effort`: it takes an effort level."""

    card: ModelCard
    thinking: Thinking
    effort: bool


K = 1_000
_HAIKU, _SONNET, _OPUS = "claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5-5"


def _claude(
    model: str,
    description: str,
    thinking: Thinking,
    *,
    name: str = "",
    window: int = 1000 * K,
    output: int = 128 * K,
    price: Price | None = None,
    successor: str = "",
) -> Claude:
    """`name`, `window` and `price` are for models that the generated table does not have."""
    facts = facts_of(PROVIDER, model)
    card = ModelCard(
        provider=PROVIDER,
        model=model,
        display_name=facts.name or name,
        description=description,
        context_window=facts.context_window or window,
        max_output=output,
        reasoning=thinking != "none",
        web_search=thinking != "none",
        price=facts.price or price,
        successor=successor,
    )
    return Claude(card=card, thinking=thinking, effort=thinking in ("asked", "usual") or model == "claude-opus-4-5")


_MYTHOS = "For verified organisations"

MODELS: tuple[Claude, ...] = (
    _claude(_SONNET, "Fast and capable", "usual"),
    _claude(_OPUS, "Long-running coding", "usual"),
    _claude(_HAIKU, "Fastest; prompts over 100,000 tokens cost five times as much", "usual"),
    _claude("claude-fable-5-2", "Demanding reasoning", "usual", name="Claude Fable 5.2"),
    _claude("claude-fable-5-1", "Demanding reasoning", "usual"),
    _claude("claude-mythos-5-2", _MYTHOS, "usual", name="Claude Mythos 5.2"),
    _claude("claude-mythos-5-1", _MYTHOS, "usual", name="Claude Mythos 5.1", price=price(10.0, 50.0, 0.25, 12.5)),
    _claude("claude-opus-5", "Before Opus 5.5", "usual"),
    _claude("claude-sonnet-5", "Before Sonnet 5.5", "usual"),
    _claude("claude-fable-5", "Before Fable 5.1", "usual"),
    _claude("claude-mythos-5", _MYTHOS, "usual", name="Claude Mythos 5", price=price(10.0, 50.0, 1.0, 12.5)),
    _claude("claude-opus-4-8", "Before Opus 5", "asked"),
    _claude("claude-opus-4-7", "Before Opus 4.8", "asked"),
    _claude("claude-opus-4-6", "Before Opus 4.7", "asked"),
    _claude("claude-sonnet-4-6", "Before Sonnet 5", "asked", output=64 * K),
    _claude("claude-haiku-4-5", "Before Haiku 5.5", "budget", output=64 * K),
    _claude("claude-opus-4-5", "Before Opus 4.6", "budget", output=64 * K),
    _claude("claude-sonnet-4-5", "To be retired on 30 November 2026", "budget", output=64 * K, successor=_SONNET),
    _claude("claude-mythos-preview", "Retired", "usual", name="Claude Mythos Preview", successor="claude-mythos-5-2"),
    _claude("claude-opus-4-0", "Retired", "budget", output=32 * K, successor=_OPUS),
    _claude("claude-sonnet-4-0", "Retired", "budget", output=64 * K, successor=_SONNET),
    _claude("claude-3-7-sonnet-20250219", "Retired", "budget", output=64 * K, successor=_SONNET),
    _claude("claude-3-5-sonnet-20241022", "Retired", "none", output=8192, successor=_SONNET),
    _claude("claude-3-5-haiku-20241022", "Retired", "none", output=8192, successor=_HAIKU),
    _claude("claude-3-opus-20240229", "Retired", "none", output=4096, successor=_OPUS),
    _claude("claude-3-haiku-20240307", "Retired", "none", output=4096, successor=_HAIKU),
)

ALIASES: dict[str, str] = {
    "sonnet": _SONNET,
    "opus": _OPUS,
    "haiku": _HAIKU,
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

UNKNOWN = _claude("", "Not in this catalogue", "usual", window=200 * K, output=32 * K)
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
