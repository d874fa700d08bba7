"""OpenAI's models, as known on 2026-11-01. Offline data: the service has the last word.

Windows and abilities are those of the documentation; a price is left out where it is not known.
"""

from hames.domain.models import ModelCard

PROVIDER = "openai"
AS_OF = "2026-11-01"


def _card(model: str, name: str, *, window: int = 400_000, output: int = 128_000, **more: object) -> ModelCard:
    known: dict[str, object] = {"reasoning": True, "web_search": True, **more}
    return ModelCard(
        provider=PROVIDER,
        model=model,
        display_name=name,
        context_window=window,
        max_output=output,
        **known,  # pyright: ignore[reportArgumentType] - names of the card's own fields
    )


MODELS = (
    _card("gpt-6.1-sol", "GPT-6.1 Sol", description="The most capable"),
    _card("gpt-6.1-terra", "GPT-6.1 Terra", description="Balanced"),
    _card("gpt-6-luna", "GPT-6 Luna", description="Fast and inexpensive"),
    _card("gpt-5.6-sol", "GPT-5.6 Sol"),
    _card("gpt-5.5", "GPT-5.5"),
    _card("gpt-5.4", "GPT-5.4"),
    _card("gpt-5.4-mini", "GPT-5.4 mini"),
    _card("gpt-5.1-codex", "GPT-5.1 Codex"),
    _card("gpt-5", "GPT-5"),
    _card("gpt-5-mini", "GPT-5 mini"),
    _card("gpt-4.1", "GPT-4.1", window=1_047_576, output=32_768, reasoning=False),
    _card("gpt-4.1-mini", "GPT-4.1 mini", window=1_047_576, output=32_768, reasoning=False),
    _card("gpt-4o", "GPT-4o", window=128_000, output=16_384, reasoning=False),
)
DEFAULT = MODELS[0]


def known(model: str) -> ModelCard | None:
    return next((card for card in MODELS if card.model == model), None)


def gpt(model: str) -> ModelCard:
    """The card of a model, known or not: a new one thinks and searches unless its name says otherwise."""
    if (card := known(model)) is not None:
        return card
    reasons = not model.startswith(("gpt-4", "gpt-3", "chatgpt-4"))
    return _card(model, model, reasoning=reasons)
