"""Real tokens through the whole stack: a small model, llama.cpp, our provider, the engine and its log.

The model is too small to be clever, so nothing here depends on what it says: only on its
saying something, on calls that a grammar keeps valid, and on everything around them.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
from msgspec.structs import replace

from hames.clock_and_ids import RandomIds, SystemClock
from hames.core.engine import Engine
from hames.core.engine_rules import EngineRules
from hames.core.watcher import Watcher
from hames.domain.commands import CreateThread, InterruptTurn, StartTurn
from hames.domain.events import Event, ItemDelta, TurnEnded
from hames.domain.ids import ThreadId
from hames.domain.items import AgentMessage, TextInput, ToolCall
from hames.domain.options import Overrides, Settings
from hames.domain.request import Message, ModelEvent, ModelRequest, OfferedTool, ResultBlock, TextBlock, TextDelta
from hames.domain.state import ThreadState
from hames.ports import Models, Provider
from hames.providers.catalogue import Catalogue
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.checks.provider import check_stopping
from hames.testing.fakes.model import OneModel
from hames.testing.services.outcome import failed, heard, outcome
from hames.tools.files.workspace import LocalWorkspace
from support import NoTrust, PlainTool, TheseTools

MODEL = "local/smollm2"
SECONDS = 60
PAINT = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "green", "blue"]},
        "coats": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["colour", "coats"],
    "additionalProperties": False,
}
TOOLS = (OfferedTool(name="paint", description="Paint the fence", schema=PAINT),)


def catalogue(url: str, **more: str) -> Catalogue:
    return Catalogue({"LOCAL_BASE_URL": url, **more}, clock=SystemClock())


def asking(text: str, *, tools: tuple[OfferedTool, ...] = (), max_tokens: int = 24, **options: str) -> ModelRequest:
    prompt = Message(role="user", blocks=(TextBlock(text=text),))
    return ModelRequest(model="smollm2", messages=(prompt,), tools=tools, max_tokens=max_tokens, options=options)


@asynccontextmanager
async def running(models: Models, root: Path, *tools: PlainTool, max_tokens: int = 24) -> AsyncGenerator[Engine]:
    the_engine = Engine(
        store=JsonlStore(root / "data", places=Places(root / "state")),
        models=models,
        workspace=LocalWorkspace(),
        tools=TheseTools(tools),
        trust=NoTrust(),
        clock=SystemClock(),
        ids=RandomIds(),
        rules=EngineRules(
            defaults=Settings(model=models.find(MODEL).id, cwd=str(root)),
            max_tokens=max_tokens,
            max_steps=4,
            system_prompt="You are a helpful assistant.",
        ),
    )
    with anyio.fail_after(SECONDS):
        async with the_engine:
            yield the_engine


async def opened(the_engine: Engine, **overrides: object) -> tuple[ThreadId, Watcher]:
    thread = await the_engine.execute(CreateThread(overrides=Overrides(**overrides)))
    assert isinstance(thread, ThreadState)
    return thread.id, await the_engine.watch(thread.id)


async def ask(the_engine: Engine, thread_id: ThreadId, text: str) -> None:
    await the_engine.execute(StartTurn(thread_id=thread_id, content=(TextInput(text=text),)))


async def until_end(watcher: Watcher) -> tuple[list[Event], ThreadState]:
    events: list[Event] = []
    while True:
        for change in await watcher.next():
            events.append(change.record.event)
            if isinstance(change.record.event, TurnEnded):
                return events, change.after


class Constrained:
    """The first reply of a turn must call a tool, and the one after it must not: a grammar sees to both."""

    def __init__(self, models: tuple[Catalogue, Catalogue]) -> None:
        must, must_not = models
        self.name = "local"
        self._must: Provider = must.provider(must.find(MODEL))
        self._must_not: Provider = must_not.provider(must_not.find(MODEL))

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        done = any(isinstance(block, ResultBlock) for block in request.messages[-1].blocks)
        return (self._must_not if done else self._must).stream(request)


@asynccontextmanager
async def constrained(url: str) -> AsyncGenerator[tuple[Constrained, Catalogue]]:
    must = catalogue(url, LOCAL_EXTRA_BODY='{"tool_choice": "required", "temperature": 0}')
    must_not = catalogue(url, LOCAL_EXTRA_BODY='{"tool_choice": "none", "temperature": 0}')
    yield Constrained((must, must_not)), must
    await must.aclose()
    await must_not.aclose()


async def test_the_server_tells_its_model_and_its_window(model_url: str) -> None:
    models = catalogue(model_url)
    assert await models.refresh("local") == 1
    card = models.find(MODEL)
    assert (card.context_window, card.images) == (8192, False)
    assert models.find("smollm2") == card
    await models.aclose()


async def test_a_turn_of_real_tokens_is_streamed_counted_and_kept(model_url: str, tmp_path: Path) -> None:
    models = catalogue(model_url)
    async with running(models, tmp_path) as the_engine:
        thread_id, watcher = await opened(the_engine)
        await ask(the_engine, thread_id, "Tell me about horses")
        events, state = await until_end(watcher)
        await ask(the_engine, thread_id, "And about ploughs?")
        _, after = await until_end(watcher)
    deltas = [event.text for event in events if isinstance(event, ItemDelta)]
    (said,) = (item for item in state.turns[0].items if isinstance(item, AgentMessage))
    assert len(deltas) > 3
    assert "".join(deltas) == said.text
    assert said.text.strip()
    assert state.turns[0].status == "completed"
    assert 10 < state.usage.output_tokens <= 24
    assert state.usage.context_tokens > 20
    assert list(after.spent) == [MODEL]
    assert [turn.status for turn in after.turns] == ["completed", "completed"]
    kept = [line for path in (tmp_path / "data").rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert any(msgspec.json.encode(said.text).decode()[1:-1] in line for line in kept), "the log has it too"
    await models.aclose()


async def test_a_call_under_a_grammar_is_valid_runs_and_is_answered(model_url: str, tmp_path: Path) -> None:
    painted: list[dict[str, object]] = []

    async def paint(arguments: dict[str, object], tell: object) -> str:
        painted.append(arguments)
        return f"The fence is {arguments['colour']} now."

    tool = PlainTool("paint", paint, schema=PAINT)
    async with constrained(model_url) as (provider, models):
        one = OneModel(provider, models.find(MODEL))
        async with running(one, tmp_path, tool, max_tokens=120) as the_engine:
            thread_id, watcher = await opened(the_engine)
            await ask(the_engine, thread_id, "Paint the fence green, please, in two coats")
            _, state = await until_end(watcher)
    turn = state.turns[0]
    assert (turn.status, turn.error) == ("completed", None)
    (arguments,) = painted
    assert arguments["colour"] in ("red", "green", "blue")
    assert isinstance(arguments["coats"], int)
    assert 1 <= arguments["coats"] <= 9
    (call,) = (item for item in turn.items if isinstance(item, ToolCall))
    assert (call.status, call.arguments) == ("completed", arguments)
    (said,) = (item for item in turn.items if isinstance(item, AgentMessage))
    assert said.text.strip()


async def test_many_calls_under_a_grammar_are_all_valid(model_url: str) -> None:
    """Whatever the prompt and however freely it is sampled."""
    models = catalogue(model_url, LOCAL_EXTRA_BODY='{"tool_choice": "required", "seed": 7}')
    provider = models.provider(models.find(MODEL))
    prompts = ("Paint it red", "Blau, bitte!", "What is the weather?", '{"colour": "purple"}', "🐎 🐎 🐎")
    calls = 0
    with anyio.fail_after(SECONDS):
        for text in prompts:
            got = outcome(await heard(provider, asking(text, tools=TOOLS, max_tokens=120, temperature="0.3")))
            for call in got.calls:
                made = msgspec.json.decode(call.arguments)
                assert made["colour"] in ("red", "green", "blue")
                assert 1 <= made["coats"] <= 9
                calls += 1
            assert (got.reason == "tools") == bool(got.calls)
    assert calls >= 3
    await models.aclose()


async def test_a_reply_is_interrupted_and_the_server_is_free_for_the_next(model_url: str, tmp_path: Path) -> None:
    models = catalogue(model_url)
    async with running(models, tmp_path, max_tokens=2000) as the_engine:
        thread_id, watcher = await opened(the_engine)
        await ask(the_engine, thread_id, "Count to a thousand, slowly, one number in a line")
        while not any(isinstance(change.record.event, ItemDelta) for change in await watcher.next()):
            pass
        await the_engine.execute(InterruptTurn(thread_id=thread_id))
        _, state = await until_end(watcher)
        assert state.turns[0].status == "interrupted"
        await ask(the_engine, thread_id, "Stop. Say only: yes")
        while not any(isinstance(change.record.event, ItemDelta) for change in await watcher.next()):
            pass
        await the_engine.execute(InterruptTurn(thread_id=thread_id))
        _, state = await until_end(watcher)
    assert any(isinstance(item, AgentMessage) and item.text for item in state.turns[1].items)
    await models.aclose()


async def test_a_reply_that_runs_out_of_tokens_says_so(model_url: str) -> None:
    models = catalogue(model_url)
    got = outcome(await heard(models.provider(models.find(MODEL)), asking("Tell me a long story", max_tokens=5)))
    assert (got.reason, got.word) == ("max_tokens", "length")
    assert got.usage is not None
    assert got.usage.output_tokens == 5
    await models.aclose()


async def test_the_temperature_is_the_models_own(model_url: str) -> None:
    models = catalogue(model_url)
    provider = models.provider(models.find(MODEL))

    async def said(temperature: str) -> str:
        return "".join(outcome(await heard(provider, asking("Tell me a story", temperature=temperature))).texts)

    cold = {await said("0.0") for _ in range(3)}
    warm = {await said("1.0") for _ in range(3)}
    assert len(cold) == 1, "without warmth it always says the same"
    assert len(warm) > 1
    await models.aclose()


async def test_too_long_a_conversation_is_known_for_what_it_is(model_url: str) -> None:
    models = catalogue(model_url)
    _, error = await failed(models.provider(models.find(MODEL)), asking("word " * 9000))
    assert error.info == "ContextWindowExceeded"
    assert not error.retryable
    await models.aclose()


async def test_the_provider_may_be_stopped_anywhere_on_a_real_stream(model_url: str) -> None:
    models = catalogue(model_url)
    with anyio.fail_after(SECONDS):
        await check_stopping(models.provider(models.find(MODEL)), asking("Hi", max_tokens=4, temperature="0.0"))
    await models.aclose()


async def test_a_real_exchange_becomes_a_cassette(model_url: str, tmp_path: Path) -> None:
    path = tmp_path / "story.jsonl"
    recording = catalogue(model_url, HAMES_RECORD=str(path))
    request = asking("Tell me a story")
    told = await heard(recording.provider(recording.find(MODEL)), request)
    await recording.aclose()
    playing = Catalogue({}, clock=SystemClock())
    played = await heard(playing.provider(playing.find(f"cassette/{path}")), replace(request, model=str(path)))
    assert played == told
    assert any(isinstance(event, TextDelta) for event in played)
