"""Which models there are, and what they can be asked for."""

import subprocess
import sys
from collections.abc import Sequence

import pytest

from hames.domain.errors import Misconfigured, UnknownModel
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.ports import Models, Provider
from hames.providers import claude
from hames.providers.catalogue import DEFAULT_MODEL, Catalogue
from hames.testing.clock import FakeClock
from hames.testing.scripts import ScriptedModel, say


def catalogue(**environment: str) -> Catalogue:
    return Catalogue(environment, clock=FakeClock())


@pytest.mark.spec("core/model-haiku", "core/model-sonnet", "core/model-opus")
@pytest.mark.parametrize(
    ("name", "display_name"),
    [
        ("claude-3-haiku-20240307", "Claude Haiku 3"),
        ("claude-3-5-sonnet-20241022", "Claude Sonnet 3.5"),
        ("claude-3-opus-20240229", "Claude Opus 3"),
    ],
)
def test_the_models_of_the_specification_are_known_and_have_successors(name: str, display_name: str) -> None:
    card = catalogue().find(name)
    assert (card.id, card.display_name) == (f"anthropic/{name}", display_name)
    assert not catalogue().find(card.successor).successor


def test_a_model_is_found_by_its_name_its_full_name_and_its_nickname() -> None:
    models: Models = catalogue()
    assert models.find("claude-sonnet-5-5") == models.find("anthropic/claude-sonnet-5-5") == models.find("sonnet")
    assert models.find("anthropic/opus").model == "claude-opus-5-5"


def test_a_snapshot_is_asked_for_by_its_own_name() -> None:
    card = catalogue().find("claude-haiku-4-5-20251001")
    assert (card.model, card.display_name) == ("claude-haiku-4-5-20251001", "Claude Haiku 4.5")


def test_the_default_is_a_current_model() -> None:
    models = catalogue()
    assert models.default == DEFAULT_MODEL
    assert not models.find(models.default).successor


def test_the_default_can_be_another_one() -> None:
    assert Catalogue({}, clock=FakeClock(), default="scripted/hello").default == "scripted/hello"


@pytest.mark.parametrize("name", ["no-such-model", "", "gpt-x", "openai/gpt-x", "claude", "hello"])
def test_a_name_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(UnknownModel, match="no model"):
        catalogue().find(name)


def test_a_typing_mistake_gets_a_suggestion() -> None:
    with pytest.raises(UnknownModel, match=r"did you mean .*anthropic/claude-sonnet-5-5"):
        catalogue().find("claude-sonet-5-5")


def test_a_model_of_tomorrow_is_taken_at_its_word() -> None:
    card = catalogue().find("anthropic/claude-opus-9")
    assert (card.provider, card.model, card.price) == ("anthropic", "claude-opus-9", None)
    with pytest.raises(UnknownModel):
        catalogue().find("anthropic/")


def test_a_missing_key_is_a_sentence_that_says_what_to_do() -> None:
    models = catalogue()
    with pytest.raises(Misconfigured, match="set ANTHROPIC_API_KEY"):
        models.provider(models.find("sonnet"))


@pytest.mark.parametrize("key", ["sk-ant-ä", "two\nlines"])
def test_a_key_that_cannot_be_one_is_not_repeated(key: str) -> None:
    models = catalogue(ANTHROPIC_API_KEY=key)
    with pytest.raises(Misconfigured) as error:
        models.provider(models.find("sonnet"))
    assert key not in str(error.value)


def test_an_address_that_cannot_be_one_is_refused() -> None:
    models = catalogue(ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL="localhost:8080")
    with pytest.raises(Misconfigured, match="ANTHROPIC_BASE_URL"):
        models.provider(models.find("sonnet"))


async def test_one_provider_serves_all_models_of_its_shelf_until_it_is_closed() -> None:
    models = catalogue(ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    provider = models.provider(models.find("sonnet"))
    assert provider is models.provider(models.find("opus"))
    await models.warm(models.find("sonnet"))
    await models.aclose()
    assert provider is not models.provider(models.find("sonnet"))


@pytest.mark.spec("flint/config-claude-reasoning-effort", "flint/config-claude-max-thinking-tokens")
def test_claude_lets_people_choose_effort_thinking_tokens_and_web_search() -> None:
    selectors = {selector.id: selector for selector in catalogue().selectors()}
    assert [choice.id for choice in selectors["reasoning_effort"].choices] == ["default", "low", "medium", "high"]
    assert [choice.id for choice in selectors["max_thinking_tokens"].choices] == ["default", "8000", "16000", "32000"]
    assert [choice.id for choice in selectors["web_search"].choices] == ["off", "on"]
    for selector in selectors.values():
        assert selector.default in {choice.id for choice in selector.choices}
        assert "anthropic/claude-sonnet-5-5" in selector.models
        assert "anthropic/claude-3-haiku-20240307" not in selector.models


def test_cards_are_consistent() -> None:
    models = catalogue()
    names = [card.id for card in models.cards()]
    assert len(names) == len(set(names))
    for card in models.cards():
        assert models.find(card.id) == card
        assert 0 < card.max_output <= card.context_window
        if card.successor:
            assert claude.known(card.successor) is not None


class OtherShelf:
    name = "other"

    def cards(self) -> Sequence[ModelCard]:
        return [self.named("m1")]

    def selectors(self) -> Sequence[Selector]:
        return []

    def known(self, model: str) -> ModelCard | None:
        return self.named(model) if model == "m1" else None

    def named(self, model: str) -> ModelCard:
        return ModelCard(provider="other", model=model, display_name=model)

    def provider(self, card: ModelCard) -> Provider:
        return ScriptedModel([say("Hi")], name=card.provider)


def test_other_shelves_stand_beside_ours() -> None:
    models = Catalogue({}, clock=FakeClock(), shelves=[OtherShelf()])
    assert models.find("m1") == models.find("other/m1")
    assert models.provider(models.find("m1")).name == "other"
    assert "other/m1" in [card.id for card in models.cards()]


def test_looking_at_the_catalogue_loads_neither_http_nor_an_event_loop() -> None:
    code = (
        "import sys; from hames.providers.catalogue import Catalogue; c = Catalogue({}, clock=None); c.find('sonnet');"
        "c.selectors(); print([m for m in ('httpx2', 'ssl', 'asyncio', 'anyio', 'anthropic') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.strip() == "[]"
