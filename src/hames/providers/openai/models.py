"""OpenAI's models, as data. `AS_OF` says when this was true; the service has the last word.

Prices are those of the standard tier for prompts of up to 272,000 tokens; beyond that the newer
models cost twice as much to read and half as much again to write. None where none was published.
"""

import re

from msgspec.structs import replace

from hames.domain.models import ModelCard, Price

AS_OF = "2026-11"
PROVIDER = "openai"
BASE_URL = "https://api.openai.com/v1"
"""With the version, as the SDK has it; so is OPENAI_BASE_URL."""
DEFAULT = "gpt-6.1-sol"

M = 1_050_000
K = 1_000
Prices = tuple[float, float, float] | tuple[float, float, float, float]
"""Input, output, cached input; and writing to the cache, where that costs more than input."""


def _gpt(
    model: str,
    name: str,
    description: str = "",
    *,
    window: int = M,
    output: int = 128 * K,
    reasoning: bool = True,
    web_search: bool = True,
    images: bool = True,
    price: Prices | None = None,
    successor: str = "",
) -> ModelCard:
    return ModelCard(
        provider=PROVIDER,
        model=model,
        display_name=name,
        description=description or ("To be retired" if successor else ""),
        context_window=window,
        max_output=output,
        reasoning=reasoning,
        web_search=web_search,
        images=images,
        price=None if price is None else _price(price),
        successor=successor,
    )


def _price(price: Prices) -> Price:
    write = price[3] if len(price) == 4 else price[0]
    return Price(input=price[0], output=price[1], cache_read=price[2], cache_write=write)


_OLD = 400 * K
_CHAT = 128 * K

MODELS: tuple[ModelCard, ...] = (
    _gpt("gpt-6.1-sol", "GPT-6.1 Sol", "Complex coding", price=(2.0, 10.0, 0.1)),
    _gpt("gpt-6.1-terra", "GPT-6.1 Terra", "Balanced"),
    _gpt("gpt-6-astra", "GPT-6 Astra", "Demanding, long-running work", price=(10.0, 50.0, 1.0)),
    _gpt("gpt-6-luna", "GPT-6 Luna", "Fast and inexpensive", price=(0.1, 0.5, 0.01, 0.125)),
    _gpt("gpt-6-sol", "GPT-6 Sol", "Before GPT-6.1 Sol", price=(2.0, 10.0, 0.2, 2.5)),
    _gpt("gpt-5.6-sol", "GPT-5.6 Sol", "Before GPT-6 Sol", price=(4.0, 20.0, 0.4)),
    _gpt("gpt-5.6-terra", "GPT-5.6 Terra", "Before GPT-6.1 Terra", price=(2.0, 12.0, 0.2)),
    _gpt("gpt-5.6-luna", "GPT-5.6 Luna", "Before GPT-6 Luna", window=_OLD, price=(0.2, 1.2, 0.02)),
    _gpt("gpt-5.5", "GPT-5.5", price=(5.0, 30.0, 0.5)),
    _gpt("gpt-5.4", "GPT-5.4", price=(2.5, 15.0, 0.25)),
    _gpt("gpt-5.4-mini", "GPT-5.4 mini", window=_OLD, price=(0.75, 4.5, 0.075)),
    _gpt("gpt-5.2", "GPT-5.2", window=_OLD, price=(1.75, 14.0, 0.175)),
    _gpt("gpt-5.4-nano", "GPT-5.4 nano", window=_OLD, successor="gpt-6-luna"),
    _gpt("gpt-5.1", "GPT-5.1", window=_OLD, price=(1.25, 10.0, 0.125), successor="gpt-6.1-sol"),
    _gpt("gpt-5.1-codex", "GPT-5.1 Codex", "Retired", window=_OLD, price=(1.25, 10.0, 0.125), successor="gpt-6.1-sol"),
    _gpt("gpt-5", "GPT-5", window=_OLD, price=(1.25, 10.0, 0.125), successor="gpt-6.1-sol"),
    _gpt("gpt-5-mini", "GPT-5 mini", window=_OLD, price=(0.25, 2.0, 0.025), successor="gpt-6-luna"),
    _gpt("gpt-5-nano", "GPT-5 nano", window=_OLD, price=(0.05, 0.4, 0.005), successor="gpt-6-luna"),
    _gpt("o3", "o3", window=200 * K, output=100 * K, price=(2.0, 8.0, 0.5), successor="gpt-6.1-sol"),
    _gpt(
        "o4-mini", "o4-mini", "Retired", window=200 * K, output=100 * K, price=(1.1, 4.4, 0.275), successor="gpt-6-luna"
    ),
    _gpt(
        "o3-mini",
        "o3-mini",
        "Retired",
        window=200 * K,
        output=100 * K,
        images=False,
        web_search=False,
        price=(1.1, 4.4, 0.55),
        successor="gpt-6-luna",
    ),
    _gpt("o1", "o1", "Retired", window=200 * K, output=100 * K, web_search=False, successor="gpt-6.1-sol"),
    _gpt(
        "gpt-4.1",
        "GPT-4.1",
        window=1_047_576,
        output=32_768,
        reasoning=False,
        price=(2.0, 8.0, 0.5),
        successor="gpt-6.1-sol",
    ),
    _gpt(
        "gpt-4.1-mini",
        "GPT-4.1 mini",
        window=1_047_576,
        output=32_768,
        reasoning=False,
        price=(0.4, 1.6, 0.1),
        successor="gpt-6-luna",
    ),
    _gpt(
        "gpt-4o", "GPT-4o", window=_CHAT, output=16_384, reasoning=False, price=(2.5, 10.0, 1.25), successor="gpt-6-sol"
    ),
    _gpt(
        "gpt-4o-mini",
        "GPT-4o mini",
        window=_CHAT,
        output=16_384,
        reasoning=False,
        price=(0.15, 0.6, 0.075),
        successor="gpt-6-luna",
    ),
    _gpt(
        "gpt-4-turbo",
        "GPT-4 Turbo",
        "Retired",
        window=_CHAT,
        output=4096,
        reasoning=False,
        web_search=False,
        successor="gpt-6.1-sol",
    ),
)

_BY_NAME = {card.model: card for card in MODELS}
_SNAPSHOT = re.compile(r"(?P<model>.+)-\d{4}-\d{2}-\d{2}")
_PLAIN = re.compile(r"gpt-[34]|chatgpt-4")
_PHASED = re.compile(r"gpt-(?:5\.[3-9]|[6-9]|\d\d)")


def known(model: str) -> ModelCard | None:
    """The model of that name, or the one a dated name is a snapshot of; that one is sent as it was asked for."""
    if (card := _BY_NAME.get(model)) is not None:
        return card
    dated = _SNAPSHOT.fullmatch(model)
    card = _BY_NAME.get(dated["model"]) if dated else None
    return replace(card, model=model) if card is not None else None


def gpt(model: str) -> ModelCard:
    """What is known of the model, or assumed: a new one thinks and searches unless its name says otherwise."""
    card = known(model)
    return card or _gpt(model, model, "Not in this catalogue", window=_OLD, reasoning=_PLAIN.match(model) is None)


def phased(model: str) -> bool:
    """Whether it wants to be told which of its messages were commentary and which an answer."""
    return _PHASED.match(model) is not None


def current() -> tuple[str, ...]:
    """Names worth suggesting to somebody whose model is gone."""
    return tuple(card.model for card in MODELS if not card.successor)[:4]
