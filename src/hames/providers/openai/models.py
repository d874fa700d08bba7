"""OpenAI's models: what the generated table of prices and context windows (`price_table`) does not say.

Prices are those of the standard tier for short prompts. The service itself has the last word.
"""

from msgspec.structs import replace

from hames.deferred import pattern
from hames.domain.models import ModelCard
from hames.providers.facts import facts_of

PROVIDER = "openai"
BASE_URL = "https://api.openai.com/v1"
"""With the version, as the SDK has it; so is OPENAI_BASE_URL."""
DEFAULT = "gpt-6.1-sol"

K = 1_000
_SOL, _LUNA = "gpt-6.1-sol", "gpt-6-luna"


def _gpt(
    model: str,
    description: str = "",
    *,
    name: str = "",
    window: int = 0,
    output: int = 128 * K,
    reasoning: bool = True,
    web_search: bool = True,
    images: bool = True,
    successor: str = "",
) -> ModelCard:
    """`name` and `window` are for models where the generated table has none, or another than the service itself."""
    facts = facts_of(PROVIDER, model)
    return ModelCard(
        provider=PROVIDER,
        model=model,
        display_name=name or facts.name,
        description=description or ("To be retired" if successor else ""),
        context_window=window or facts.context_window,
        max_output=output,
        reasoning=reasoning,
        web_search=web_search,
        images=images,
        price=facts.price,
        successor=successor,
    )


MODELS: tuple[ModelCard, ...] = (
    _gpt(_SOL, "Complex coding"),
    _gpt("gpt-6.1-terra", "Balanced"),
    _gpt("gpt-6-astra", "Demanding, long-running work"),
    _gpt(_LUNA, "Fast and inexpensive"),
    _gpt("gpt-6-sol", "Before GPT-6.1 Sol"),
    _gpt("gpt-5.6-sol", "Before GPT-6 Sol"),
    _gpt("gpt-5.6-terra", "Before GPT-6.1 Terra"),
    _gpt("gpt-5.6-luna", "Before GPT-6 Luna", window=400 * K),
    _gpt("gpt-5.5", window=1_050_000),
    _gpt("gpt-5.4"),
    _gpt("gpt-5.4-mini"),
    _gpt("gpt-5.2"),
    _gpt("gpt-5.4-nano", successor=_LUNA),
    _gpt("gpt-5.1", successor=_SOL),
    _gpt("gpt-5.1-codex", "Retired", name="GPT-5.1 Codex", successor=_SOL),
    _gpt("gpt-5", successor=_SOL),
    _gpt("gpt-5-mini", successor=_LUNA),
    _gpt("gpt-5-nano", successor=_LUNA),
    _gpt("o3", output=100 * K, successor=_SOL),
    _gpt("o4-mini", "Retired", name="o4-mini", output=100 * K, successor=_LUNA),
    _gpt("o3-mini", "Retired", name="o3-mini", output=100 * K, images=False, web_search=False, successor=_LUNA),
    _gpt("o1", "Retired", output=100 * K, web_search=False, successor=_SOL),
    _gpt("gpt-4.1", name="GPT-4.1", window=1_047_576, output=32_768, reasoning=False, successor=_SOL),
    _gpt("gpt-4.1-mini", name="GPT-4.1 mini", window=1_047_576, output=32_768, reasoning=False, successor=_LUNA),
    _gpt("gpt-4o", name="GPT-4o", output=16_384, reasoning=False, successor="gpt-6-sol"),
    _gpt("gpt-4o-mini", name="GPT-4o mini", output=16_384, reasoning=False, successor=_LUNA),
    _gpt("gpt-4-turbo", "Retired", name="GPT-4 Turbo", output=4096, reasoning=False, web_search=False, successor=_SOL),
)

_BY_NAME = {card.model: card for card in MODELS}
_SNAPSHOT = pattern(r"(?P<model>.+)-\d{4}-\d{2}-\d{2}")
_PLAIN = pattern(r"gpt-[34]|chatgpt-4")
_FREEFORM = pattern(r"gpt-(?:[5-9]|\d\d)(?!\d)")
_PHASED = pattern(r"gpt-(?:5\.[3-9]|[6-9]|\d\d)")


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
    return card or _gpt(
        model, "Not in this catalogue", name=model, window=400 * K, reasoning=_PLAIN.match(model) is None
    )


def has_message_phases(model: str) -> bool:
    """Whether it wants to be told which of its messages were commentary and which an answer."""
    return _PHASED.match(model) is not None


def takes_freeform_tools(model: str) -> bool:
    """Whether it can write plain text for a tool instead of JSON."""
    return _FREEFORM.match(model) is not None


def current() -> tuple[str, ...]:
    """Names worth suggesting to somebody whose model is gone."""
    return tuple(card.model for card in MODELS if not card.successor)[:4]
