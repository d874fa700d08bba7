"""The generated table of prices is what the locked version of its source says, and nothing is written by hand twice."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hames.domain.models import Price
from hames.providers import price_table
from hames.providers.anthropic import models as anthropic
from hames.providers.facts import facts_of
from hames.providers.openai import models as openai

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_its_source_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    sys.modules.pop("price_table", None)
    from price_table import table

    moment = datetime.fromisoformat(price_table.AS_OF).replace(tzinfo=UTC)
    assert (ROOT / "src/hames/providers/price_table.py").read_text() == table(moment)


def test_a_model_costs_what_the_table_says_and_a_cache_without_a_price_costs_what_input_costs() -> None:
    opus = anthropic.claude("claude-opus-4-5").card
    assert (opus.context_window, opus.price) == (
        200_000,
        Price(input=5.0, output=25.0, cache_read=0.5, cache_write=6.25),
    )
    assert openai.gpt("gpt-5").price == Price(input=1.25, output=10.0, cache_read=0.125, cache_write=1.25)


def test_every_model_on_offer_has_a_name_and_a_window_and_most_have_a_price() -> None:
    cards = [*(model.card for model in anthropic.MODELS), *openai.MODELS]
    assert all(card.display_name and card.context_window >= 100_000 for card in cards)
    unpriced = {card.model for card in cards if card.price is None}
    assert unpriced == {"claude-fable-5-2", "claude-mythos-5-2", "claude-mythos-preview"}


def test_what_is_priced_by_hand_is_not_in_the_table() -> None:
    for model in ("claude-mythos-5-1", "claude-mythos-5"):
        assert facts_of("anthropic", model).price is None
