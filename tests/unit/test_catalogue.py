"""Which models there are, and what they can be asked for."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec
import pytest

from hames.domain.cost import cost
from hames.domain.errors import Misconfigured, ProviderError, UnknownModel
from hames.domain.events import Record, ThreadCreated, TurnStarted, UsageReported
from hames.domain.ids import ThreadId, TurnId
from hames.domain.json import Json
from hames.domain.models import ModelCard, Price
from hames.domain.options import Selector, Settings
from hames.domain.state import apply, blank
from hames.domain.usage import Usage
from hames.ports import Models, Provider
from hames.providers.catalogue import DEFAULT_MODEL, Catalogue
from hames.testing.fakes.clock import FakeClock
from hames.testing.fakes.model import ScriptedModel, say
from hames.testing.services.chat import ChatDialect
from hames.testing.services.server import ProviderServer, ServerReply, raw


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
    assert card.successor
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


@pytest.mark.parametrize("name", ["no-such-model", "", "gpt-x", "elsewhere/gpt-x", "claude", "hello", "llama3.2"])
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
        always_thinks = selector.id == "thinking"
        assert ("anthropic/claude-sonnet-5-5" in selector.models) is not always_thinks
        assert "anthropic/claude-3-haiku-20240307" not in selector.models


def test_shelves_that_offer_the_same_choice_offer_it_once() -> None:
    models = catalogue()
    models.find("ollama/llama3.2")
    models.find("local/qwen")
    names = [selector.id for selector in models.selectors()]
    assert len(names) == len(set(names))
    selectors = {selector.id: selector for selector in models.selectors()}
    assert {"anthropic/claude-sonnet-5-5", "openai/gpt-6.1-sol"} <= set(selectors["reasoning_effort"].models)
    assert "openai/gpt-4.1" not in selectors["reasoning_effort"].models
    assert "openai/o1" not in selectors["web_search"].models
    assert set(selectors["temperature"].models) == {"ollama/llama3.2", "local/qwen"}


@pytest.mark.spec("flint/config-local-temperature", "flint/config-local-context-length")
def test_local_models_let_people_choose_temperature_and_context_length() -> None:
    models = catalogue()
    assert "temperature" not in {selector.id for selector in models.selectors()}, "nobody could use it yet"
    models.find("ollama/llama3.2")
    selectors = {selector.id: selector for selector in models.selectors()}
    assert [choice.id for choice in selectors["temperature"].choices] == ["default", "0.0", "0.3", "0.7", "1.0"]
    assert [choice.id for choice in selectors["context_length"].choices] == ["default", "4096", "8192", "16384"]
    assert selectors["temperature"].models == selectors["context_length"].models == ("ollama/llama3.2",)


def test_openai_is_served_with_its_own_key_and_address() -> None:
    models = catalogue()
    assert models.find("gpt-6.1-sol").id == "openai/gpt-6.1-sol"
    assert models.find("gpt-5.5-2026-04-23").display_name == "GPT-5.5"
    assert models.find("openai/gpt-9").reasoning
    with pytest.raises(Misconfigured, match="set OPENAI_API_KEY"):
        models.provider(models.find("gpt-6.1-sol"))
    wrong = catalogue(OPENAI_API_KEY="k", OPENAI_BASE_URL="localhost:8080")
    with pytest.raises(Misconfigured, match="OPENAI_BASE_URL"):
        wrong.provider(wrong.find("gpt-6.1-sol"))


def test_a_server_is_named_and_its_model_may_be_called_anything() -> None:
    models = catalogue(OPENROUTER_API_KEY="k")
    card = models.find("openrouter/meta-llama/llama-4")
    assert (card.provider, card.model) == ("openrouter", "meta-llama/llama-4")
    assert models.provider(card).name == "openrouter"
    with pytest.raises(UnknownModel):
        models.find("ollama/")


def test_extra_members_must_be_an_object() -> None:
    models = catalogue(LOCAL_EXTRA_BODY="[1]")
    with pytest.raises(Misconfigured, match="LOCAL_EXTRA_BODY"):
        models.provider(models.find("local/m"))


class Lists(ChatDialect):
    """A server that only lists."""

    path = "/v1/models"

    def refuses(self, body: Json) -> str:
        return ""


def listing(*rows: Json, status: int = 200) -> ServerReply:
    body = msgspec.json.encode({"object": "list", "data": rows})
    return raw(body, status=status, headers={"content-type": "application/json"})


ROWS: tuple[Json, ...] = (
    {"id": "plain", "object": "model"},
    {"id": "of-vllm", "max_model_len": 16_000},
    {"id": "/models/of llama.cpp.gguf", "meta": {"n_ctx_train": 8192}},
    {"id": "of-llama.cpp", "meta": {"n_ctx": 8192}, "architecture": {"input_modalities": ["text"]}},
    {
        "id": "of/openrouter",
        "name": "Of OpenRouter",
        "context_length": 131_072,
        "top_provider": {"max_completion_tokens": 16_384},
        "pricing": {"prompt": "0.000002", "completion": "0.00001", "input_cache_read": "0.0000002"},
        "architecture": {"input_modalities": ["text", "image"]},
        "supported_parameters": ["tools", "reasoning"],
    },
    {"id": "deaf", "supported_parameters": ["temperature"], "pricing": {"prompt": "free"}},
    {"id": "of-mistral", "capabilities": {"function_calling": False, "vision": True}, "max_context_length": 32_000},
    {"id": ""},
    {"name": 3},
    "not a row",
)


async def test_a_server_tells_its_own_models(tmp_path: Path) -> None:
    async with ProviderServer(Lists(), listing(*ROWS)) as server:
        models = Catalogue({"LOCAL_BASE_URL": server.url + "/v1"}, clock=FakeClock(), cache=tmp_path)
        assert await models.refresh("local") == 6
        await models.aclose()
    cards = {card.model: card for card in models.cards() if card.provider == "local"}
    assert list(cards) == ["plain", "of-vllm", "of-llama.cpp", "of/openrouter", "deaf", "of-mistral"]
    assert cards["plain"].context_window == 32_768
    assert (cards["of-vllm"].context_window, cards["of-vllm"].max_output) == (16_000, 4000)
    assert (cards["of-llama.cpp"].context_window, cards["of-llama.cpp"].images) == (8192, False)
    told = cards["of/openrouter"]
    assert (told.display_name, told.context_window, told.max_output) == ("Of OpenRouter", 131_072, 16_384)
    assert told.tools
    assert told.reasoning
    assert told.price is not None
    assert (round(told.price.input, 6), round(told.price.cache_read, 6)) == (2.0, 0.2)
    assert (cards["deaf"].tools, cards["deaf"].price) == (False, None)
    assert (cards["of-mistral"].tools, cards["of-mistral"].images) == (False, True)
    assert models.find("plain").id == "local/plain"
    assert "local/plain" in next(s for s in models.selectors() if s.id == "temperature").models

    again = Catalogue({"LOCAL_BASE_URL": server.url + "/v1"}, clock=FakeClock(), cache=tmp_path)
    assert {card.model for card in again.cards() if card.provider == "local"} == set(cards), "remembered"
    elsewhere = Catalogue({"LOCAL_BASE_URL": "http://127.0.0.1:9/v1"}, clock=FakeClock(), cache=tmp_path)
    assert [card for card in elsewhere.cards() if card.provider == "local"] == [], "another server has other models"


async def test_what_was_remembered_may_be_lost_or_broken(tmp_path: Path) -> None:
    (tmp_path / "models-local.json").write_text("{")
    assert Catalogue({}, clock=FakeClock(), cache=tmp_path).find("sonnet")
    async with ProviderServer(Lists(), listing({"id": "m"})) as server:
        nowhere = Catalogue(
            {"LOCAL_BASE_URL": server.url + "/v1"}, clock=FakeClock(), cache=tmp_path / "models-local.json" / "x"
        )
        assert await nowhere.refresh("local") == 1
        await nowhere.aclose()


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"data": 3}', b"[" * 5000])
async def test_what_is_no_list_is_said_to_be_none(body: bytes) -> None:
    async with ProviderServer(Lists(), raw(body)) as server:
        models = catalogue(LOCAL_BASE_URL=server.url + "/v1")
        with pytest.raises(ProviderError, match="no list of models"):
            await models.refresh("local")
        await models.aclose()


async def test_a_list_that_is_refused_is_an_error_that_says_why() -> None:
    async with ProviderServer(Lists(), listing(status=401)) as server:
        models = catalogue(LOCAL_BASE_URL=server.url + "/v1")
        with pytest.raises(ProviderError, match="LOCAL_API_KEY"):
            await models.refresh("local")
        await models.aclose()


@pytest.mark.parametrize("name", ["scripted", "cassette", "nobody"])
async def test_who_has_no_list_says_so(name: str) -> None:
    with pytest.raises(UnknownModel, match="no list"):
        await catalogue().refresh(name)


@pytest.mark.parametrize(
    ("url", "said"),
    [("http://127.0.0.1:9/v1", "Served by 127.0.0.1:9"), ("http://ada:secret@box.test/v1", "Served by box.test")],
)
def test_a_model_of_a_server_without_a_name_says_the_address_and_no_password(url: str, said: str) -> None:
    card = catalogue(COMPATIBLE_BASE_URL=url).find("compatible/coder")
    assert card.description == said


def test_only_those_who_can_be_asked_are_asked_for_their_models() -> None:
    assert list(catalogue().refreshable()) == ["ollama", "local", "lmstudio", "vllm"]
    assert "openai" in catalogue(OPENAI_API_KEY="k").refreshable()
    assert "compatible" in catalogue(COMPATIBLE_BASE_URL="http://127.0.0.1:9/v1").refreshable()


async def test_a_model_openai_made_since_is_learned_from_its_list() -> None:
    rows = ({"id": "gpt-7"}, {"id": "gpt-6.1-sol"}, {"id": "gpt-7-realtime"}, {"id": "whisper-1"})
    async with ProviderServer(Lists(), listing(*rows)) as server:
        models = catalogue(OPENAI_API_KEY="k", OPENAI_BASE_URL=server.url + "/v1")
        before = len(models.cards())
        assert await models.refresh("openai") == 4
        await models.aclose()
    assert len(models.cards()) == before + 1
    assert models.find("gpt-7").id == "openai/gpt-7"
    assert server.seen[0].headers["authorization"] == "Bearer k"


async def test_a_model_anthropic_made_since_is_learned_from_its_list() -> None:
    row = {"id": "claude-opus-9", "display_name": "Claude Opus 9", "max_input_tokens": 2_000_000, "max_tokens": 64_000}
    async with ProviderServer(Lists(), listing(row, {"id": "claude-sonnet-5-5"})) as server:
        models = catalogue(ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL=server.url)
        await models.refresh("anthropic")
        await models.aclose()
    card = models.find("claude-opus-9")
    assert (card.display_name, card.context_window, card.max_output) == ("Claude Opus 9", 2_000_000, 64_000)


async def test_warming_up_asks_a_server_for_its_models_and_does_not_mind_when_it_is_away() -> None:
    async with ProviderServer(Lists(), listing({"id": "m", "max_model_len": 4096})) as server:
        models = catalogue(LOCAL_BASE_URL=server.url + "/v1")
        await models.warm(models.find("local/m"))
        assert models.find("local/m").context_window == 4096
        await models.aclose()
    away = catalogue(LOCAL_BASE_URL=server.url + "/v1")
    with anyio.fail_after(60):
        await away.warm(away.find("local/m"))
    await away.aclose()


def test_tokens_cost_what_the_model_costs() -> None:
    models = catalogue()
    usage = Usage(
        input_tokens=1_000_000, output_tokens=500_000, cache_read_tokens=2_000_000, cache_write_tokens=400_000
    )

    def price(model: str) -> Price | None:
        return models.find(model).price

    assert cost({"anthropic/claude-sonnet-5-5": usage}, price) == 2.0 + 5.0 + 0.2 + 1.0
    assert cost({"anthropic/claude-sonnet-5-5": usage, "ollama/llama3.2": usage}, price) is None
    assert cost({}, price) == 0.0


def test_a_turn_and_its_thread_know_what_they_spent_on_which_model() -> None:
    created = ThreadCreated(settings=Settings(model="a", cwd="/"))
    one, two = TurnId("t1"), TurnId("t2")
    usage = Usage(input_tokens=3)
    events = (
        created,
        TurnStarted(turn_id=one),
        UsageReported(turn_id=one, model="a", usage=usage),
        UsageReported(turn_id=one, model="a", usage=usage),
        TurnStarted(turn_id=two),
        UsageReported(turn_id=two, model="b", usage=usage),
    )
    state = blank(ThreadId("th"))
    for seq, event in enumerate(events, start=1):
        state = apply(state, Record(seq=seq, at_ms=0, thread_id=state.id, event=event))
    assert [turn.spent for turn in state.turns] == [{"a": usage + usage}, {"b": usage}]
    assert state.spent == {"a": usage + usage, "b": usage}


def test_cards_are_consistent() -> None:
    models = catalogue()
    names = [card.id for card in models.cards()]
    assert len(names) == len(set(names))
    for card in models.cards():
        assert models.find(card.id) == card
        assert 0 < card.max_output <= card.context_window
        if card.successor:
            successor = models.find(f"{card.provider}/{card.successor}")
            assert successor in models.cards()
            assert not successor.successor


class OtherSource:
    name = "other"
    usable = True

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
    models = Catalogue({}, clock=FakeClock(), sources=[OtherSource()])
    assert models.find("m1") == models.find("other/m1")
    assert models.provider(models.find("m1")).name == "other"
    assert "other/m1" in [card.id for card in models.cards()]


def test_looking_at_the_catalogue_loads_neither_http_nor_an_event_loop() -> None:
    code = (
        "import sys; from pathlib import Path; from hames.providers.catalogue import Catalogue;"
        "c = Catalogue({}, clock=None, cache=Path('nowhere')); c.find('sonnet'); c.find('ollama/m');"
        "c.selectors(); print([m for m in ('httpx2', 'ssl', 'asyncio', 'anyio', 'anthropic') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.strip() == "[]"
